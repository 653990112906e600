---A queue in a store, for the spec of what every keeper of messages promises (spec/queue/keeper_spec.lua).

local process = require "spec.support.process"

local store_keeper = {}

---The reason why it is pending; nil where it works.
store_keeper.missing = not pcall(require, "runnel.sqlite") and "libsqlite3 is not installed" or nil

---Calls f with a new queue: `lease`, in ms; append(value, opts), with opts.results to the place of results; keeper(),
---as in a process of its own, and kill(keeper); count(), results(), letters().
---@param f fun(queue: table)
function store_keeper.with(f)
  local keepers = require "runnel.store.keeper"
  local stores = require "runnel.store"
  local dir <close> = process.directory()
  local path, open = dir.path .. "/work.db", {}
  local store <close> = stores.open(path)

  local function keeper()
    local own = stores.open(path) -- whose locks exclude those of others, as those of another process do
    local self = keepers.new(own, "queue", "results")
    open[self] = own
    return self
  end

  f {
    lease = 100, keeper = keeper,
    append = function(value, opts)
      return keepers.append(store, opts and opts.results and "results" or "queue", value, opts)
    end,
    kill = function(self) open[self]:close() end,
    count = function() return keepers.count(store, "queue") end,
    results = function() return store.db:one("select count(*) as n from runnel_queue where queue = 'results'").n end,
    letters = function() return store.db:one("select count(*) as n from runnel_dead").n end,
  }
  for _, own in pairs(open) do own:close() end
end

return store_keeper
