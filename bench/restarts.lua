-- The part `restarts` of `make bench-machines`: how many jobs are done while the server is killed every second, as a
-- multiple of the ideal: the jobs a second without kills, in the time from when the server is ready until it is killed.
-- After an outage the workers wait until all processes have had the time to reconnect (runnel.nats.internal.settling):
-- with the reconnect_wait used here 0.35 s, which the ideal leaves out.

local rn = require "runnel"

local AT_ONCE <const>, EVERY <const>, SETTLES <const> = 192, 1000, 350

---Runs it. The connections must have a reconnect_wait of 50 ms.
---@param server table
---@param remote runnel.Remote
---@param seconds number how long the server is killed
---@return { results: integer, ideal: number, sent: integer, kills: integer } `sent`: messages of the submitter
local function restarts(server, remote, seconds)
  local last, is_over, results, sent = 0, false, 0, 0
  local core = getmetatable(remote.conn.core).__index
  local publish = core.publish
  function core.publish(...)
    sent = sent + 1
    return publish(...)
  end
  local out = rn.pmap_unordered(AT_ONCE, remote, rn.to_chan(function()
    last = last + 1
    return not is_over and last or nil
  end))
  local taking = rn.go(function()
    for _ in out do results = results + 1 end
  end)
  rn.sleep(1000)
  local before, start = results, rn.now()
  rn.sleep(3000)
  local rate = (results - before) / (rn.now() - start)
  local up, kills = 0, 0
  before, sent, start = results, 0, rn.now()
  while rn.now() - start < seconds * 1000 do
    server:kill()
    server:start()
    local ready_at = rn.now()
    rn.sleep(EVERY)
    up, kills = up + rn.now() - ready_at - SETTLES, kills + 1
  end
  local outcome = { results = results - before, ideal = rate * up, sent = sent, kills = kills }
  is_over = true
  taking:take() -- every job has its result
  core.publish = publish
  return outcome
end

return restarts
