---A response whose body goes to a channel: http.stream, and what http.proxy and http.download read.

local core = require "runnel.core"
local ends = require "runnel.internal.ends"
local fakes = require "runnel.http.fake"
local guard = require "runnel.internal.guard"
local options = require "runnel.http.http_options"
local responses = require "runnel.http.response"
local time_limit = require "runnel.internal.time_limit"
local transfers = require "runnel.http.transfer"
local upload = require "runnel.http.upload"

local internal = core.internal
local chan, cancel = core.chan, core.cancel
local take, put = internal.moving.take, internal.moving.put
local new_response, refuse = responses.new, options.refuse
local PRIORITY = { priority = true }

local streams = {}

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
      transfers.give_hints(self.settings, transfer)
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
      return fail_stream(self, transfers.error_of(self.url, self.settings, name, text))
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
    room and transfers.upload("stream", self.settings, transfer, news, room) or nil
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

local function begin_stream(self, what)
  if fakes.is_used(what) then return guard.go(guard.close, self.ch, run_fake, self) end
  local settings = self.settings
  local news, room = chan(1), settings.source and chan(1)
  settings.is_stream = true
  local transfer = transfers.start(what, self.url, settings, news, room)
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

---Begins a stream.
---@param what string the function that was called
---@param url string
---@param settings runnel.http.Settings
---@param ch runnel.Channel<string>
---@return runnel.Channel<string> pieces
---@return fun(): runnel.http.Response?, any head
function streams.open(what, url, settings, ch)
  ch:name("http " .. responses.host(url))
  local self = setmetatable({ url = url, ch = ch, ready = chan(), settings = settings, over = false }, Stream)
  local wrong = refuse(url)
  if wrong then
    fail_stream(self, wrong)
    upload.drop(settings)
  else
    self.block = guard.started(begin_stream(self, what), what)
    internal.on_close(ch, function()
      if self.over then return end
      self.over = true
      cancel(self.block)
      upload.drop(settings) -- if its go block has not begun
    end)
  end
  return ch, function() return wait_for_head(self) end
end

return streams
