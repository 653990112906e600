---Responses to requests, and the words for their errors.

local json = require "runnel.internal.json"

local responses = {}

---A response.
---@class runnel.http.Response
---@field status integer
---@field headers table<string, string|string[]> by name in lower case; several with one name are joined with ", ", but
---those of `set-cookie` are a list
---@field body string
---@field url string of the last request, after redirects
local Response = { __name = "http response" }
Response.__index = Response

---The body as JSON.
---@return any value nil if it is not JSON
---@return string? err why
function Response:json() return json.decode(self.body) end

---@param status integer
---@param headers table<string, string|string[]>
---@param body? string nil for the response to http.stream
---@param url string
---@return runnel.http.Response
function responses.new(status, headers, body, url)
  return setmetatable({ status = status, headers = headers, body = body, url = url }, Response)
end

---The host of a URL with its port, for messages: without a name and a password.
---@param url string
---@return string
function responses.host(url)
  local authority = url:match "^%a+://([^/?#]*)" or url
  return authority:match "([^@]*)$"
end

---The error for a status from 400 on.
---@param url string
---@param status integer
---@return string
function responses.status_error(url, status)
  return ("%s: the status is %d"):format(responses.host(url), status)
end

return responses
