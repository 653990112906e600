---The option `rate` of stages: how many calls all processes of a stage together may start in a time.
---
---The table has as many rows as calls may start in that time, each with the time of a start. A call takes the oldest
---one, and starts when the time is over since then.

local core = require "runnel.core"

local rate = {}

-- The longest time, 17 years: the tables have the times of so many calls as TAKE counts.
local LONGEST <const> = 1 << 39

local PREPARE <const> = [[
delete from runnel_rate where rowid in (select rowid from runnel_rate where name = ?1 order by at limit
  max(0, (select count(*) from runnel_rate where name = ?1) - ?2));
with recursive slot(i) as (select count(*) + 1 from runnel_rate where name = ?1
  union all select i + 1 from slot where i < ?2)
insert into runnel_rate(name, at) select ?1, -9000000000000000 from slot where i <= ?2]]
-- A start that lies further ahead than so many calls could wait was not written by a stage.
local TAKE <const> = "update runnel_rate set at = max(?2, case when at > ?2 + ?3 * 10000 then ?2 else at end + ?3) "
  .. "where rowid = (select rowid from runnel_rate where name = ?1 order by at limit 1) returning at"

---@class runnel.store.Rate
---@field private store runnel.store.Store
---@field private name string
---@field private ms integer
local Rate = {}
Rate.__index = Rate

---Waits until a call may start.
function Rate:wait()
  local rows, problem = self.store:attempt("rows", TAKE, self.name, self.store:time(), self.ms)
  if not rows then error(problem, 0) end
  local ms = rows[1] and rows[1].at - self.store:time() or 0
  if ms > 0 then core.sleep(ms) end
end

---Opens it, and sets its number of calls. Parks.
---@param store runnel.store.Store
---@param name string of what it limits: a remote stage; `runs NAME`; or `STREAM/NAME`, since each stream may have a
---stage of the name
---@param limits { [1]: integer, [2]: number } calls, ms
---@return runnel.store.Rate? rate, string? err
function rate.open(store, name, limits)
  local count = limits[1]
  local ok, err = store:attempt("exec", PREPARE, name, count, name, count)
  if not ok then return nil, err end
  return setmetatable({ store = store, name = name, ms = math.ceil(math.min(limits[2], LONGEST)) }, Rate)
end

return rate
