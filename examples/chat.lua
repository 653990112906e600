-- A chat in the browser, over WebSocket.
--
--     lua5.4 examples/chat.lua [PORT]
--     # then open http://127.0.0.1:8080/ in two windows
--
-- Each browser hears what all say. One that reads slowly misses messages, and delays nobody. Ctrl-C closes all.

local rn = require "runnel"
local http = require "runnel.http"
local uv = require "runnel.uv"

local port = math.tointeger(tonumber(arg[1] or "8080"))
if not port or #arg > 1 then
  local is_asked = arg[1] == "--help"
  local to = is_asked and io.stdout or io.stderr
  to:write "usage: lua5.4 examples/chat.lua [PORT]\n"
  os.exit(is_asked and 0 or 2)
end

local PAGE = [[<!doctype html><meta charset="utf-8"><title>Chat</title>
<style>body { font: 16px sans-serif; max-width: 40em; margin: 2em auto } input { width: 100%; font: inherit }</style>
<h1>Chat</h1><ul id="said"></ul><form><input id="text" placeholder="first your name" required autofocus></form>
<script>
const said = document.getElementById("said"), text = document.getElementById("text")
function show(line) { said.appendChild(document.createElement("li")).textContent = line }
const socket = new WebSocket(location.origin.replace("http", "ws"))
socket.onmessage = event => show(event.data)
socket.onclose = event => show("The chat is over (" + event.code + ").")
document.querySelector("form").onsubmit = event => {
  event.preventDefault()
  socket.send(text.value)
  text.value = text.placeholder = ""
}
</script>]]

local said = rn.chan()
local everyone = rn.mult(said)

local function chat(conn)
  local name = conn:read():take()
  if type(name) ~= "string" then return conn:close(1008, "a name is expected") end
  everyone:tap(conn:writer(rn.chan(rn.sliding_buffer(100)))) -- which closes when the connection ends
  said:put(name .. " is here.")
  for text in conn:read() do
    if type(text) == "string" then said:put(name .. ": " .. text) end
  end
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
