---What buckets of keys and values have in common, wherever they are. The class decides how a value is stored.

local check = require "runnel.internal.check"
local names = require "runnel.queue.names"
local options = require "runnel.queue.options"
local sign = require "runnel.internal.sign"
local raise = require("runnel.core").internal.raise

local bucket = {}

---A bucket.
---@class runnel.Bucket
---@field name string
---@field protected last fun(self, key: string): { revision: integer, deleted: boolean }?, string? the last value of a
---key, or its deletion; nil if there is none; nil and the reason if the request fails
---@field protected value_of fun(self, last: table): any, string? the value of what `last` has returned; or nil and why
---it cannot be read
---@field protected write fun(self, what: string, key: string, value: any, revision?: integer): integer?, string?, any
---stores a value, or with nil a deletion, if the key still has the revision; 0: if it has none; nil: in any case.
---Returns the new revision, or nil, the reason, and a code. `what`: the method
---@field protected CHANGED any the code that says that the key has another revision, so nothing was stored
local Bucket = {}

-- Checks a key.
local function check_key(key, what)
  local is_key = type(key) == "string" and key:find "^[%w_=/.-]+$" and not ("." .. key .. "."):find("..", 1, true)
  if not is_key then
    raise(("%s: a key of letters, digits, - _ = / and single dots expected, got %s"):format(what, check.describe(key)))
  end
end

---The value of a key, and its revision; nil if the key has none; nil, nil, err if the request fails.
---@param key string
---@return any value, integer? revision, string? err
function Bucket:get(key)
  sign.own(self, "bucket", "get")
  check_key(key, "get")
  local last, err = self:last(key)
  if not last or last.deleted then return nil, nil, err end
  local value, problem = self:value_of(last)
  if value == nil and problem then return nil, nil, ("the value of %q: %s"):format(key, problem) end
  return value, last.revision
end

---Sets a value. Returns its revision when it is stored, or nil, err.
---@param key string
---@param value any
---@return integer? revision, string? err
function Bucket:put(key, value)
  sign.own(self, "bucket", "put")
  check_key(key, "put")
  check.value(value, "put")
  local revision, err = self:write("put", key, value)
  return revision, err
end

---Sets a value if the key still has this revision; 0: if the key has never had a value.
---@param key string
---@param value any
---@param revision integer
---@return integer? revision, string? err
function Bucket:update(key, value, revision)
  sign.own(self, "bucket", "update")
  check_key(key, "update")
  check.value(value, "update")
  check.integer(revision, 0, "update: revision")
  local new, err = self:write("update", key, value, revision)
  return new, err
end

---Sets a value if the key has none.
---@param key string
---@param value any
---@return integer? revision, string? err
function Bucket:create(key, value)
  sign.own(self, "bucket", "create")
  check_key(key, "create")
  check.value(value, "create")
  while true do
    local last, err = self:last(key)
    if err then return nil, err end
    if last and not last.deleted then
      return nil, ("the key %q has a value, of revision %d"):format(key, last.revision)
    end
    -- Another program may have deleted the key once more since, or made a value and deleted it: there is none still.
    local revision, why, code = self:write("create", key, value, last and last.revision or 0)
    if revision or code ~= self.CHANGED then return revision, why end
  end
end

---Deletes the value of a key; with a revision, only if the key still has it.
---@param key string
---@param revision? integer
---@return integer? revision of the deletion, string? err
function Bucket:delete(key, revision)
  sign.own(self, "bucket", "delete")
  check_key(key, "delete")
  if revision ~= nil then check.integer(revision, 0, "delete: revision") end
  local new, err = self:write("delete", key, nil, revision)
  return new, err
end

---Makes a class of buckets of a table of methods, which has at least `last`, `value_of` and `write`.
---@param class table
---@return table class
function bucket.class(class)
  class.__index, class.__name, class.__sign = class, "bucket", "bucket"
  for name, method in pairs(Bucket) do class[name] = method end
  return class
end

local WATCH_OPTIONS <const> = { from = check.kinds.one_of { "last", "all", "new" } }

-- What the server calls it.
local POLICIES <const> = { last = "last_per_subject", all = "all", new = "new" }

---Checks the arguments of bucket:watch.
---@param pattern any
---@param opts any
---@return string pattern
---@return "new"|"all"|"last_per_subject" policy what comes first
function bucket.check_watch(pattern, opts)
  pattern = pattern == nil and ">" or pattern
  if type(pattern) ~= "string" or not pattern:find "^[%w_=/.*>-]+$" then
    raise("watch: a key or a pattern expected, got " .. check.describe(pattern))
  end
  check.options(opts, WATCH_OPTIONS, "watch")
  opts = opts or {}
  return pattern, POLICIES[opts.from or "last"]
end

local OPTIONS <const> = { history = true, max_age = check.kinds.ms(1), replicas = true, storage = true,
  max_value = check.kinds.integer(1), encoding = options.ENCODING }

---Checks the arguments of conn:kv and store:kv.
---@param name any
---@param opts any
---@return table opts
function bucket.check(name, opts)
  names.check(name, "kv: name")
  check.options(opts, OPTIONS, "kv")
  opts = opts or {}
  if opts.history ~= nil and (math.type(opts.history) ~= "integer" or opts.history < 1 or opts.history > 64) then
    raise("kv: history: an integer from 1 to 64 expected, got " .. tostring(opts.history))
  end
  return opts
end

return bucket
