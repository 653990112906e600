-- A search that asks three replicas of each kind of search at once, takes the first answer of each kind, and returns
-- what it has when the time is over. The replicas are simulated: each answers after a random time of 10 to 100 ms.
--
--     lua5.4 examples/search.lua [--ms MS] [QUERY...]        within 50 ms by default

local rn = require "runnel"

local USAGE = "usage: lua5.4 examples/search.lua [--ms MS] [QUERY...]\n  MS: how long to wait, in milliseconds\n"
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local KINDS = { "web", "image", "video" }
local REPLICAS = 3

-- Asks one replica; takes a random time.
local function ask(kind, replica, query)
  local ms = math.random(10, 100)
  rn.sleep(ms)
  return { kind = kind, text = ("%s result for %q from replica %d after %d ms"):format(kind, query, replica, ms) }
end

-- Asks all replicas of a kind. Returns the first answer; does not wait for the others.
local function first(kind, query)
  local answers = {}
  for i = 1, REPLICAS do answers[i] = rn.go(ask, kind, i, query) end
  return (rn.alts(answers))
end

-- Searches every kind. Returns the answers that came within `ms`, by kind.
local function search(query, ms)
  local timeout, found = rn.timeout(ms), {}
  local answers <close> = rn.pmap_unordered(#KINDS, function(kind) return first(kind, query) end, KINDS)
  while true do
    local answer = rn.alts { answers, timeout }
    if not answer then return found end -- there are no more answers, or the time is over
    found[answer.kind] = answer.text
  end
end

local ms, words = 50, { table.unpack(arg) }
if words[1] == "--ms" then
  ms = tonumber(words[2])
  words = { table.unpack(words, 3) }
end
if not ms or ms < 0 or ms ~= ms or (words[1] or ""):find "^%-" then
  io.stderr:write(USAGE)
  os.exit(2)
end
local query = #words > 0 and table.concat(words, " ") or "communicating sequential processes"

local start = rn.now()
local found = search(query, ms)
for _, kind in ipairs(KINDS) do print(found[kind] or ("no %s result within %g ms"):format(kind, ms)) end
print(("done after %.0f ms"):format(rn.now() - start))
rn.exit() -- does not wait for the replicas that were too slow
