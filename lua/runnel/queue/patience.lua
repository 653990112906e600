---The waiting times of workers, in ms: until something is repeated or reported. Shorter times only cause more messages
---to the server, so specs shorten them by `scale`.

local waits = {
  given_back = 5000,    -- until a message that was handed back is delivered again
  alone_again = 500,    -- the same for a message that must wait while another one runs alone
  starts_again = 1000,  -- after the keeper has not said, or stored, how often a message was started
  results_again = 200,  -- until results or dead letters are stored again, while the keeper is full, or away
  results_told = 5000,  -- until it reports that they cannot be stored; one attempt to store results takes no longer
}

---@class runnel.queue.patience
---@field [string] number
local patience = {}

---For specs: makes all of them shorter from now on.
---@param factor number 1 for the usual times
function patience.scale(factor)
  for name, ms in pairs(waits) do patience[name] = math.ceil(ms * factor) end
end

patience.scale(1)

return patience
