---Reports problems of a remote stage, a worker or a durable stage: once for each key, not at each attempt.

local internal = require("runnel.core").internal

---@param self { name: string, told: table<string, boolean> }
---@param what string "remote", "serve" or "stage"
---@param message string
---@param key? string the message, by default
return function(self, what, message, key)
  key = key or message
  if self.told[key] then return end
  self.told[key] = true
  internal.report(("%s %s: %s"):format(what, self.name, message), nil, what .. " " .. self.name)
end
