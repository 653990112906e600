---A message whose call is cancelled is given back only when that has ended, with what its to-be-closed variables do. So
---two calls of a key, or of a run, never run at the same time.

local in_work = {}

local Work = { __close = function(self)
  local message = self.message
  message.is_in_work = nil
  if message.give_back then message.give_back() end
end }

---The call of a message begins; it ends when the result, a to-be-closed variable, is closed.
---@param message runnel.store.Message
---@return any work
function in_work.begin(message)
  message.is_in_work = true
  return setmetatable({ message = message }, Work)
end

---Calls f when the call of the message has ended; at once, if none runs.
---@param message runnel.store.Message
---@param f fun()
function in_work.after(message, f)
  if message.is_in_work then message.give_back = f else f() end
end

return in_work
