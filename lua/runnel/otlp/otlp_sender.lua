---Sends bodies to a collector, with tries, and counts what was sent and what was dropped.

local core = require "runnel.core"
local backoff = require "runnel.internal.backoff"
local client = require "runnel.http.client"
local contexts = require "runnel.internal.trace_context"
local json = require "runnel.json"
local repeats = require "runnel.http.repeats"

local internal = core.internal

local sender = {}

-- The pause after the first try, and the longest one, in ms.
local PAUSE <const>, LONGEST_PAUSE <const> = 1000, 60000

-- How much of a collector's explanation a report has.
local LONGEST_TEXT <const> = 200

---@class runnel.internal.OtlpSender
---@field what string "spans" or "points"
---@field url string
---@field headers table<string, string>
---@field timeout number
---@field tries integer
---@field sent integer
---@field dropped integer
---@field under_way integer of a body that is being sent
---@field error? string why something was dropped last; nil once something was sent again
local Sender = {}
Sender.__index = Sender

---@param what string
---@param settings { url: string, headers: table<string, string>, timeout: number, tries: integer }
---@param path string
---@return runnel.internal.OtlpSender
function sender.new(what, settings, path)
  return setmetatable({ what = what, url = settings.url .. path, headers = settings.headers,
    timeout = settings.timeout, tries = settings.tries, sent = 0, dropped = 0, under_way = 0 }, Sender)
end

---Counts what is lost, and reports it, but not again until something was sent.
---@param n integer
---@param why string
function Sender:drop(n, why)
  self.dropped = self.dropped + n
  local is_new = self.error == nil
  self.error = why
  if is_new then internal.report(("otlp: %d %s were dropped: %s"):format(n, self.what, why), nil, "runnel.otlp") end
end

-- How many of n the collector says it has refused, in a response of success.
local function rejected(response, n)
  local answer = response.body ~= "" and json.decode(response.body)
  local part = type(answer) == "table" and answer.partialSuccess
  if type(part) ~= "table" then return 0 end
  local count = math.tointeger(tonumber(part.rejectedSpans or part.rejectedDataPoints or 0)) or 0
  return math.min(math.max(count, 0), n), part.errorMessage
end

local function pause_of(response, try)
  local ms = response and repeats.asked(response)
  return ms and math.min(ms, LONGEST_PAUSE) or backoff.pause(PAUSE, try)
end

-- The request belongs to a trace that nobody records: a collector that records its own traces would otherwise send
-- itself more and more.
local function post(self, body)
  local headers = { traceparent = ("00-%s-%s-00"):format(contexts.new_id(4), contexts.new_id(2)) }
  for name, value in pairs(self.headers) do headers[name] = value end
  return client.request { url = self.url, method = "POST", headers = headers, body = body, timeout = self.timeout,
    redirects = 0 }
end

---The exporter has ended: what is under way, and n more that wait, are lost. That is not reported.
---@param n integer
function Sender:give_up(n)
  self.dropped = self.dropped + self.under_way + n
  self.under_way = 0
end

local function send(self, body, n)
  local response, err
  for try = 1, self.tries do
    response, err = post(self, body)
    local status = response and response.status
    if status and status >= 200 and status < 300 then
      local refused, why = rejected(response, n)
      self.sent = self.sent + n - refused
      if refused > 0 then return self:drop(refused, "the collector has refused them: " .. tostring(why)) end
      self.error = nil
      return
    end
    if status and not repeats.LATER[status] then break end
    if try < self.tries then core.sleep(pause_of(response, try)) end
  end
  self:drop(n, response and ("%s: status %d: %s"):format(self.url, response.status,
    (response.body:sub(1, LONGEST_TEXT):gsub("%s+", " "))) or tostring(err))
end

---Sends n things, in a body. Parks until they are sent or dropped.
---@param body string
---@param n integer
function Sender:send(body, n)
  self.under_way = n
  send(self, body, n)
  self.under_way = 0
end

return sender
