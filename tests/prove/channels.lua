---A channel of each kind, as a list of functions that make one.

local rn = require "runnel"

local function queue()
  local values = {}
  return { full = function() return #values >= 1 end, add = function(_, v) values[1] = v end,
    remove = function() return table.remove(values) end, count = function() return #values end }
end

local channels = {
  function() return rn.chan() end, function() return rn.chan(1) end, rn.promise_chan,
  function() return rn.chan(queue()) end, function() return rn.chan(1, function(rf) return rf end) end,
  function() return rn.shared_chan(1) end,
}

---The kind of which each take gets the same value.
channels.promise = channels[3]

return channels
