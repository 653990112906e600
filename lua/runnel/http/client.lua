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
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local need = require "runnel.internal.need"
local time_limit = require "runnel.internal.time_limit"
local timed_out = require "runnel.internal.timed_out"
local upload = require "runnel.http.upload"

local lib = need("runnel.http.curl",
  "libcurl, zlib and their headers, on Debian libcurl4-openssl-dev and zlib1g-dev")

local fakes = require "runnel.http.fake"
local options = require "runnel.http.http_options"
local proxies = require "runnel.http.proxy"
local responses = require "runnel.http.response"
local sign = require "runnel.internal.sign"

local internal = core.internal
local chan, cancel = core.chan, core.cancel
local take, put = internal.moving.take, internal.moving.put
local PRIORITY = { priority = true }
local offer, close = core.methods.offer, core.methods.close
local new_response = responses.new
local NONE, refuse = options.NONE, options.refuse

local LARGEST_INT <const> = 0x7fffffff -- of C

---@class runnel.http.client
local client = {}

-- ---- the C module ----

local the_client -- of this state, made for the first request

local function get_client()
  the_client = the_client or lib.open(chan():name "http", offer, close)
  return the_client
end

-- Begins a request. An error of libcurl is raised at the line with that level, as seen from the caller.
local function start(what, url, settings, news, room, level)
  local owner = get_client()
  if settings == NONE then settings = nil end -- the same for the C module, and faster
  local ok, transfer = pcall(owner.start, owner, url, settings, news, room)
  if not ok then error(("%s: %s"):format(what, transfer), level + 1) end
  return transfer
end

-- The error of a failed request; `name` is its kind.
local function error_of(url, settings, name, text)
  local proxy = proxies.of(url, settings.libcurl)
  local message = ("%s: %s%s"):format(responses.host(url), proxy and "through the proxy " .. proxy.name .. ": " or "",
    text)
  return name == "timeout" and timed_out.new(message) or message
end

-- Waits until the state of a transfer changes. Returns nil and the error if the go block that feeds it has died. The
-- channel also closes if there is no memory for the notification.
local function wait(news)
  local is_news, err = take(news)
  if not is_news and err == nil then error("not enough memory", 0) end
  return is_news, err
end

-- Takes from a channel; for at most `idle` ms, and for as long again whenever a part of the body was sent meanwhile.
local function take_in_time(ch, url, settings)
  local idle = settings.idle
  if not idle then return take(ch) end
  repeat
    local sent = settings.pieces_sent
    local alarm <close> = guard.alarm(idle)
    local value, port, err = core.alts({ ch, alarm.over }, PRIORITY)
    if port == ch then return value, err end
  until settings.pieces_sent == sent
  return nil, time_limit.error(responses.host(url) .. ": nothing has come", idle)
end

-- Gives the program the early hints that have come.
local function give_hints(settings, transfer)
  if not settings.hints then return end
  for lines in (transfer:hints() or ""):gmatch "(.-\n)\n" do settings.hints(lib.headers(lines)) end
end

-- ---- sending the values of a channel ----

-- A go block that ends with the one that has begun it.
local Helper = { __close = function(self) cancel(self.block) end }

local function feed(transfer, settings, room)
  for piece in upload.pieces(settings) do
    local has_room = transfer:feed(piece)
    while has_room == false do
      wait(room)
      has_room = transfer:has_room()
    end
    if has_room == nil then return end -- the transfer has ended
  end
  transfer:feed()
end

-- The go block has died. The request ends with its error.
local function feeding_failed(news, reason, block)
  internal.excuse(block, reason)
  guard.close(news, reason)
end

local function begin_upload(what, settings, transfer, news, room)
  local block = guard.started(guard.go(feeding_failed, news, feed, transfer, settings, room), what)
  return setmetatable({ block = block }, Helper)
end

-- ---- requests ----

-- Makes a request and waits for its end. Errors in the options are raised at `level`, as seen from the caller.
local function perform(what, url, settings, level)
  local sending <close> = upload.sending(settings) -- luacheck: ignore 211
  local wrong = refuse(url)
  if wrong then return nil, wrong end
  if fakes.is_used(what, level + 1) then return fakes.request(url, settings) end
  local news, room = chan(1), settings.source and chan(1)
  local transfer <close> = start(what, url, settings, news, room, level + 1)
  local feeding <close> = room and begin_upload(what, settings, transfer, news, room) or nil -- luacheck: ignore 211
  while true do
    local is_news, err = wait(news)
    if not is_news then return nil, err end
    local status, headers, body, last_url, times, certificates, trailers = transfer:response()
    give_hints(settings, transfer)
    if status then return new_response(status, headers, body, last_url, times, certificates, trailers) end
    if headers then return nil, error_of(url, settings, headers, body) end -- the error's kind and text
  end
end

-- The same, as often as the options say.
local function perform_tries(what, url, settings, level)
  local response, err
  if settings.tries and not refuse(url) then
    response, err = require("runnel.http.repeats").perform(perform, what, url, settings, level + 1)
  else
    response, err = perform(what, url, settings, level + 1)
  end
  return response, err
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
  local full_url, settings = options.read("get", url, opts, 2)
  local response, err = perform_tries("get", full_url, settings, 2)
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
    error("request: a table expected, as in { url = \"https://example.org/\" }, got " .. check.article(opts), 2)
  end
  local full_url, settings = options.read("request", opts.url, opts, 2)
  local response, err = perform_tries("request", full_url, settings, 2)
  return judge(settings, response, err)
end

-- ---- streams ----

-- A response whose body goes to a channel.
local Stream = {}
Stream.__index = Stream

-- Announces `head`.
local function tell_head(self, head)
  self.head = head
  self.ready:close()
end

-- The stream has failed. The error is not reported if the program gets it from `head`.
local function fail_stream(self, err)
  self.over = true
  internal.fail(self.ch, err, nil, "http.stream")
end

-- Whether a status is an error, with which the stream then ends.
local function is_refused(self, head)
  local is_error = self.settings.fail and head.status >= 400
  if is_error then fail_stream(self, responses.status_error(self.url, head.status)) end
  return is_error
end

local function end_stream(self)
  local on_trailers = self.settings.on_trailers
  if on_trailers then on_trailers(self.head) end
  self.over = true
  self.ch:close()
end

-- Moves the body to the channel.
local function move_body(self, transfer, news)
  local ch = self.ch
  while true do
    local ok, name, text, certificates, trailers = transfer:result() -- before `take`: then all data has arrived
    local piece = transfer:take() -- before `head`: then the head of a piece is known
    if not self.head then
      local status, headers = transfer:head()
      give_hints(self.settings, transfer)
      if status then
        local head = new_response(status, headers, nil, self.url)
        if is_refused(self, head) then return end
        tell_head(self, head)
      end
    end
    if piece then
      if not put(ch, piece) then return end
    elseif ok then
      responses.set_connection(self.head, text, certificates, trailers)
      return end_stream(self)
    elseif name then
      return fail_stream(self, error_of(self.url, self.settings, name, text))
    else
      local is_news, err = take_in_time(news, self.url, self.settings)
      if not is_news then return fail_stream(self, err or "not enough memory") end
    end
  end
end

-- Ends the transfer when its go block is collected: then the channel is unreachable.
local Left = { __gc = function(self) self.transfer:cancel() end }

-- The go block of a stream.
local function run_stream(self, transfer, news, room)
  local sending <close> = upload.sending(self.settings) -- luacheck: ignore 211
  local closing <close> = transfer -- luacheck: ignore 211
  local left = setmetatable({ transfer = transfer }, Left)
  local feeding <close> = -- luacheck: ignore 211
    room and begin_upload("stream", self.settings, transfer, news, room) or nil
  move_body(self, left.transfer, news)
end

-- Nothing will read the body of a response for which nobody waits any more.
local function drop_body(results)
  local response = results and results[1]
  if response and core.is_chan(response.body) then ends.drop(response.body) end
end

-- The go block that asks a fake, and ends with the one that has begun it.
local Asking = { __close = function(self)
  self.is_left = true
  cancel(self.block)
  drop_body(self.block:poll())
end }

-- The response of a fake.
local function ask_fake(self)
  local settings = self.settings
  if not settings.idle then return fakes.request(self.url, settings, true) end
  local asking
  local function ask()
    local results = { fakes.request(self.url, settings, true) }
    if asking.is_left then drop_body(results) end
    return results
  end
  asking = { block = core.go(ask) }
  local ending <close> = setmetatable(asking, Asking) -- luacheck: ignore 211
  local results, err = take_in_time(asking.block, self.url, settings)
  if not results then return nil, err end
  return results[1], results[2]
end

-- The same with a fake.
local function run_fake(self)
  local sending <close> = upload.sending(self.settings) -- luacheck: ignore 211
  local began = core.now()
  local response, err = ask_fake(self)
  if not response then return fail_stream(self, err) end
  local body, timing, trailers = response.body, response.timing, response.trailer_lines
  response.body, response.timing, response.trailer_lines = nil, nil, nil
  if is_refused(self, response) then return end
  tell_head(self, response)
  local function done()
    responses.set_timing(response, timing.first_byte, core.now() - began)
    response.trailer_lines = trailers()
    end_stream(self)
  end
  if type(body) == "string" then
    if body ~= "" and not put(self.ch, body) then return end
    return done()
  end
  local reading <close> = setmetatable({ ch = body }, ends.Dropping) -- luacheck: ignore 211
  repeat
    local piece, why = take_in_time(body, self.url, self.settings)
    if piece == nil and why ~= nil then return fail_stream(self, why) end
  until piece == nil or not put(self.ch, piece)
  done()
end

local function begin_stream(self, what, level)
  if fakes.is_used(what, level + 1) then return guard.go(guard.close, self.ch, run_fake, self) end
  local settings = self.settings
  local news, room = chan(1), settings.source and chan(1)
  settings.is_stream = true
  local transfer = start(what, self.url, settings, news, room, level + 1)
  local ok, block = pcall(guard.go, guard.close, self.ch, run_stream, self, transfer, news, room)
  if ok then return block end
  transfer:cancel() -- memory has run out
  error(block, 0)
end

-- Waits until the headers have arrived, or cannot, since the channel was closed.
local function wait_for_head(self)
  if not self.head then core.alts { self.ready, self.ch:done() } end
  if self.head then return self.head end
  local _, err = self.ch:poll() -- so that it counts as taken
  return nil, err == nil and "the channel of the stream was closed" or err
end

-- Begins a stream; errors are raised at `level`, as seen from the caller.
local function open_stream(what, url, settings, ch, level)
  ch:name("http " .. responses.host(url))
  local self = setmetatable({ url = url, ch = ch, ready = chan(), settings = settings, over = false }, Stream)
  local wrong = refuse(url)
  if wrong then
    fail_stream(self, wrong)
    upload.drop(settings)
  else
    self.block = guard.started(begin_stream(self, what, level + 1), what)
    internal.on_close(ch, function()
      if self.over then return end
      self.over = true
      cancel(self.block)
      upload.drop(settings) -- if its go block has not begun
    end)
  end
  return ch, function() return wait_for_head(self) end
end

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
  local full_url, settings = options.read("stream", url, opts, 2)
  local ch, head = open_stream("stream", full_url, settings, check.new_chan(opts and opts.buffer, "stream"), 2)
  return ch, head -- no tail call: it would hide the caller's line
end

---The same for http.proxy and http.download, with settings. Errors are raised at `level`, as seen from the caller.
---@param what string the function that was called
---@param url string
---@param settings runnel.http.Settings
---@param level integer
---@return runnel.Channel<string> pieces
---@return fun(): runnel.http.Response?, any head
function client.forward(what, url, settings, level)
  local ch, head = open_stream(what, url, settings, chan(), level + 1)
  return ch, head
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
  if current.world and internal.host() > 0 then
    current.world:here().max_connections = n
  else
    get_client():limit(math.min(n or 0, LARGEST_INT))
  end
end

---Closes the connections kept for further requests, as soon as no request is under way. Without this call they close
---after a minute without requests.
function client.close_idle(...)
  sign.dot((...), "http", "close_idle")
  if the_client then the_client:close_idle() end
end

client.fake = fakes.set

return client
