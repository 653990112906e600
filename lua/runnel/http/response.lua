---Responses to requests, and the words for their errors.

local require = require
local json = require "runnel.json"
local lib = require "runnel.http.curl"
local sign = require "runnel.internal.sign"

local responses = {}

-- What libcurl measures, in microseconds: the order of the numbers that the C module gives.
local PHASES, PHASES_FORMAT <const> = { "name", "connect", "tls", "first_byte", "total" }, "=jjjjj"

-- Names of the fields of a certificate, in place of libcurl's.
local CERTIFICATE_FIELDS = {
  Subject = "subject", Issuer = "issuer", ["Start date"] = "not_before", ["Expire date"] = "not_after",
  ["Serial Number"] = "serial", ["X509v3 Subject Alternative Name"] = "names", Cert = "pem",
}

---How long a request took: ms from its beginning until each of these, and 0 for what it did not need, since the
---connection was kept. The times of redirects are added.
---@class runnel.http.Timing
---@field name number the address of the host was known
---@field connect number there was a connection
---@field tls number its encryption was ready
---@field first_byte number the response began
---@field total number all of it had come

---A certificate of a server, as libcurl writes it.
---@class runnel.http.Certificate
---@field subject string
---@field issuer string
---@field not_before string
---@field not_after string
---@field serial string
---@field names? string for which it is valid
---@field pem string all of it
---@field expires? integer `not_after` as seconds since 1970

---A response.
---@class runnel.http.Response
---@field status integer
---@field headers table<string, string|string[]> by name in lower case; several with one name are joined with ", ", but
---those of `set-cookie` are a list
---@field body string
---@field url string of the last request, after redirects
---@field timing? runnel.http.Timing of http.stream once all of the body has come
---@field trailers? table<string, string|string[]> as headers: the fields behind the body, once all of it has come
---@field certificates? runnel.http.Certificate[] with the option of that name: the server's, and those above it
---@field bytes? integer of http.download: how many the file has
---@field resumed? integer of http.download: how many of them an earlier try had got
---@field package head? string the lines of the headers, until `headers` is first read
---@field package trailer_lines? string those of the trailers
---@field package times? string the numbers of `timing` in binary, until it is first read
local Response = { __name = "http response", __sign = "res" }

-- Most programs never read these, so they are made when they are first read.
local late = {}

function late.headers(self)
  local head = rawget(self, "head")
  self.head = nil
  return head and lib.headers(head)
end

function late.timing(self)
  local times = rawget(self, "times")
  if not times then return nil end
  local timing, numbers = {}, { string.unpack(PHASES_FORMAT, times) }
  for i, name in ipairs(PHASES) do timing[name] = numbers[i] / 1000 end
  self.times = nil
  return timing
end

function late.trailers(self)
  if not (self.body or self.timing) then return nil end -- of a stream that goes on
  local lines = rawget(self, "trailer_lines")
  self.trailer_lines = nil
  return lib.headers(lines or "")
end

function Response:__index(name)
  local make = late[name]
  if not make then return Response[name] end
  local value = make(self)
  rawset(self, name, value)
  return value
end

function Response:__pairs()
  local _ <const>, _ <const>, _ <const> = self.headers, self.timing, rawget(self, "trailer_lines") and self.trailers
  return next, self, nil
end

-- The certificates of which the C module gives the fields.
local function certificates_of(text)
  local list = {}
  for fields in text:gmatch "(.-\0)\0" do
    local one = {}
    for name, value in fields:gmatch "([^:\0]*):([^\0]*)\0" do
      if CERTIFICATE_FIELDS[name] then one[CERTIFICATE_FIELDS[name]] = value end
    end
    local date = (one.not_after or ""):match "^(.*) GMT$" -- as C's asctime writes it, without the day
    one.expires = date and require("runnel.http.conditions").time("Day " .. date)
    list[#list + 1] = one
  end
  return list
end

---Sets what is known of a response when all of it has come.
---@param self runnel.http.Response
---@param times string five integers, microseconds
---@param certificates? string their fields, each with a zero byte, and one after each certificate
---@param trailers? string lines
function responses.set_connection(self, times, certificates, trailers)
  self.times, self.trailer_lines = times, trailers
  if certificates then self.certificates = certificates_of(certificates) end
end

---Sets the timing of a simulated response, which needs only time.
---@param self runnel.http.Response
---@param first_byte number ms
---@param total? number ms; default: the same
function responses.set_timing(self, first_byte, total)
  self.timing = { name = 0, connect = 0, tls = 0, first_byte = first_byte, total = total or first_byte }
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
---@param times? string as for set_connection, and so is the next one
---@param certificates? string
---@param trailers? string
---@return runnel.http.Response
function responses.new(status, headers, body, url, times, certificates, trailers)
  if type(headers) == "table" then
    return setmetatable({ status = status, headers = headers, body = body, url = url }, Response)
  end
  local self = setmetatable({ status = status, head = headers, body = body, url = url, times = times,
    trailer_lines = trailers }, Response)
  if certificates then self.certificates = certificates_of(certificates) end
  return self
end

---The host of a URL with its port, for messages: without a name and a password.
---@param url string
---@return string
function responses.host(url)
  local authority = url:match "^%a+://([^/?#]*)" or url
  return authority:match "^.*@(.*)$" or authority
end

---The error for a status from 400 on.
---@param url string
---@param status integer
---@return string
function responses.status_error(url, status)
  return ("%s: the status is %d"):format(responses.host(url), status)
end

return responses
