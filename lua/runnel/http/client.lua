---Requests over HTTP. Needs libcurl; `make` builds the C module runnel.http.curl where its headers are.
---
---    local http = require "runnel.http"
---    local page = assert(http.get("https://example.org/", { timeout = 5000 }))
---    for piece in http.stream "https://example.org/large" do io.write(piece) end
---
---One thread of the state does the work of all its requests, with libcurl (csrc/http/client). It keeps connections
---for further requests, and closes them after a minute without any.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local current = require "runnel.internal.world"
local transfers = require "runnel.http.transfer" -- first: it says what is missing if libcurl is
local fakes = require "runnel.http.fake"
local lib = require "runnel.http.curl"
local options = require "runnel.http.http_options"
local responses = require "runnel.http.response"
local sign = require "runnel.internal.sign"
local streams = require "runnel.http.stream"
local upload = require "runnel.http.upload"
local raise = core.internal.raise

local chan = core.chan
local start, wait = transfers.start, transfers.wait
local new_response, refuse = responses.new, options.refuse

local LARGEST_INT <const> = 0x7fffffff -- of C

---@class runnel.http.client
local client = {}

-- ---- requests ----

-- Makes a request and waits for its end.
local function perform(what, url, settings)
  local sending <close> = upload.sending(settings) -- luacheck: ignore 211
  local wrong = refuse(url)
  if wrong then return nil, wrong end
  if fakes.is_used(what) then return fakes.request(url, settings) end
  local news, room = chan(1), settings.source and chan(1)
  local transfer <close> = start(what, url, settings, news, room)
  local feeding <close> = room and transfers.upload(what, settings, transfer, news, room) or nil -- luacheck: ignore 211
  while true do
    local is_news, err = wait(news)
    if not is_news then return nil, err end
    local status, headers, body, last_url, times, certificates, trailers = transfer:response()
    transfers.give_hints(settings, transfer)
    if status then return new_response(status, headers, body, last_url, times, certificates, trailers) end
    if headers then return nil, transfers.error_of(url, settings, headers, body) end -- the error's kind and text
  end
end

-- The same, as often as the options say.
local function perform_tries(what, url, settings)
  if not settings.tries or refuse(url) then return perform(what, url, settings) end
  return require("runnel.http.repeats").perform(perform, what, url, settings)
end

-- Makes a status an error, if the options ask for that.
local function judge(settings, response, err)
  if response and settings.fail and response.status >= 400 then
    return nil, responses.status_error(response.url, response.status), response
  end
  return response, err
end

---Gets a page. Parks until it is complete.
---@param url string http:// or https://
---@param opts? table as for request, without `method` and bodies
---@return runnel.http.Response? response nil if there is none
---@return any err why not: a string, or an error for which rn.is_timeout is true
---@return runnel.http.Response? failed with `fail`: the response whose status is the error
function client.get(url, opts)
  local full_url, settings = options.read("get", url, opts)
  local response, err = perform_tries("get", full_url, settings)
  return judge(settings, response, err)
end

---Makes a request. Parks until the response is complete. The manual lists the options, also those of libcurl.
---@param opts { url: string, method?: string, headers?: table<string, string|number|string[]>,
---query?: table<string, any>, body?: string|runnel.Channel<string>|file*, size?: integer, json?: any,
---form?: table<string, any>, multipart?: table[], timeout?: number, connect_timeout?: number, max?: integer,
---redirects?: integer, tries?: integer, backoff?: number, cookies?: runnel.http.Cookies, fail?: boolean,
---[string]: any }
---@return runnel.http.Response? response nil if there is none
---@return any err why not: a string, or an error for which rn.is_timeout is true
---@return runnel.http.Response? failed with `fail`: the response whose status is the error
function client.request(opts)
  sign.dot(opts, "http", "request")
  if type(opts) ~= "table" then
    raise("request: a table expected, as in { url = \"https://example.org/\" }, got " .. check.article(opts))
  end
  local full_url, settings = options.read("request", opts.url, opts)
  local response, err = perform_tries("request", full_url, settings)
  return judge(settings, response, err)
end

-- ---- streams ----

---Makes a request whose response is too long for memory, or arrives bit by bit: returns a channel of the pieces of its
---body, at once. Without takes, little is read, so the server waits. An error closes the channel. Closing the channel
---ends the transfer.
---@param url string http:// or https://
---@param opts? table as for request, without `url`, and `buffer`: that of the channel, as for rn.chan; `idle`: ms that
---the server may send nothing
---@return runnel.Channel<string> pieces
---@return fun(): runnel.http.Response?, any head waits for the headers: returns the response without its body, or nil
---and the error
function client.stream(url, opts)
  local full_url, settings = options.read("stream", url, opts)
  return streams.open("stream", full_url, settings, check.new_chan(opts and opts.buffer, "stream"))
end

---The same for http.proxy and http.download, with settings.
---@param what string the function that was called
---@param url string
---@param settings runnel.http.Settings
---@return runnel.Channel<string> pieces
---@return fun(): runnel.http.Response?, any head
function client.forward(what, url, settings)
  return streams.open(what, url, settings, chan())
end

-- ---- cookies and fakes ----

---Cookies shared by several requests: the option `cookies`.
---@class runnel.http.Cookies
---@field all fun(self: runnel.http.Cookies): string[] the cookies, as lines of libcurl's (and Netscape's) files
---@field add fun(self: runnel.http.Cookies, line: string) adds one: such a line, or "Set-Cookie: ..."

---Makes an empty jar of cookies. Responses to requests that use it add to it.
---@return runnel.http.Cookies
function client.cookies(...)
  sign.dot((...), "http", "cookies")
  return lib.cookies()
end

---Limits how many connections there are to each server at a time: requests beyond that wait.
---@param n? integer nil: no limit, as before the first call
function client.max_connections(n)
  sign.dot(n, "http", "max_connections")
  if n ~= nil then check.integer(n, 1, "max_connections") end
  if current.world and core.internal.host() > 0 then
    current.world:here().max_connections = n
  else
    transfers.client():limit(math.min(n or 0, LARGEST_INT))
  end
end

---Closes the connections kept for further requests, as soon as no request is under way. Without this call they close
---after a minute without requests.
function client.close_idle(...)
  sign.dot((...), "http", "close_idle")
  transfers.close_idle()
end

client.fake = fakes.set

return client
