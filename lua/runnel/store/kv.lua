---store:kv: buckets of keys and values in a store.

local arguments = require "runnel.queue.bucket"
local clock = require "runnel.store.clock"
local core = require "runnel.core"
local following = require "runnel.store.following"
local problems = require "runnel.store.problems"
local sign = require "runnel.internal.sign"
local values = require "runnel.store.values"
local raise = core.internal.raise

local put_while_open = core.internal.moving.put_while_open

local kv = {}

-- How many changes a watch reads at a time.
local BATCH <const> = 256

local MAKE <const> = [[
insert or ignore into runnel_bucket(name, history, ttl, max_value) values (?, ?, ?, ?);
select * from runnel_bucket where name = ?]]

-- The last value of a key, unless it is too old.
local LAST <const> = [[
select revision, form, value from runnel_value where bucket = ?1 and key = ?2
  and made >= coalesce(?3 - (select ttl from runnel_bucket where name = ?1), 0) order by revision desc limit 1]]

-- Stores a value, or with a null as its form a deletion, if the last revision of the key, which is 0 if there is none,
-- is the given one, unless that is null.
local STORE <const> = [[
insert into runnel_value(bucket, revision, key, form, value, made)
  select name, last + 1, ?2, ?3, ?4, ?5 from runnel_bucket where name = ?1 and ?6 is null
    or name = ?1 and ?6 = coalesce((select revision from runnel_value where bucket = ?1 and key = ?2
      and made >= coalesce(?5 - (select ttl from runnel_bucket where name = ?1), 0)
      order by revision desc limit 1), 0)
  returning revision]]

local CHANGES <const> = [[
select revision, key, form, value, made from runnel_value v where bucket = ?1 and revision > ?2
  and runnel_matches(key, ?3) and made >= coalesce(?4 - (select ttl from runnel_bucket where name = ?1), 0) %s
  order by revision limit ?5]]
local NO_NEWER <const> = "and revision = (select max(revision) from runnel_value where bucket = ?1 and key = v.key)"
local EACH <const>, PRESENT <const> = CHANGES:format "", CHANGES:format(NO_NEWER)
local FOLLOW <const> = CHANGES:format("and " .. following.IS_THERE:format(6, 7))
local IS_THERE <const> = "select 1 from runnel_bucket where name = ?1 and " .. following.IS_THERE:format(2, 3)

-- What a watch of a bucket reads, as for store:ring.
local function reads_of(name) return "$KV." .. name end

---@class runnel.store.Bucket: runnel.Bucket
---@field private store runnel.store.Store
---@field private max_value? integer
local Bucket = arguments.class { CHANGED = true }

-- ---- values ----

function Bucket:last(key)
  local rows, err = self.store:attempt("rows", LAST, self.name, key, self.store:time())
  if not rows then return nil, err end
  local row = rows[1]
  if row then return { revision = row.revision, deleted = not row.form, form = row.form, value = row.value } end
  local there, why = self.store:attempt("rows", "select 1 from runnel_bucket where name = ?", self.name)
  if not there then return nil, why end
  if not there[1] then return nil, "bucket not found" end
end

function Bucket:value_of(last) return values.read(last.form, last.value) end -- luacheck: no self

function Bucket:write(what, key, value, revision)
  local form, data
  if value ~= nil then
    form, data = values.encode(value, "value")
    if not form then raise(what .. ": " .. data) end
    if self.max_value and values.size(data) > self.max_value then return nil, problems.TOO_LARGE end
  end
  local rows, err = self.store:attempt("rows", STORE, self.name, key, form, data, self.store:time(), revision)
  if not rows then return nil, err end
  if rows[1] then
    self.store:ring(reads_of(self.name))
    return rows[1].revision
  end
  local last, problem = self:last(key)
  if problem then return nil, problem end
  if not last then return nil, ("the key %q has no value"):format(key), self.CHANGED end
  return nil, ("the key %q has revision %d"):format(key, last.revision), self.CHANGED
end

---The keys that have a value.
---@return string[]? keys, string? err
function Bucket:keys()
  sign.own(self, "bucket", "keys")
  local rows, err = self.store:attempt("rows", PRESENT, self.name, 0, ">", self.store:time(), -1)
  if not rows then return nil, err end
  local keys = {}
  for _, row in ipairs(rows) do
    if row.form then keys[#keys + 1] = row.key end
  end
  table.sort(keys)
  return keys
end

local DESTROY <const> = following.NOTE_BUCKET .. "delete from runnel_value where bucket = ?; "
  .. "delete from runnel_bucket where name = ? returning name"

---Deletes the bucket with all values.
---@return boolean? deleted, string? err
function Bucket:destroy()
  sign.own(self, "bucket", "destroy")
  local rows, err = self.store:attempt("last", DESTROY, reads_of(self.name), self.store:time(), self.name, self.name,
    self.name)
  if not rows then return nil, err end
  self.store:ring(reads_of(self.name))
  if not rows[1] then return nil, "bucket not found" end
  return true
end

-- ---- watching ----

local function change_of(row, remaining)
  local value, problem
  if row.form then value, problem = values.read(row.form, row.value) end
  return { key = row.key, value = value, problem = problem, revision = row.revision, time = row.made,
    deleted = row.form == nil, remaining = remaining }
end

-- Puts changes on the channel until it is closed: first `rows`, then those after `at`.
local function follow(self, out, rows, at)
  local name, reads, notes = self.name, reads_of(self.name), self.notes
  for i, row in ipairs(rows) do
    if not put_while_open(out, change_of(row, #rows - i)) then return end
  end
  while not out:closed() do
    local more, err = self.store:attempt("rows", FOLLOW, name, at, self.pattern, self.store:time(), BATCH, reads, notes)
    if not more then error("watch: " .. err, 0) end
    for i, row in ipairs(more) do
      if not put_while_open(out, change_of(row, #more - i)) then return end
      at = row.revision
    end
    if #more == 0 then
      local there = self.store:attempt("rows", IS_THERE, name, reads, notes)
      if there and not there[1] then error(("watch: the bucket %q was deleted"):format(name), 0) end
      following.wait(self)
    end
  end
end

local INFO <const> = "select last, " .. following.NOTES .. " as notes from runnel_bucket where name = ?"

---Returns a channel of values and their changes: first the last one of each key; with `from`, all that the
---bucket has, or only new ones. Close it to end it.
---@param pattern? string a key, or a pattern with * and >; by default all keys
---@param opts? { from?: "last"|"all"|"new" }
---@return runnel.Channel<table>? changes, string? err
function Bucket:watch(pattern, opts)
  sign.own(self, "bucket", "watch")
  local policy
  pattern, policy = arguments.check_watch(pattern, opts)
  local store, name = self.store, self.name
  -- What comes after this revision is a change; what comes before, a present value.
  local info, problem = store:attempt("rows", INFO, name)
  if not info then return nil, problem end
  if not info[1] then return nil, "bucket not found" end
  local rows, at = {}, info[1].last
  if policy ~= "new" then
    local found, err = store:attempt("rows", policy == "all" and EACH or PRESENT, name, 0, pattern, store:time(), -1)
    if not found then return nil, err end
    rows = found
    if rows[1] then at = math.max(at, rows[#rows].revision) end
  end
  local out = core.chan():name("watch " .. name)
  local watch = { store = store, name = name, pattern = pattern, notes = info[1].notes }
  following.start(watch, reads_of(name), "watch", out, follow, rows, at)
  return out
end

-- ---- opening ----

---Opens a bucket, and makes it first if it does not exist. Fails if it exists with other settings than the given ones.
---@param store runnel.store.Store
---@param name string
---@param opts? { history?: integer, max_age?: number, max_value?: integer } history: values to keep of each key (1);
---max_age: ms after which values go. `replicas`, `storage` and `encoding` have no effect
---@return runnel.store.Bucket? bucket, string? err
function kv.kv(store, name, opts)
  opts = arguments.check(name, opts)
  local wanted = { history = opts.history, ttl = clock.setting(opts.max_age),
    max_value = clock.setting(opts.max_value) }
  local rows, err = store:attempt("last", MAKE, name, wanted.history or 1, wanted.ttl, wanted.max_value, name)
  if not rows then return nil, err end
  local difference = problems.difference(rows[1], wanted)
  if difference then return nil, ("bucket %q exists with other settings: %s"):format(name, difference) end
  return setmetatable({ store = store, name = name, max_value = rows[1].max_value }, Bucket)
end

return kv
