---Go blocks that use a database: each its own connection to the same file, or all the same connection.

local rn = require "runnel"
local has_sqlite, sqlite = pcall(require, "runnel.sqlite")

local notion = { name = "sqlite" }

function notion.missing() return not has_sqlite and "runnel.sqlite is not built" or nil end

function notion.blocks(random) return random(3) > 1 and { "a", "b" } or { "a", "b", "c" } end

local ALL = { "increment", "increment", "add", "add", "select", "query", "transaction", "transaction", "failing",
  "late_failing",
  "unique", "exec_two", "rows", "rows", "close", "cancelled", "tick" }
notion.roles = { a = ALL, b = ALL, c = ALL }

function notion.setting(random)
  return { op = "database", shared = random(2) == 1, wal = random(3) > 1, busy_timeout = random(2) == 1 and 0 or 5000 }
end

local function open(env)
  local setting = env.state.setting
  local db = sqlite.open(env:path "f.db", { wal = setting.wal, synchronous = "off",
    busy_timeout = setting.busy_timeout })
  env:at_end(function() db:close() end)
  return db
end

function notion.setup(env, setting)
  env.state.setting = setting
  local db <close> = sqlite.open(env:path "f.db", { wal = setting.wal, synchronous = "off" })
  db:exec "create table t(n integer)"
  db:exec "create table u(id integer primary key)"
  db:exec "insert into t values (0)"
  if setting.shared then env.state.db = open(env) end
end

notion.operations = {
  increment = { perform = function(_, _, db) -- reads, and then writes: others may come between
    local n = db:one("select n from t").n
    db:exec("update t set n = ?", n + 1)
    return n + 1
  end },
  add = { perform = function(_, _, db)
    db:exec "update t set n = n + 10"
    return db:one("select n from t").n
  end },
  select = { perform = function(_, _, db) return db:one("select n from t").n end },
  query = { perform = function(_, _, db)
    local ch = db:query "select n from t union all select id + 1000 from u"
    local list = {}
    for row in ch do list[#list + 1] = row.n end
    return table.concat(list, " "), select(2, ch:take())
  end },
  transaction = {
    draw = function(random) return { sleeps = random(3) == 1 } end,
    perform = function(op, _, db)
      return db:transaction(function(tx)
        local n = tx:one("select n from t").n
        if op.sleeps then rn.sleep(1) end
        tx:exec("update t set n = ?", n + 100)
        return tx:one("select n from t").n
      end)
    end,
  },
  failing = { perform = function(_, _, db)
    return db:transaction(function(tx)
      tx:exec "update t set n = n + 1000"
      error("no", 0)
    end)
  end },
  late_failing = { perform = function(_, _,
    db) return db:exec "update t set n = n + 3; insert into nothing values (1)" end },
  unique = { perform = function(_, _, db) return db:exec "insert into u values (1)" end },
  exec_two = { perform = function(_, _, db)
    db:exec "update t set n = n + 1; delete from u"
    return db:one("select count(*) as n from u").n
  end },
  rows = { -- of a list or a channel; the second or the third may be one of the table, or wrong
    draw = function(random)
      return { is_channel = random(2) == 1, wrong = random(3) == 1, err = random(3) == 1 and "no more" or nil }
    end,
    perform = function(op, _, db)
      local list = { { 5 }, { 6 }, { op.wrong and {} or 1 } }
      local ch = op.is_channel and rn.chan() or nil
      if ch then
        rn.go(function()
          for _, row in ipairs(list) do ch:put(row) end
          ch:close(op.err)
        end)
      end
      local ok, err = pcall(db.exec, db, "insert into u values (?)", { rows = ch or list })
      if ch then ch:close() end -- nothing waits for it any more
      local n = db:one("select count(*) as n from u").n
      if ok then return true, n end
      return false, err:match "row %d.-, in" or err:match "the channel.-, in" or err:match "a lock for" or err, n
    end,
  },
  cancelled = { perform = function(_, env, db) -- interrupted, perhaps
    local block = rn.go(function() return db:exec "update t set n = n + 7" end)
    rn.cancel(block, "cancelled")
    return env:within(block.take, block)
  end },
  close = { perform = function(_, _, db) return db:close() end },
  tick = { perform = function(_, env)
    env.state.n = (env.state.n or 0) + 1
    return env.state.n
  end },
}

for _, operation in pairs(notion.operations) do
  local perform = operation.perform
  function operation.perform(op, env, mine)
    mine.db = mine.db or env.state.db or open(env)
    return perform(op, env, mine.db)
  end
end

return notion
