---The keeper in memory of examples/lib/memory_keeper.lua, for specs of keepers and of workers, in simulations: its
---process can be killed.

local memory = require "examples.lib.memory_keeper"
local rn = require "runnel"
local sim = require "runnel.sim"

local memory_place = {}

local function never() rn.chan():take() end
local function nothing() end

---The values of the messages that were ever stored in a queue, in their order.
---@param queue table
---@return any[]
function memory_place.values(queue)
  local list = {}
  for i = 1, queue.last do list[i] = queue.entries[i].value end
  return list
end

---The process of a keeper is killed: the keeper has no effect any more, and its messages go to others after the lease.
---@param keeper table
---@param lease number ms
function memory_place.lose(keeper, lease)
  local queue, answered = keeper.queue, keeper.taker.answered
  keeper:close()
  keeper.taker.answered = nothing
  for message in pairs(keeper.messages) do keeper:back(message, lease) end
  keeper.taker.answered = answered
  for _, name in ipairs { "done", "starts", "set_starts", "bury" } do keeper[name] = never end
  for _, name in ipairs { "back", "drop", "note_starts", "forget_starts" } do keeper[name] = nothing end
  rn.go(function()
    rn.sleep(lease)
    queue:ring()
  end)
end

---A keeper of a queue that can be killed: it knows the messages that it has.
---@param queue table
---@param to? table
function memory_place.keeper(queue, to)
  local keeper = queue:keeper(to)
  local open = keeper.open
  keeper.messages = {}
  function keeper:open(taker)
    local own = { n = taker.n, room = taker.room, silent = taker.silent, over = taker.over }
    function own.take(message)
      self.messages[message] = true
      taker.take(message)
    end
    function own.answered(message)
      self.messages[message] = nil
      taker.answered(message)
    end
    return open(self, own)
  end
  return keeper
end

---Calls f with a new queue, as spec/queue/keeper_spec.lua needs it.
---@param f fun(queue: table)
function memory_place.with(f)
  local lease = 500
  sim.run(function()
    local queue, to = memory.queue "queue", memory.queue "results"
    f {
      lease = lease,
      append = function(value, opts) return (opts and opts.results and to or queue):append(value, opts) end,
      keeper = function() return memory_place.keeper(queue, to) end,
      kill = function(keeper) memory_place.lose(keeper, lease) end,
      count = function() return queue:count() end, results = function() return to.last end,
      letters = function()
        local n = 0
        for _ in pairs(queue.letters) do n = n + 1 end
        return n
      end,
    }
  end)
end

return memory_place
