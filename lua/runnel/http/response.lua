---Responses to requests, and the words for their errors.

local json = require "runnel.json"
local lib = require "runnel.http.curl"
local sign = require "runnel.internal.sign"

local responses = {}

---A response.
---@class runnel.http.Response
---@field status integer
---@field headers table<string, string|string[]> by name in lower case; several with one name are joined with ", ", but
---those of `set-cookie` are a list
---@field body string
---@field url string of the last request, after redirects
---@field package head? string the lines of the headers, until `headers` is first read
local Response = { __name = "http response", __sign = "res" }

-- Most programs never read the headers, so they become a table when they are first read.
function Response:__index(name)
  if name ~= "headers" or not self.head then return Response[name] end
  self.headers, self.head = lib.headers(self.head), nil
  return self.headers
end

function Response:__pairs()
  local _ = self.headers
  return next, self, nil
end

---The body as JSON.
---@return any value nil if it is not JSON
---@return string? err the reason
function Response:json()
  sign.own(self, "res", "json")
  return json.decode(self.body)
end

---@param status integer
---@param headers string|table<string, string|string[]> as lines, or a table
---@param body? string nil for the response to http.stream
---@param url string
---@return runnel.http.Response
function responses.new(status, headers, body, url)
  if type(headers) == "table" then
    return setmetatable({ status = status, headers = headers, body = body, url = url }, Response)
  end
  return setmetatable({ status = status, head = headers, body = body, url = url }, Response)
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
