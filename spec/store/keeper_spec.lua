-- runnel.store.keeper: what is special about queues in a store. What every keeper of messages promises is a spec of its
-- own, to which spec/support/store_keeper.lua gives a queue in a store.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"

describe("a queue in a store", function()
  if not pcall(require, "runnel.sqlite") then return pending "libsqlite3 is not installed" end
  local keepers = require "runnel.store.keeper"
  local stores = require "runnel.store"
  local dir, store

  before_each(function()
    dir = process.directory()
    store = stores.open(dir.path .. "/work.db")
  end)
  after_each(function()
    store:close()
    dir:remove()
  end)

  -- A keeper with room for n messages, which collects what comes.
  local function open(n, to)
    local self = keepers.new(store, "jobs", to)
    self.got, self.silences = {}, 0
    assert(self:open {
      room = function() return n - #self.got end,
      take = function(message) self.got[#self.got + 1] = message end,
      answered = function() end, over = function() end,
      silent = function() self.silences = self.silences + 1 end,
    })
    return self
  end

  local function wait_for(condition) assert.is_truthy(patience.wait_until(30000, condition)) end

  it("ends a message and stores its results in one transaction, each result once", function()
    for i = 1, 100 do assert.is_true(keepers.append(store, "jobs", { n = i })) end
    local one = open(100, "results")
    wait_for(function() return #one.got == 100 end)
    local blocks = {}
    for i, message in ipairs(one.got) do
      assert.equal(i, message.value.n)
      local results = { { id = one:id(message) .. ".1", value = 2 * i }, { id = one:id(message) .. ".2", value = "x" } }
      blocks[i] = rn.go(function()
        assert.same({ true, 0 }, { one:done(message, results) })
        assert.same({ true, 2 }, { one:done(message, results) })
        return true
      end)
    end
    for _, block in ipairs(blocks) do assert.is_true(block:take()) end
    assert.same({ waiting = 0, running = 0 }, keepers.count(store, "jobs"))
    assert.same({ waiting = 200, running = 0 }, keepers.count(store, "results"))
    one:close()
  end)

  it("gets the messages of a process that was killed, but not those of a process that lives", function()
    for i = 1, 3 do keepers.append(store, "jobs", i) end
    dir:write("worker.lua", [[
      local rn = require "runnel"
      local keepers = require "runnel.store.keeper"
      local n = 0
      keepers.new(require("runnel.store").open "work.db", "jobs"):open {
        room = function() return 2 - n end, answered = print, over = print, silent = print,
        take = function()
          n = n + 1
          if n < 2 then return end
          io.stdout:write(io.open("/proc/self/stat"):read "n", "\n")
          io.stdout:flush()
        end,
      }
      rn.sleep(1e6)
    ]])
    local pipe = io.popen(("cd '%s' && exec %s worker.lua"):format(dir.path, os.getenv "LUA" or "lua5.4"))
    local pid = pipe:read "n"
    local ending <close> = setmetatable({}, { __close = function() -- luacheck: ignore 211
      os.execute(("kill -9 %d 2>/dev/null"):format(pid))
      pipe:close()
    end })
    local one = open(10)
    wait_for(function() return #one.got == 1 end)
    rn.sleep(250)
    assert.same({ 3, "first" }, { one.got[1].value, one.got[1].again })
    assert.equal(1, #one.got)
    os.execute("kill -9 " .. pid)
    wait_for(function() return #one.got == 3 end)
    assert.same({ 1, "again", 2, "again" }, { one.got[2].value, one.got[2].again, one.got[3].value, one.got[3].again })
    one:close()
  end)

  it("says that no messages come while another program has locked the file, and goes on then", function()
    keepers.append(store, "jobs", 1)
    store:close()
    store = stores.open(dir.path .. "/work.db", { busy_timeout = 1 })
    local other <close> = stores.open(dir.path .. "/work.db")
    local one = open(10)
    wait_for(function() return #one.got == 1 end)
    other.db:transaction(function(tx)
      tx:exec "create table other(a)"
      one:fetch()
      wait_for(function() return one.silences > 0 end)
      assert.is_nil((keepers.append(store, "jobs", 2)))
    end)
    assert.is_true(keepers.append(store, "jobs", 2))
    wait_for(function() return #one.got == 2 end)
    one:close()
  end)
end)
