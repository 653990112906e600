---The arguments of buckets of keys and values.

local check = require "runnel.internal.check"
local names = require "runnel.queue.names"

local bucket = {}

---Checks a key. An error is at the line that has called the caller.
---@param key any
---@param what string the method
function bucket.check_key(key, what)
  local is_key = type(key) == "string" and key:find "^[%w_=/.-]+$" and not ("." .. key .. "."):find("..", 1, true)
  if not is_key then
    error(("%s: a key of letters, digits, - _ = / and single dots expected, got %s")
      :format(what, check.describe(key)), 3)
  end
end

local WATCH_OPTIONS <const> = { updates_only = true, history = true }

---Checks the arguments of bucket:watch. An error is at the line that has called the caller.
---@param pattern any
---@param opts any
---@return string pattern
---@return "new"|"all"|"last_per_subject" policy what comes first
function bucket.check_watch(pattern, opts)
  pattern = pattern == nil and ">" or pattern
  if type(pattern) ~= "string" or not pattern:find "^[%w_=/.*>-]+$" then
    error("watch: a key or a pattern expected, got " .. check.describe(pattern), 3)
  end
  check.options(opts, WATCH_OPTIONS, "watch", 4)
  opts = opts or {}
  return pattern, opts.updates_only and "new" or opts.history and "all" or "last_per_subject"
end

local OPTIONS <const> = { history = true, ttl = check.kinds.ms(1), replicas = true, storage = true,
  max_value = check.kinds.integer(1), encoding = true }

---Checks the arguments of conn:kv and store:kv, but for the encoding. An error is at the line that has called the
---caller.
---@param name any
---@param opts any
---@return table opts
function bucket.check(name, opts)
  names.check(name, "kv: name", 4)
  check.options(opts, OPTIONS, "kv", 4)
  opts = opts or {}
  if opts.history ~= nil and (math.type(opts.history) ~= "integer" or opts.history < 1 or opts.history > 64) then
    error("kv: history: an integer from 1 to 64 expected, got " .. tostring(opts.history), 3)
  end
  return opts
end

return bucket
