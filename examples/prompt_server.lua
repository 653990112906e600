-- A program with a prompt, at which you can inspect and change it while its go blocks run. Needs luv.
--
--     lua5.4 examples/prompt_server.lua PATH          the prompt is on a Unix socket, for this user only
--
--     socat READLINE UNIX-CONNECT:PATH
--     [1]> state.interval
--     1000
--     [2]> state.interval = 100
--     [3]> news:take()
--     "tick 17"
--     [4]> :ps
--
-- The program only counts. Ctrl-C ends it.

local rn = require "runnel"
local prompt = require "runnel.prompt"
local uv = require "runnel.uv"

local USAGE = "usage: lua5.4 examples/prompt_server.lua PATH\n"
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end

local path = arg[1]
if not path or path:find "^%-" or arg[2] then
  io.stderr:write(USAGE)
  os.exit(2)
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
local listening, err = prompt.listen(path, { rn = rn, state = state, news = news })
if not listening then
  io.stderr:write("prompt_server: ", err, "\n")
  os.exit(1)
end
io.stderr:write("the prompt is at ", listening.place, "\n")
interrupted:take()
listening:close()
os.exit(0, true)
