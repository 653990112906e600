local patience = require "spec.support.patience"

local LUA = os.getenv "LUA" or "lua5.4"
local PAGES = { "channels", "go-blocks", "scopes", "alts", "pipelines", "operations", "time", "lite" }

-- What some programs use that the other engine does not have: functions and options.
local ONLY_RUNNEL = { "ps", "supervise", "frontier", "batch", "latest", "after", "timeout", "key", "tries", "share",
  "shield", "rename", "backoff" }
local ONLY_LITE = { "host" }
-- What a program prints that shows a difference which docs/manual/lite.md names: lite interrupts no go block.
local DIFFERS = { "another one runs after %d+ takes", "^table: 0x" } -- the second: explore's result has no text in lite

-- The programs of examples that need only what lite has, with their arguments.
local EXAMPLES = { "sieve.lua", "wordcount.lua docs/manual/lite.md", "pubsub.lua a=- b=-" }

-- The output of a command; Lua finds the modules of this tree.
local function output(command, ...)
  local paths = "env LUA_PATH='lua/?.lua;;' LUA_CPATH=\"${BUILD:-build}/?.so;$LUA_CPATH\" "
  local pipe <close> = assert(io.popen((paths .. patience.timeout() .. " " .. command .. " 2>&1"):format(...)))
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

  for _, example in ipairs(EXAMPLES) do
    it("does the same on runnel: examples/" .. example, function()
      local command = [[printf 'a: 1\na: 2\nb: 3\n' | %s -e '
        if "%s" == "lite" then
          local rn = require "runnel.lite"
          package.loaded["runnel"], package.loaded["runnel.sim"] = rn, rn.sim
        end' examples/%s]]
      local expected = output("sh -c \"$(cat <<'END'\n" .. command .. "\nEND\n)\"", LUA, "runnel", example)
      assert.equal(expected, output("sh -c \"$(cat <<'END'\n" .. command .. "\nEND\n)\"", LUA, "lite", example))
      assert.is_true(#expected > 10, expected)
      assert.not_matches("traceback", expected)
    end)
  end
end)
