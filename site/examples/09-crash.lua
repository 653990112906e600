-- A crash that loses a note: two hosts send notes to a third
-- one, which may crash once.
local sim = require "runnel.sim"
local uv = require "runnel.uv"

local function server()
  for conn in assert(uv.listen("0.0.0.0", 80)) do
    for line in conn:lines() do
      -- On the disk of this host:
      local file = assert(io.open("/notes", "a"))
      file:write(line .. "\n")
      file:close()
      -- Too early: the system has not written it yet.
      conn:write "stored\n"
    end
    conn:close()
  end
end

-- Use this in place of the three lines with `file`, and a
-- crash loses nothing:
--   local notes = require "runnel".chan(1)
--   notes:put(line .. "\n")
--   notes:close()
--   local how = { append = true, sync = true }
--   uv.write("/notes", notes, how):take()

local ok, story = pcall(sim.explore, function()
  local world = sim.world { faults = { crash = 1 } }
  local stored = {}
  local function note(text)
    return function()
      local conn <close> = uv.connect("server", 80)
      if not conn then return end
      conn:write(text .. "\n")
      if conn:lines():take() == "stored" then
        stored[#stored + 1] = text
      end
    end
  end
  local host = world:host("server", server, { restart = 100 })
  world:host("phone", note "milk")
  world:host("laptop", note "bread")
  world:run()
  for _, text in ipairs(stored) do
    local notes = host:get "/notes" or ""
    if not notes:find(text, 1, true) then
      error(text .. " is lost", 0)
    end
  end
end)
print(ok and "no crash loses a note" or story)
