local LUA = os.getenv "LUA" or "lua5.4"
local PAGES = { "channels", "go-blocks", "scopes", "alts", "pipelines", "operations", "time", "lite" }

-- What some programs use that the other engine does not have: functions and options.
local ONLY_RUNNEL = { "ps", "supervise", "frontier", "batch", "latest", "after", "timeout", "key", "tries", "share",
  "shield", "rename", "backoff", "rate" }
local ONLY_LITE = { "host" }
-- What a program prints that shows a difference which docs/manual/lite.md names: lite interrupts no go block.
local DIFFERS = { "another one runs after %d+ takes", "^table: 0x" } -- the second: explore's result has no text in lite

-- The programs of examples that need only what lite has, with their arguments, and how their output begins.
local EXAMPLES = {
  ["sieve.lua 5"] = "^2\n3\n5\n7\n11\n$",
  ["wordcount.lua docs/manual/lite.md"] = "^%s*%d+[ \t]+%w+\n",
  ["pubsub.lua a=- c=-"] = "^a 1\na 2\na: 2 lines to %-\nc: 0 lines to %-\n$",
}
-- The same in virtual time, as go blocks of a simulation.
local IN_TIME = {
  ["fanout.lua"] = "\nslow, buffer%(1%) +100 +100 +2002\n$", ["pipeline.lua"] = "\nordered +2 +2 +500 +500\n",
  ["scope.lua"] = "\nconnected to [%w-]+ after %d+ ms\n$", ["ratelimit.lua 10"] = "^a 1\na 2\nb 3\n$",
}
-- The others, and what of runnel they need that lite does not have; guest.lua prints what depends on the machine.
local NEED_RUNNEL = {
  ["chat.lua"] = "runnel.http", ["checksum.lua"] = "rn.threads", ["crawl.lua"] = "runnel.flow",
  ["echo.lua"] = "runnel.uv", ["echo_load.lua"] = "runnel.uv", ["guest.lua"] = "how often each ran",
  ["httpcheck.lua"] = "runnel.http", ["import.lua"] = "runnel.store", ["ingest.lua"] = "runnel.store",
  ["logstat.lua"] = "rn.threads", ["prompt_server.lua"] = "runnel.prompt", ["search.lua"] = "rn.exit",
  ["tail.lua"] = "runnel.uv", ["xargs.lua"] = "runnel.uv",
}

-- The output of a command; Lua finds the modules of this tree.
local function output(command, ...)
  local paths = "env LUA_PATH='lua/?.lua;;' LUA_CPATH=\"${BUILD:-build}/?.so;$LUA_CPATH\" "
  local pipe <close> = assert(io.popen((paths .. command .. " 2>&1"):format(...)))
  return pipe:read "a"
end

-- What each program of the manual prints on an engine, by its place, and a list of the places.
local function manual(engine)
  local places, printed = {}, {}
  local text = output("%s spec/support/lite/snippets.lua %s docs/manual/%s.md", LUA, engine,
    table.concat(PAGES, ".md docs/manual/"))
  for place, lines in (text .. "\n## "):gmatch "## ([%w/.:-]+)\n(.-)%f[#]%f[^\n]" do
    places[#places + 1], printed[place] = place, lines
  end
  return places, printed, text
end

-- The name in `names` that an error says is missing.
local function missing(text, names)
  local name = text:match "attempt to call a nil value %(field '(%w+)'%)" or text:match 'unknown option "(%w+)"'
  for _, known in ipairs(names) do if name == known then return name end end
end

describe("a program for runnel.lite", function()
  it("of the manual prints the same on runnel, unchanged", function()
    local places, on_lite, text = manual "lite"
    local _, on_runnel = manual "runnel"
    local same = 0
    for _, place in ipairs(places) do
      local is_lacking = missing(on_lite[place], ONLY_RUNNEL) or missing(on_runnel[place], ONLY_LITE)
      if not is_lacking and not (on_lite[place]:find(DIFFERS[1]) or on_lite[place]:find(DIFFERS[2])) then
        assert.equal(on_runnel[place], on_lite[place], place)
        assert.is_nil(on_lite[place]:find "error: ", place)
        same = same + 1
      end
    end
    assert.is_true(same >= 20, text)
  end)

  local COMMAND = [[printf 'a 1\na 2\nb 3\n' | %s -e '
    if "%s" == "lite" then
      local rn = require "runnel.lite"
      package.loaded["runnel"], package.loaded["runnel.sim"] = rn, rn.sim
    end
    %s' examples/%s]]
  local function compare(prelude, example, pattern)
    local function run(engine)
      return output("sh -c \"$(cat <<'END'\n" .. COMMAND .. "\nEND\n)\"", LUA, engine, prelude, example)
    end
    local expected = run "runnel"
    assert.matches(pattern, expected)
    assert.equal(expected, run "lite")
  end
  for example, pattern in pairs(EXAMPLES) do
    it("does the same on runnel: examples/" .. example, function() compare("", example, pattern) end)
  end
  for example, pattern in pairs(IN_TIME) do
    it("does the same on runnel in virtual time: examples/" .. example, function()
      compare('require("runnel.sim").run(function() dofile(arg[0]) end) os.exit()', example, pattern)
    end)
  end

  it("is run on both engines, or needs what only runnel has: examples", function()
    local known = {}
    for _, names in ipairs { EXAMPLES, IN_TIME } do
      for name in pairs(names) do known[name:match "%S+"] = true end
    end
    local names <close> = assert(io.popen "ls examples/*.lua")
    for path in names:lines() do
      local file <close> = assert(io.open(path))
      local text, name = file:read "a", path:match "[^/]*$"
      if not known[name] then assert.is_truthy(text:find(NEED_RUNNEL[name] or "not in a list", 1, true), name) end
    end
  end)
end)
