---http.fake: a function in place of all servers, for tests and simulations.

local io, require = io, require
local core = require "runnel.core"
local lib = require "runnel.http.curl"
local base64 = require "runnel.internal.base64"
local check = require "runnel.internal.check"
local decimal = require "runnel.internal.decimal"
local ends = require "runnel.internal.ends"
local answers = require "runnel.http.answer"
local json = require "runnel.json"
local responses = require "runnel.http.response"
local current = require "runnel.internal.world"
local time_limit = require "runnel.internal.time_limit"
local timed_out = require "runnel.internal.timed_out"
local upload = require "runnel.http.upload"

local internal = core.internal
local raise = internal.raise

local fakes = {}

local handler -- the function, or nil

---Makes requests of this state call a function, as http.serve calls its function: with the request, in the go block
---that makes it. The function may park, for example to simulate a slow server. It returns a status, headers and a body;
---or nil and an error, with which the request fails.
---@param f? fun(req: runnel.http.Request): integer?, table?, any nil: requests go to servers again
---@return function? before what was there before
function fakes.set(f)
  check.callable_or_nil(f, "fake")
  local before = handler
  handler = f
  return before
end

---Whether requests go to the function, or to a host of a simulated world. Raises in a simulation with neither.
---@param what string
---@return boolean
function fakes.is_used(what)
  if handler then return true end
  if current.world then
    if internal.host() > 0 then return true end
    raise(what .. ": this go block belongs to no host of the simulated world: start it in the function of "
      .. "world:host(name, f)")
  end
  if internal.is_simulation() then
    raise(what .. ": in a simulation, requests go to the function of http.fake(f), or to a host of a simulated world "
      .. "(sim.world), and there is none")
  end
  return false
end

-- ---- the request as the function gets it ----

-- Replaces a request of the server's C module.
local Source = {}
Source.__index = Source

function Source:head() return self.method, self.target, "127.0.0.1" end

function Source:headers() return self.lines end

-- Names and values in turn as lines of headers.
local function lines_of(list)
  local lines = {}
  for i = 1, #list, 2 do lines[#lines + 1] = list[i] .. ": " .. list[i + 1] .. "\n" end
  return table.concat(lines)
end

function Source:hint(...)
  if self.hints and ... then self.hints(lib.headers(lines_of { ... })) end
  return true
end

-- It sends no trailers.
function Source.trailers() return "" end

-- The next piece of the body; false after the last one.
function Source:read()
  if self.pieces then return self.pieces() or false end
  local body = self.body
  self.body = nil
  return body and body ~= "" and body or false
end

-- What libcurl sends for the name and the password that a URL has.
local function login_of(url)
  local user, password = url:match "^%a+://([^:@/?#]*):?([^@/?#]*)@"
  local decode = require("runnel.http.request").decode
  return user and "Basic " .. base64.encode(decode(user) .. ":" .. decode(password))
end

-- The headers as a list of alternating names and values: those of the program, and what libcurl adds to them. A line
-- with a colon and no value keeps libcurl from adding it; with a semicolon the value is empty.
local function flatten(url, settings, body)
  local list, has = {}, {}
  local function add(name, value)
    list[#list + 1] = name
    list[#list + 1] = value
  end
  for _, line in ipairs(settings.headers or {}) do
    local name, sign, value = line:match "^([^:;]+)([:;])%s*(.-)%s*$"
    has[name:lower()] = true
    if value ~= "" or sign == ";" then add(name, value) end
  end
  local function complete(name, value)
    if value and not has[name:lower()] then add(name, value) end
  end
  complete("Host", responses.host(url))
  complete("Authorization", login_of(url))
  complete("User-Agent", not settings.is_raw and lib.user_agent)
  complete("Accept", "*/*")
  local size = type(body) == "string" and #body or body and settings.body_size
  if size then complete("Content-Length", tostring(size)) elseif body then add("Transfer-Encoding", "chunked") end
  return list
end

local function source_of(url, settings)
  local target = url:match "^%a+://[^/?#]*([^#]*)"
  local body, kind = settings.source or settings.body, nil
  if settings.multipart then body, kind = require("runnel.http.form.multipart_writer").write(settings.multipart) end
  local lines = flatten(url, settings, body)
  if kind then
    lines[#lines + 1] = "Content-Type"
    lines[#lines + 1] = kind
  end
  return setmetatable({
    method = settings.method or "GET", target = target, lines = lines, body = body,
    pieces = settings.source and upload.pieces(settings), hints = settings.hints,
    path = settings.libcurl and settings.libcurl.unix_socket_path,
  }, Source)
end

-- Has a request answered, by the function, or by a host of a simulated world. There it is sent again when libcurl does
-- that. Returns the request, and the response.
local function answer(url, settings)
  if io.type(settings.body) == "file" then settings.body = settings.body:read "a" end
  local repeats = settings.repeats ~= false and not settings.source
  while true do
    local source = source_of(url, settings)
    local request = require("runnel.http.request").new(nil, source)
    if handler then return request, handler(request) end
    local status, headers, body, again = current.twin("sim_http").exchange(url, request, source)
    if status or not again or not repeats then return request, status, headers, body end
  end
end

-- ---- what it returns ----

local function wrong(format, ...) error("the function of http.fake: " .. format:format(...), 0) end

-- The headers as the real client has them: with names in lower case, and the values of one name joined.
local function joined(headers)
  local lower = {}
  for key, values in pairs(headers) do
    local name = tostring(key):lower()
    for _, value in ipairs(type(values) == "table" and values or { values }) do
      local text, before = decimal.exact(value), lower[name]
      if name == "set-cookie" then
        lower[name] = before or {}
        table.insert(lower[name], text)
      else
        lower[name] = before and before .. ", " .. text or text
      end
    end
  end
  return lower
end

-- All values of a channel, joined; or nil and its error. If it is cancelled, the channel closes.
local function collect(ch)
  local reading <close> = setmetatable({ ch = ch }, ends.Dropping) -- luacheck: ignore 211
  local parts = {}
  while true do
    local piece, err = ch:take()
    if err ~= nil then return nil, err end
    if piece == nil then return table.concat(parts) end
    parts[#parts + 1] = piece
  end
end

local function response_of(url, settings, streams, request, status, headers, body)
  if status == nil then return nil, headers end
  if math.type(status) ~= "integer" or headers ~= nil and type(headers) ~= "table" then
    wrong("a status, headers or nil, and a body expected; or nil and an error; got %s, %s", check.describe(status),
      check.describe(headers))
  end
  local err
  headers = joined(headers or {})
  if answers.is_bare(request.method, status) then
    if core.is_chan(body) then ends.drop(body) end
    body = ""
  end
  local has_chunks = core.is_chan(body) and not headers["content-length"]
  if core.is_chan(body) then
    if not streams then body, err = collect(body) end
    if err ~= nil then return nil, err end
  elseif type(body) == "table" then
    body = assert(json.encode(body))
  elseif body ~= nil and type(body) ~= "string" then
    wrong("body: a string, a channel of strings, or a table for JSON expected, got %s", check.article(body))
  end
  if type(body) == "string" and settings.max and #body > settings.max then
    return nil, ("%s: the body has more than %d bytes"):format(responses.host(url), settings.max)
  end
  local response = responses.new(status, headers, body or "", url)
  local function trailers() return has_chunks and lines_of(rawget(request, "sent_trailers") or {}) end
  response.trailer_lines = streams and trailers or trailers()
  return response
end

-- Asks, and follows the redirects of a simulated server.
local function follow(url, settings, streams)
  local first, malformed = lib.resolve(url, nil, settings.is_raw)
  if not first then return nil, ("%s: %s"):format(responses.host(url), malformed) end
  url = first
  for n = 0, math.huge do
    local request, status, headers, body = answer(url, settings)
    local to, changed, problem
    if status and not handler then
      to, changed, problem = current.twin("sim_redirect").next(url, settings, status, headers)
    end
    if not to and not problem then return response_of(url, settings, streams, request, status, headers, body) end
    if core.is_chan(body) then body:close() end
    if to and n >= settings.redirects then problem = ("Maximum (%d) redirects followed"):format(settings.redirects) end
    if problem then return nil, responses.host(url) .. ": " .. problem end
    url, settings = to, changed
  end
end

-- The same, within its time.
local function within(url, settings, streams)
  if not settings.timeout then return follow(url, settings, streams) end
  local results, err = time_limit.new(responses.host(url) .. ": no response", settings.timeout):call(nil, follow,
    url, settings, streams)
  if results then return results[1], results[2] end
  if not timed_out.is_timeout(err) then error(err, 0) end
  return nil, err
end

---Passes a request to the function.
---@param url string
---@param settings runnel.http.Settings
---@param streams? boolean a body that is a channel stays one
---@return runnel.http.Response? response
---@return any err
function fakes.request(url, settings, streams)
  local began = core.now()
  local response, err = within(url, settings, streams)
  if response then responses.set_timing(response, core.now() - began) end
  return response, err
end

return fakes
