---`runnel test FILE...`: busted in this executable. Operations of a spec that wait run the scheduler. A test fails if
---one of its go blocks raises an error that is not handled. Before a test is judged, what is ready runs, so that such
---an error comes while its test can still fail. An error of a go block that an earlier test has left is an error
---of that test.

local core = require "runnel.core"
local inspect = require "runnel.host.inspect"
local internal = core.internal

local found, runner = pcall(require, "busted.runner")

-- How many turns all go blocks together get after a test, at most: one that never waits would run for ever.
local MOST_TURNS = 10000

-- The elements of busted that are watched: their executors, and the functions of tests.
local WATCHED = { file = true, describe = true, it = true }

local handler -- the error handler that the specs have set, or nil

-- The errors that nobody took and that have not been told yet.
---@type { name: string, err: any, text: string }[]
local unheard = {}

-- The go blocks that had not ended when their test did.
---@type { result: runnel.Channel<any>, name: string, test: table }[]
local left = {}

local function collect(err, trace, name)
  if handler then return handler(err, trace, name) end
  unheard[#unheard + 1] = { name = name, err = err, text = ("error in %s, which nobody took: %s\n%s"):format(name,
    internal.error_text(err), trace or "") }
end

-- Makes `collect` the error handler; it calls the one that the specs have set meanwhile.
local function listen()
  local current = core.on_error(collect)
  if current ~= collect then handler = current end
end

-- Variables to be closed: they act however the function of a test ends. No pcall, since busted finds the line of an
-- error on the stack.
local Ready = setmetatable({}, { __close = function()
  local ready, turns = 1, 0
  repeat
    turns = turns + ready
    core.yield()
    ready = inspect.world().ready
  until ready == 0 or turns >= MOST_TURNS
end })
local Reported = setmetatable({}, { __close = function()
  listen()
  internal.report_unhandled()
end })

-- Raises the error of the function, or those of its go blocks that nobody took.
local function run_watched(run, take_errors)
  do
    local _ <close> = Reported
    local _ <close> = Ready
    run()
  end
  local text = take_errors()
  if text then error(text, 0) end
end

-- Whether a go block has ended with an error. A result is left where it is.
local function died_of(result, err)
  if not internal.has_ended(result) or #result > 0 then return false end
  local _, reason = result:poll()
  return rawequal(reason, err)
end

-- The test that has left the go block of that name which has died of the error; nil if there is none.
local function whose(name, err)
  for i, block in ipairs(left) do
    if block.name == name and died_of(block.result, err) then return table.remove(left, i).test end
  end
end

local function note_left(test)
  local known, now = {}, {}
  for _, block in ipairs(left) do known[block.result] = block end
  for _, entry in ipairs(core.ps()) do
    local result = entry.result
    now[#now + 1] = { result = result, name = entry.name, test = known[result] and known[result].test or test }
  end
  left = now
end

-- Makes busted watch what it runs: the function of each test; and the whole of each test, describe and file, with what
-- runs before and after it.
local function watch(busted)
  local safe = busted.safe
  local depth = 0
  local is_running = {} -- the elements whose executors run
  local of_others = {} -- errors of earlier tests: { test, text }

  -- The text of the errors of what runs now, or nil.
  local function take_errors()
    local texts = {}
    for _, one in ipairs(unheard) do
      local test = whose(one.name, one.err)
      if test then of_others[#of_others + 1] = { test = test, text = one.text } else texts[#texts + 1] = one.text end
    end
    unheard = {}
    return texts[1] and table.concat(texts, "\n")
  end

  local function tell(element, text)
    if text then safe(element.descriptor, function() error(text, 0) end, element) end
  end

  function busted.safe(descriptor, run, element)
    local is_whole = not is_running[element]
    if not WATCHED[descriptor] or descriptor == "it" and element.descriptor ~= "it"
      or descriptor ~= "it" and not is_whole then
      return safe(descriptor, run, element)
    end
    is_running[element], depth = true, depth + 1
    if depth == 1 then listen() end
    local results = table.pack(safe(descriptor, function() run_watched(run, take_errors) end, element))
    tell(element, take_errors()) -- beside the error that it has raised itself
    local others = of_others
    of_others = {}
    for _, one in ipairs(others) do tell(one.test, one.text) end
    if is_whole then
      is_running[element] = nil
      if descriptor == "it" then note_left(element) end
    end
    depth = depth - 1
    if depth == 0 then core.on_error(handler) end
    return table.unpack(results, 1, results.n)
  end

  return busted
end

local function is_there(path)
  local file = io.open(path)
  return file ~= nil and file:close()
end

---@param ... string busted's arguments
return function(...)
  if not found then
    local is_missing = tostring(runner):find "^module 'busted.runner' not found"
    io.stderr:write("runnel test needs busted (Debian's lua-busted, LuaRocks' busted)",
      is_missing and "; no folder of package.path has it\n" or ":\n" .. tostring(runner) .. "\n")
    os.exit(1)
  end
  if ... == nil and not is_there "spec" and not is_there ".busted" then
    io.stderr:write("runnel test: which files? Name them, as in: runnel test spec/main_spec.lua\n"
      .. "(without a name it runs the files *_spec.lua of the folder spec, and there is no such folder here)\n")
    os.exit(2)
  end
  local new_busted = require "busted.core"
  package.loaded["busted.core"] = function(...) return watch(new_busted(...)) end
  arg = { [0] = "runnel test", "--ignore-lua", ... } -- luacheck: ignore 121
  runner { standalone = false }
end
