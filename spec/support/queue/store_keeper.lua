---A stream in a store, for the spec of what every keeper of messages promises (spec/queue/keeper_spec.lua).

local process = require "spec.support.process"

local store_keeper = {}

---The reason why it is pending; nil where it works.
store_keeper.missing = not pcall(require, "runnel.sqlite") and "libsqlite3 is not installed" or nil

---Calls f with a new queue: `lease`, in ms; append(value, opts), with opts.results to the place of results; keeper(),
---as in a process of its own, and kill(keeper); count(), results(), letters(); `is_atomic`, since `done` is one step.
---@param f fun(queue: table)
function store_keeper.with(f)
  local consumers = require "runnel.store.consumer"
  local keepers = require "runnel.store.keeper"
  local stores = require "runnel.store"
  local dir <close> = process.directory()
  local path, open = dir.path .. "/work.db", {}
  local store <close> = stores.open(path)
  assert(store:stream "queue")
  local results = assert(store:stream "results")
  local sinks = { queue = assert(store:sink "queue"), results = assert(store:sink "results") }

  local function keeper()
    local own = stores.open(path) -- whose locks exclude those of others, as those of another process do
    local self = keepers.new {
      consumer = assert(consumers.open(own, "queue", "workers", {})), from = "queue", to = "results",
      to_subject = "results", what = "spec",
    }
    open[self] = own
    return self
  end

  f {
    lease = 100, keeper = keeper, is_atomic = true,
    append = function(value, opts)
      local ok, _, is_duplicate = sinks[opts and opts.results and "results" or "queue"]:put(value,
        { id = opts and opts.id, headers = opts and opts.headers })
      return ok, is_duplicate
    end,
    kill = function(self) open[self]:close() end,
    count = function()
      local queue = assert(store:queue "workers")
      return { waiting = queue.waiting, running = queue.running }
    end,
    results = function() return results:stats().messages end,
    letters = function() return store:dead("spec"):count() end,
  }
  for _, own in pairs(open) do own:close() end
end

return store_keeper
