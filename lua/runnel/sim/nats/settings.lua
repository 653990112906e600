---The settings of the simulated JetStream's streams and consumers: the server adds what a program does not say.

local json = require "runnel.json"

local settings = {}

local STREAM = {
  retention = "limits", max_consumers = -1, max_msgs = -1, max_bytes = -1, max_age = 0, max_msgs_per_subject = -1,
  max_msg_size = -1, discard = "old", storage = "file", num_replicas = 1, duplicate_window = 120000000000,
}

---The settings of a stream, completed as the server does.
---@param given table
---@return table config
function settings.stream(given)
  local config = {}
  for key, value in pairs(STREAM) do config[key] = value end
  for key, value in pairs(given) do config[key] = value end
  for _, key in ipairs { "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size" } do
    if config[key] == 0 then config[key] = -1 end
  end
  if not config.subjects or #config.subjects == 0 then config.subjects = json.array { config.name } end
  if not given.duplicate_window and config.max_age > 0 and config.max_age < config.duplicate_window then
    config.duplicate_window = config.max_age
  end
  if config.discard_new_per_subject == false then config.discard_new_per_subject = nil end
  return config
end

local CONSUMER = {
  deliver_policy = "all", ack_policy = "none", max_deliver = -1, replay_policy = "instant", max_waiting = 512,
  num_replicas = 0,
}

---The settings of a consumer, completed as the server does.
---@param given table
---@return table config
function settings.consumer(given)
  local config = {}
  for key, value in pairs(CONSUMER) do config[key] = value end
  for key, value in pairs(given) do config[key] = value end
  if config.max_deliver == 0 then config.max_deliver = -1 end
  if config.ack_policy ~= "none" then
    config.ack_wait, config.max_ack_pending = config.ack_wait or 30000000000, config.max_ack_pending or 1000
  end
  return config
end

return settings
