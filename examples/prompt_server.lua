-- A program with a prompt: while its go blocks work, you look into it and change it. Needs luv.
--
--     lua5.4 examples/prompt_server.lua PATH          the prompt is on a unix socket, for this user only
--     lua5.4 examples/prompt_server.lua --port PORT   on 127.0.0.1, for everybody who is on this machine
--
--     socat READLINE UNIX-CONNECT:PATH
--     > state.interval
--     1000
--     > state.interval = 100
--     > news:take()
--     tick 17
--     > for _, block in ipairs(rn.ps()) do print(block.name, block.state) end
--
-- The program itself only counts. Ctrl-C ends it.

local rn = require "runnel"
local prompt = require "runnel.prompt"
local uv = require "runnel.uv"

local USAGE = [[
usage: lua5.4 examples/prompt_server.lua PATH
       lua5.4 examples/prompt_server.lua --port PORT
]]
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local function usage()
  io.stderr:write(USAGE)
  os.exit(2)
end

local place = arg[1]
if place == "--port" then
  place = math.tointeger(tonumber(arg[2]))
  if not place or place < 0 or place > 65535 or arg[3] then usage() end
elseif not place or place:find "^%-" or arg[2] then
  usage()
end

local state = { interval = 1000, ticks = 0 }
local news = rn.chan(rn.sliding_buffer(1)):name "news"

rn.go(function()
  rn.rename "ticker"
  while true do
    rn.sleep(state.interval)
    state.ticks = state.ticks + 1
    news:put("tick " .. state.ticks)
  end
end)

local interrupted = uv.signal("int", "term")
local listening, err = prompt.listen(place, { rn = rn, state = state, news = news })
if not listening then
  io.stderr:write("prompt_server: ", err, "\n")
  os.exit(1)
end
io.stderr:write("the prompt is at ", listening.place, "\n")
interrupted:take()
listening:close()
os.exit(0, true)
