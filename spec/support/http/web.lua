---Requests to a server of this process, by sockets, for specs that say each byte.

local stage = require "spec.support.stage"

local web = {}

---Sends bytes, and returns all that comes until the server closes the connection.
---@param server runnel.http.Server
---@param bytes string
---@return string
function web.exchange(server, bytes)
  local conn <close> = assert(require("runnel.uv").connect("127.0.0.1", server.port))
  conn:write(bytes)
  return table.concat(stage.drain(conn:read()))
end

---A request after which the connection closes.
---@param server runnel.http.Server
---@param first string its first line, without the version
---@param rest? string further headers, the empty line and the body
---@return integer? status
---@return string? body
---@return string? headers
---@return string answer
function web.ask(server, first, rest)
  local answer = web.exchange(server, first .. " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" .. (rest or "\r\n"))
  local status, headers, body = answer:match "^HTTP/1.1 (%d+) [^\r]*\r\n(.-\r\n)\r\n(.*)$"
  return tonumber(status), body, headers, answer
end

return web
