---req:events(): a response whose body is events (text/event-stream).

local core = require "runnel.core"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local event_stream = require "runnel.http.event_stream"
local guard = require "runnel.internal.guard"
local headers_of = require "runnel.http.middleware.headers"
local raise = core.internal.raise

local put_while_open = core.internal.moving.put_while_open
local now = core.now

local event_response = {}

-- ms without an event after which a comment is sent.
local PING <const> = 15000

local OPTIONS = { headers = check.kinds.table, ping = true }

---An event to send. At least one field.
---@class runnel.http.SentEvent
---@field data? string|number|table a table is sent as JSON
---@field event? string its type; clients take "message" if there is none
---@field id? string|number what a client sends as Last-Event-ID when it connects again
---@field retry? integer ms that clients wait before they connect again

-- ---- the body ----

-- Sends a comment whenever no event has been sent for a time.
local function send_pings(state)
  while true do
    local rest = state.last + state.ping - now()
    if rest > 0 then
      core.sleep(rest)
    elseif put_while_open(state.out, event_stream.COMMENT) then
      state.last = now()
    else
      return
    end
  end
end

-- Ends the comments, closes the source, and drops its waiting values, so that puts on it end.
local Ending = { __close = function(state)
  if state.pings then core.cancel(state.pings) end
  ends.drop(state.source)
end }

-- Moves the events of the source, as text, to the body.
local function send_events(state)
  local ending <close> = setmetatable(state, Ending) -- luacheck: ignore 211
  local source, out = state.source, state.out
  if state.ping then state.pings = guard.go(guard.nothing, nil, send_pings, state) end
  local next_event = ends.source(source)
  while true do
    local event, _, err = next_event(source, out)
    if event == nil then return ends.close(out, err, source) end
    local text, problem = event_stream.encode(event)
    if not text then return out:close(problem) end
    state.last = now()
    if not put_while_open(out, text) then return end
  end
end

-- ---- the source ----

local function call(f, source)
  f(source)
  source:close()
end

-- The channel to which a function puts events. The go block of the function ends with the channel.
local function start(f)
  local source = core.chan()
  guard.started(guard.go_while_open(source, guard.close, source, call, f, source), "events")
  return source
end

---Makes the response to a request; see runnel.http.Request.events.
---@param req runnel.http.Request
---@param source any
---@param opts any
---@return integer status
---@return table headers
---@return runnel.Channel<string>? body
function event_response.new(req, source, opts)
  if not core.is_chan(source) and not check.is_callable(source) then
    raise("events: a channel of events, or a function that puts events on a channel, expected, got "
      .. check.article(source))
  end
  check.options(opts, OPTIONS, "events")
  local ping, more = opts and opts.ping, opts and opts.headers
  if ping == nil then ping = PING end
  if ping then check.ms(ping, 1, "events: ping") end
  -- nginx does not wait for more of a response with the last of these headers.
  local headers = { ["Content-Type"] = event_stream.TYPE, ["Cache-Control"] = "no-cache", ["X-Accel-Buffering"] = "no" }
  for name, value in pairs(more or {}) do headers_of.set(headers, name, value) end
  if req.method == "HEAD" then
    if core.is_chan(source) then source:close() end
    return 200, headers
  end
  local out = core.chan()
  local state = { out = out, source = core.is_chan(source) and source or start(source), ping = ping, last = now() }
  guard.started(guard.go(guard.close, { out, state.source }, send_events, state), "events")
  return 200, headers, out
end

return event_response
