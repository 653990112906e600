---The time of a store, in ms since 1970. It does not jump when somebody sets the clock of the machine: it is the time
---since the start of the machine, which all processes share, and what the clock said at that start, which is in the
---file. So leases, retries, rates, delays and the times of ids stay right, also from one run of a program to the next.
---
---Only after a new start of the machine the clock counts again. If it is behind the times in the file then, it was set
---back; and all times in the file are moved back as much.

local core = require "runnel.core"
local current = require "runnel.internal.world"
local lib = require "runnel.sqlite.core"

local is_simulation, now = core.internal.is_simulation, core.now
local open_file = io.open

local clock = {}

-- Names the start of the machine, on Linux.
local BOOT <const> = "/proc/sys/kernel/random/boot_id"

---The table: which start of the machine it is about, the time of that start, and when the store was last used, about.
clock.TABLE = [[
  create table if not exists runnel_clock(
    boot text not null,
    base integer not null,
    seen integer not null);
]]

-- The last time that the tables have, in 285,000 years; and the largest number of a setting.
local LAST <const> = 1 << 53

local FIND <const> = "select base from runnel_clock where boot = ? and typeof(base) = 'integer'"

-- The statements that move times back by ?1 ms, for the tables of results, of streams, of runs, and of order per key.
local ONCE <const> = "update runnel_once set made = made - ?1, expires = expires - ?1"
local STREAMS <const> = {
  "update runnel_message set made = made - ?1",
  [[update runnel_message set headers = json_set(headers, '$."Runnel-At"',
      cast(cast(json_extract(headers, '$."Runnel-At"') as integer) - ?1 as text))
    where case when typeof(headers) = 'text' and json_valid(headers)
      then json_extract(headers, '$."Runnel-At"') > 0 end]],
  "update runnel_id set made = made - ?1",
  "update runnel_value set made = made - ?1", "update runnel_rate set at = at - ?1",
  "update runnel_delivery set due = due - ?1 where due > 0 and due < 9223372036854775807",
  "update runnel_consumer set resumes = resumes - ?1",
}
local RUNS <const> = {
  'update runnel_run set made = made - ?1, since = since - ?1, due = due - ?1',
  "update runnel_signal set made = made - ?1", "update runnel_once set began = began - ?1",
  [[update runnel_schedule set made = made - ?1,
    paused = case when paused < 9007199254740992 then paused - ?1 else paused end, -- as it is: without an end
    last = case when cron is null then last - ?1 else last end]],
}
local KEYS <const> = "update runnel_delivery set turn = turn - ?1 where turn > 0"

-- The latest time at which something was stored, of results and of streams.
local ONCE_SEEN <const> = "select max(coalesce((select max(made) from runnel_once), 0), "
  .. "coalesce((select max(seen) from runnel_clock), 0)) as at"
local STREAMS_SEEN <const> = "select max(coalesce((select max(made) from runnel_message), 0), "
  .. "coalesce((select max(made) from runnel_id), 0), coalesce((select max(made) from runnel_value), 0)) as at"

local function boot_id()
  local file <close> = open_file(BOOT)
  return file and file:read "l"
end

-- Moves the times in the file back, if the clock is behind them.
local function move_back(tx, time)
  local has_streams = tx:one "select 1 from sqlite_schema where name = 'runnel_rate'"
  local seen = tx:one(ONCE_SEEN).at
  if has_streams then seen = math.max(seen, tx:one(STREAMS_SEEN).at) end
  local ms = seen - time
  if ms <= 0 then return end
  tx:exec(ONCE, ms)
  for _, sql in ipairs(has_streams and STREAMS or {}) do tx:exec(sql, ms) end
  local has_runs = tx:one "select 1 from sqlite_schema where name = 'runnel_signal'"
  for _, sql in ipairs(has_runs and RUNS or {}) do tx:exec(sql, ms) end
  if tx:one "select 1 from sqlite_schema where name = 'runnel_delivery_key'" then tx:exec(KEYS, ms) end
end

-- Notes the start of the machine in the file, unless another process has done so meanwhile.
local function note_boot(db, boot, base, time)
  return db:transaction(function(tx)
    tx:exec(clock.TABLE)
    local row = tx:one(FIND, boot)
    if row then return row.base end
    move_back(tx, time)
    tx:exec "delete from runnel_clock"
    tx:exec("insert into runnel_clock(boot, base, seen) values (?, ?, ?)", boot, base, time)
    return base
  end)
end

---The time at which the machine started, for clock.time. Parks.
---@param db runnel.sqlite.Database which has the tables of results
---@return integer base
---@return integer? noted the time that is in the file; nil: it has no table for that
function clock.base(db)
  if is_simulation() then return current.world and math.floor(current.world:time() - now()) or 0 end
  local since, time = lib.clock()
  local boot = boot_id()
  if not boot then return time - since end -- the clock of this process does not jump then
  local rows = db:attempt("rows", FIND, boot)
  if rows and rows[1] then return rows[1].base, 0 end
  return note_boot(db, boot, time - since, time), time
end

---@param base integer
---@return integer ms
function clock.time(base)
  if is_simulation() then return base + math.floor(now()) end
  return base + (lib.clock())
end

---The time after some ms; one that the tables do not have is the last one.
---@param base integer
---@param ms number
---@return integer ms
function clock.after(base, ms)
  if ms >= LAST then return LAST end
  return math.min(clock.time(base) + math.ceil(ms), LAST)
end

---A number of ms, or a count, as a setting in the tables.
---@param value? number
---@return integer? value
function clock.setting(value)
  if not value then return nil end
  return value >= LAST and LAST or math.floor(value)
end

---How many ms the time of a store is ahead of the clock of the machine, since that was set.
---@param base integer
---@return integer ms
function clock.ahead(base)
  if is_simulation() then
    local host = current.world and current.world:here()
    return host and -math.floor(host.skew) or 0
  end
  local since, time = lib.clock()
  return base + since - time
end

return clock
