-- A chat in the browser, over WebSocket.
--
--     lua5.4 examples/chat.lua [PORT]
--     # then open http://127.0.0.1:8080/ in two windows
--
-- Each browser hears what all say. One that reads slowly misses the oldest of its last 100 messages, and delays nobody.
-- Ctrl-C closes all connections in order.

local rn = require "runnel"
local http = require "runnel.http"
local uv = require "runnel.uv"

local USAGE = "usage: lua5.4 examples/chat.lua [PORT]\n"
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end
local port = math.tointeger(tonumber(arg[1] or 8080))
if not port or #arg > 1 then
  io.stderr:write(USAGE)
  os.exit(2)
end

local PAGE = [[<!doctype html><meta charset="utf-8"><title>Chat</title>
<style>body { font: 16px sans-serif; max-width: 40em; margin: 2em auto } input { width: 100%; font: inherit }</style>
<h1>Chat</h1><ul id="said"></ul><form><input id="text" placeholder="your name" autofocus></form>
<script>
const said = document.getElementById("said"), text = document.getElementById("text")
function show(line) { said.appendChild(document.createElement("li")).textContent = line }
const socket = new WebSocket(location.href.replace(/^http/, "ws").replace(/[?#].*$/, ""))
socket.onmessage = event => show(event.data)
socket.onclose = event => show("The chat is over (" + event.code + ").")
document.querySelector("form").onsubmit = event => {
  event.preventDefault()
  if (text.value) socket.send(text.value)
  text.value = ""
  text.placeholder = "what you say"
}
</script>]]

local said = rn.chan()
local everyone = rn.mult(said)

local function chat(conn)
  local name = conn:read():take()
  if type(name) ~= "string" then return conn:close(1008, "a name is expected") end
  local heard = rn.chan(rn.sliding_buffer(100))
  everyone:tap(heard)
  rn.pipe(heard, conn:writer())
  said:put(name .. " is here.")
  for text in conn:read() do
    if type(text) == "string" then said:put(name .. ": " .. text) end
  end
  everyone:untap(heard)
  said:put(name .. " has left.")
end

local server = assert(http.serve(port, function(req)
  if not req.headers.upgrade then return 200, { ["content-type"] = "text/html; charset=utf-8" }, PAGE end
  local conn, err, status, headers = req:websocket { max = 4096 }
  if not conn then return status, headers, err end
  chat(conn)
end))
io.stdout:setvbuf "line"
print("open " .. server.url)

uv.signal("int", "term"):take()
server:drain()
