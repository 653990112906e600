---Makes named consumers of streams, and checks that they deliver.
---
---If nats-server 2.9.10 makes a consumer while it still makes the stream for another program, the consumer may have no
---queue for its messages. It then counts messages as delivered, again and again, but sends none, and the API does not
---show the fault. So `ensure` sends the consumer a request that only the consumer itself can answer.

local jetstream = require "runnel.nats.jetstream"
local timed_out = require "runnel.timed_out"
local patience = require "runnel.nats.patience"

local consumers = {}

-- How often to make a consumer again that does not answer.
local TIMES <const> = 3

-- A request for a message that every server refuses: its heartbeat interval is longer than its expiry.
local REFUSED <const> = '{"batch":1,"expires":1000000,"idle_heartbeat":1000000000}'

-- Whether the consumer fails to answer twice while the server confirms that it exists. (Otherwise the connection may be
-- lost, or a cluster may have no leader.)
local function is_mute(conn, verb, info)
  for _ = 1, 2 do
    local answer, err = conn:request("$JS.API.CONSUMER.MSG.NEXT." .. verb, REFUSED, patience.consumer_answer,
      { encoding = "raw", until_reconnect = true })
    if answer or not timed_out.is_timeout(err) then return false end
    local now = jetstream.request(conn, "CONSUMER.INFO." .. verb)
    if not now or now.created ~= info.created then return false end
  end
  return true
end

---Finds a consumer, and makes it first if it does not exist. Parks.
---@param conn runnel.nats.Connection
---@param stream string
---@param name string
---@param config table<string, any> the settings of a new one, in the server's words
---@return table? info what the server says about it
---@return string? err
---@return integer? code of the server's error
function consumers.ensure(conn, stream, name, config)
  local verb = ("%s.%s"):format(stream, name)
  for _ = 1, TIMES do
    local info, err, code = jetstream.ensure(conn, "CONSUMER.INFO." .. verb, "CONSUMER.DURABLE.CREATE." .. verb,
      { stream_name = stream, config = config })
    if not info or not is_mute(conn, verb, info) then return info, err, code end
    local deleted, why, reason = jetstream.request(conn, "CONSUMER.DELETE." .. verb)
    if not deleted and reason ~= jetstream.NO_CONSUMER then
      return nil, ("the consumer %q of the stream %q delivers nothing, and cannot be made anew: %s")
        :format(name, stream, why)
    end
  end
  return nil, ("the consumer %q of the stream %q delivers nothing; restart the server"):format(name, stream)
end

return consumers
