---What the story of a run tells of the bytes of a connection to a simulated NATS server: messages, deliveries and their
---answers, and what changes streams; not pings, heartbeats, and what the library only asks.

local check = require "runnel.internal.check"
local protocol = require "runnel.sim.nats.protocol"

local story = {}

local SHOWN <const> = 60 -- bytes of a message

local function text_of(data)
  local text = #data > SHOWN and data:sub(1, SHOWN) .. "..." or data
  return (check.describe(text):gsub("\\\n", "\\n"))
end

-- An answer to a delivery.
local function answer(subject, data)
  local stream, consumer, seq = subject:match "^%$JS%.ACK%.([^.]+)%.([^.]+)%.%d+%.(%d+)%."
  return stream and ("%s for message %s of %s/%s"):format(data == "" and "+ACK" or data, seq, stream, consumer)
end

-- A request to JetStream's API; nil if it changes nothing.
local function request(verb, data)
  local consumer = verb:match "^CONSUMER%.MSG%.NEXT%.(.*)$"
  if consumer then
    if data:find '"expires":1000000,' then return nil end -- only whether it answers
    local n = data:match '"batch":(%d+)' or "1"
    return ("asks %s for %s message%s"):format(consumer:gsub("%.", "/"), n, n == "1" and "" or "s")
  end
  if verb:find "%.INFO%." or verb:find "%.GET%." or verb:find "%.LIST" then return nil end
  return "JetStream: " .. verb
end

-- What a client sends.
local function of_client(name, words, _, body)
  if name == "SUB" then return not words:find "^_INBOX" and "subscribes to " .. words:match "^%S+" or nil end
  if name ~= "PUB" then return nil end
  local subject = words:match "^%S+"
  local verb = subject:match "^%$JS%.API%.(.*)$"
  if verb then return request(verb, body) end
  if body == "" and words:match "%S+$" == subject then return nil end -- a flush
  return answer(subject, body) or ("publishes to %s: %s"):format(subject, text_of(body))
end

-- What the server sends.
local function of_server(name, words, headers, body)
  if name ~= "MSG" then return nil end
  local subject, reply = words:match "^(%S+) %S+ ?(%S*)$"
  local status = headers and headers:match "^NATS/1%.0 (%d[^\r]*)"
  if status then
    local code = status:match "^%d+"
    if code == "409" then return status end
    return nil
  end
  local stream, consumer, n, seq = reply:match "^%$JS%.ACK%.([^.]+)%.([^.]+)%.(%d+)%.(%d+)%."
  if stream then
    local again = n ~= "1" and (" (delivery %s)"):format(n) or ""
    return ("message %s of %s/%s%s: %s"):format(seq, stream, consumer, again, text_of(body))
  end
  if subject:find "^_INBOX" and body:find '^{"' then
    local err = body:match '"error":{.-"description":"([^"]*)"'
    if err then return not err:find "not found" and "refuses: " .. err or nil end
    local stream_name, number = body:match '"stream":"([^"]*)"', body:match '"seq":(%d+)'
    local is_stored = stream_name and number and not body:find '"config"'
    return is_stored and ("%s has it as message %s"):format(stream_name, number) or nil
  end
  if subject:find "^_INBOX" and body == "" then return nil end -- the answer to a flush
  return ("%s: %s"):format(subject, text_of(body))
end

local function teller(f)
  return function(data)
    local parts = {}
    protocol.reader(function(...) parts[#parts + 1] = f(...) end)(data)
    return parts[1] and table.concat(parts, "; ") or nil
  end
end

---What the story tells of bytes that a client, or the server, sends; nil: nothing.
---@type fun(data: string): string?
story.of_client = teller(of_client)
---@type fun(data: string): string?
story.of_server = teller(of_server)

return story
