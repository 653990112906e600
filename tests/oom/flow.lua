-- A flow: a source, stages in order and with tries, a step, errors. However it has run out of memory, it can be
-- stopped. Where no memory is left to end a stage, `stop` raises the error of which that has died, which may be that of
-- the call.
local t = ...
local rn = require "runnel"
local flow = require "runnel.flow"

local N = 3
local _, got = t.ledger(N)
local f = false

local function source(put)
  for v = 1, N do put(v) end
end

local function call(v)
  if v % 2 == 0 then rn.yield() end
  if v == 3 then error("not enough memory: call 3", 0) end
  return v
end

local function step(v, put) put(v) end

local function save(v) got[v] = got[v] + 1 end

local function bad(record) got[record.value] = got[record.value] + 1 end

local function attempt()
  f = flow("f", {
    source = { source = source },
    call = { call, n = 3, tries = 2, backoff = 0 },
    step = { step = step, n = 2 },
    save = save,
    bad = bad,
    "source > call > step > save", "call.error, step.error > bad",
  })
  f:start()
  rn.run()
end

-- A value that was left is a record, in the stage for errors.
local function count_left()
  for _, entry in ipairs(f:stop()) do
    local v = entry.value
    if type(v) == "table" then v = v.value end
    if v ~= nil then got[v] = got[v] + 1 end -- nil: the error was that of the source
  end
end

local function check()
  if not f then return end
  f:resume()
  local ok, err = pcall(count_left)
  if not ok then t.expected(err) end
  assert(f:done():closed(), "it goes on although it was stopped")
  for v = 1, N do
    assert(got[v] <= 1, "a value was doubled")
    if t.refused() == 0 then assert(got[v] == 1, "a value was lost") end
  end
end

return attempt, check
