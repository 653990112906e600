---http.events: the events of a server (text/event-stream), as a channel that connects again when the connection ends.

local io = io
local core = require "runnel.core"
local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local client = require "runnel.http.client"
local event_stream = require "runnel.http.event_stream"
local fakes = require "runnel.http.fake"
local guard = require "runnel.internal.guard"
local options = require "runnel.http.http_options"
local repeats = require "runnel.http.repeats"
local responses = require "runnel.http.response"

local internal = core.internal
local raise = internal.raise

-- Times in ms. Servers may ask for other pauses, within the last two.
local RETRY <const>, SHORTEST <const>, LONGEST <const> = 1000, 100, 3600000

-- The defaults of `tries` and `max`.
local TRIES <const>, MAX <const> = 10, 1 << 20

-- The options that http.request does not have, or, like `max`, has with another meaning.
local OWN = { "backoff", "buffer", "last_id", "max", "reconnect", "tries" }

---@class runnel.http.events
local events = {}

-- ---- one connection ----

-- The headers of the next request: the program's, and defaults for those that it has not set.
local function headers_of(self)
  local headers, given = {}, {}
  for name, value in pairs(self.headers) do
    headers[name] = value
    given[name:lower()] = true
  end
  local function add(name, value)
    if not given[name:lower()] then headers[name] = value end
  end
  add("Accept", event_stream.TYPE)
  add("Cache-Control", "no-cache")
  if self.id ~= "" then add("Last-Event-ID", self.id) end
  return headers
end

-- Puts the events of a connection on the channel until the connection ends. Returns whether to connect again (not if
-- the channel is closed, or the error is final); and the error, if there was one.
local function read(self, pieces)
  local parser = event_stream.parser(self.id, self.max)
  while true do
    local piece, err = pieces:take()
    if piece == nil then return true, err end
    local list, ok = parser:feed(piece)
    for _, event in ipairs(list) do
      if not self.ch:put(event) then return false end
    end
    self.id = parser.id
    if parser.retry then self.retry = math.min(math.max(parser.retry, SHORTEST), LONGEST) end
    if not ok then
      return false, ("%s: an event has more than %d bytes; the option max allows longer ones"):format(
        responses.host(self.url), self.max)
    end
  end
end

local function may_succeed(status) return status == 429 or status >= 500 end

-- Checks the head of a response. Returns whether events follow; if not, also an error, or nil if the server wants no
-- more requests; and whether a later request may succeed.
local function judge(head)
  local status, kind = head.status, head.headers["content-type"] or "no type"
  if status == 200 then
    if kind:lower():match "^[^;%s]*" == event_stream.TYPE then return true end
    return false, ("%s: events (%s) expected, got %s"):format(responses.host(head.url), event_stream.TYPE, kind), false
  elseif status == 204 then
    return false, nil, false
  end
  return false, responses.status_error(head.url, status), may_succeed(status)
end

-- The pause that the server asks for, in ms.
local function wanted_pause(head)
  return math.min(repeats.asked(head) or 0, LONGEST)
end

-- Connects once, and reads until the connection ends. Returns whether to connect again; an error, if there was one; and
-- the pause that the server asks for, in ms.
local function connect(self)
  self.request.headers = headers_of(self)
  local pieces <close>, wait_for_head = client.stream(self.url, self.request)
  local head, err = wait_for_head()
  if not head then return true, err, 0 end
  local is_good, problem, may_retry = judge(head)
  if not is_good then return may_retry, problem, wanted_pause(head) end
  self.failed = 0
  local goes_on, why = read(self, pieces)
  return goes_on, why, 0
end

-- ---- the channel ----

local function finish(self, err)
  if err == nil then return self.ch:close() end
  internal.fail(self.ch, err, nil, "http.events")
end

-- The function of the channel's go block.
local function run(self)
  while true do
    self.failed = self.failed + 1
    local goes_on, err, least = connect(self)
    if not goes_on or not self.reconnects or self.failed >= self.tries then return finish(self, err) end
    core.sleep(math.max(backoff.pause(self.retry, math.max(self.failed, 1)), least))
  end
end

-- Checks the options of this module. Returns whether it reconnects.
local function check_own(opts, settings)
  local id, again = opts.last_id, opts.reconnect
  if id ~= nil and (type(id) ~= "string" or id:find "[\r\n\0]") then
    raise("events: last_id: a string without line breaks and zero bytes expected, got " .. check.describe(id))
  end
  check.boolean_or_nil(again, "events: reconnect")
  if again == nil then again = (settings.method or "GET") == "GET" end
  if again and (settings.source or io.type(settings.body)) then
    raise("events: body: a string expected, since each connection sends it again")
  end
  return again
end

---Gets the events of a server: returns a channel of them, at once. When the connection ends, or cannot be made, it
---reconnects, and sends the last id that it has received. The channel closes with an error if the status or the content
---type shows that there are no events, or after `tries` connections in a row have failed; without an error if the
---status is 204. Closing the channel ends the connection.
---@param url string http:// or https://
---@param opts? table as for request, without `url`, `timeout`, `fail`, `size`, `hints` and `certificates`, and:
---`backoff`: ms before it reconnects, unless the server sets another time; default 1000; doubled after each failure, up
---to a minute; up to half of it, at random, is left out. `tries`: default 10; math.huge: no limit. `reconnect`: default
---true for GET. `last_id`: the id of the event after which to start. `idle`: ms without a byte after which it
---reconnects. `max`: bytes of an event; default 1048576. `buffer`: of the channel, as for rn.chan
---@return runnel.Channel<runnel.http.Event> events
function events.events(url, opts)
  local _, settings = options.read("events", url, opts)
  opts = opts or {}
  local is_endless = opts.tries == math.huge
  local given = { tries = not is_endless and opts.tries or nil, backoff = opts.backoff or RETRY }
  local tries, retry = backoff.options(given, "events", TRIES)
  local reconnects = check_own(opts, settings)
  local ch = check.new_chan(opts.buffer, "events"):name("events " .. responses.host(url))
  local request = {}
  for name, value in pairs(opts) do request[name] = value end
  for _, name in ipairs(OWN) do request[name] = nil end
  if request.tcp_keepalive == nil then request.tcp_keepalive = true end -- to notice that a silent server is gone
  local self = { ch = ch, url = url, request = request, headers = opts.headers or {}, id = opts.last_id or "",
    retry = math.max(retry, SHORTEST), tries = is_endless and math.huge or tries,
    reconnects = reconnects, max = opts.max or MAX,
    failed = 0 }
  local wrong = options.refuse(url)
  if wrong then
    finish(self, wrong)
  else
    fakes.is_used("events") -- raises in a simulation without one
    guard.started(guard.go_while_open(ch, guard.close, ch, run, self), "events")
  end
  return ch
end

return events
