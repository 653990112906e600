---The common part of the specs of runnel.http's client.

local uv_stage = require "spec.support.uv_stage"

local http_stage = {}

local listening = {} -- the servers of a test

---The reason why these specs are pending; nil where the client works.
http_stage.missing = not pcall(require, "luv") and "luv is not installed"
  or not pcall(require, "runnel.http.curl") and "libcurl is not installed" or nil

---For before_each.
function http_stage.open()
  uv_stage.open()
  listening = {}
  require("runnel.http").get "http://127.0.0.1:1/" -- makes the client and its thread, which have a descriptor
  uv_stage.open()
end

---For after_each: ends the servers, and fails if resources are left.
function http_stage.close()
  local http = require "runnel.http"
  for _, conns in ipairs(listening) do conns:close() end
  http.fake(nil)
  http.close_idle()
  uv_stage.close()
end

---Serves each connection by a function, until the test ends.
---@param serve fun(conn: table)
---@return integer port
function http_stage.serve(serve)
  local conns, port = uv_stage.serve(serve)
  listening[#listening + 1] = conns
  return port
end

return http_stage
