---The acknowledgements of the last seconds. A killed server forgets them, and has the messages again.

local patience = require "runnel.nats.internal.patience"

local acks = {}

---@class runnel.nats.AckMemory
---@field private older table<any, string> subjects, by their keys
---@field private recent table<any, string>
---@field private since number when `recent` was begun
local Memory = {}
Memory.__index = Memory

---@param now number
---@return runnel.nats.AckMemory
function acks.memory(now) return setmetatable({ older = {}, recent = {}, since = now }, Memory) end

---Remembers an acknowledgement.
---@param subject string
---@param heard number when the server was last heard of
---@param key? string what `of` finds it by
function Memory:add(subject, heard, key)
  if heard - self.since > patience.acks_kept then self.older, self.recent, self.since = self.recent, {}, heard end
  local recent = self.recent
  recent[key or #recent + 1] = subject
end

---The subject of an acknowledgement; nil if there was none in the last seconds.
---@param key string
---@return string?
function Memory:of(key) return self.recent[key] or self.older[key] end

---Repeats all acknowledgements without a key, waits until the server has them, for at most `ms`, and forgets them.
---@param conn runnel.nats.Connection
---@param ms number
function Memory:send_again(conn, ms)
  local last
  local older, recent = self.older, self.recent
  self.older, self.recent = {}, {}
  for _, list in ipairs { older, recent } do
    for _, subject in ipairs(list) do
      conn.core:publish(subject, "+ACK")
      last = subject
    end
  end
  if last then conn:request(last, "+ACK", { timeout = ms, encoding = "raw" }) end
end

return acks
