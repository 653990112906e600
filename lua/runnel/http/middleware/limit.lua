---http.limit: how many requests each client may make in a time.

local os = os
local core = require "runnel.core"
local check = require "runnel.internal.check"
local raise = core.internal.raise

local report = core.internal.report

---@class runnel.http.limit
local limit = {}

local OPTIONS = { bucket = true, key = check.kinds.callable }

-- Clients that are counted in one time, and the bytes of their keys, which may be what a header says; others are not
-- limited, so that they cannot fill the memory.
local MOST <const>, BYTES <const> = 100000, 16 * 1024 * 1024

-- How often a count is tried to be changed that others change, too.
local TRIES <const> = 20

-- ---- clients ----

-- The /64 network of an IPv6 address: one client may have all of its addresses.
local function network_of(address)
  if address:find(".", 1, true) then return address end -- an IPv4 address in another form
  local head, tail = address:match "^(.-)::(.*)$"
  local groups, after = {}, {}
  for group in (head or address):gmatch "[^:]+" do groups[#groups + 1] = group end
  for group in (tail or ""):gmatch "[^:]+" do after[#after + 1] = group end
  while head and #groups + #after < 8 do groups[#groups + 1] = "0" end
  table.move(after, 1, #after, #groups + 1, groups)
  return table.concat(groups, ":", 1, math.min(4, #groups)) .. "::/64"
end

local function client_of(req)
  local address = req.address or ""
  return address:find(":", 1, true) and network_of(address) or address
end

-- ---- counting ----

-- Counts in this state. Returns the number of the request in the present time, and ms until that ends.
local function count_here(self, client)
  local window = core.now() // self.ms
  if window ~= self.window then self.window, self.counts, self.clients, self.bytes = window, {}, 0, 0 end
  local n = self.counts[client]
  if not n then
    if self.clients == MOST or self.bytes + #client > BYTES then return 0, 0 end
    self.clients, self.bytes = self.clients + 1, self.bytes + #client
  end
  n = (n or 0) + 1
  self.counts[client] = n
  return n, self.ms - core.now() % self.ms
end

-- Counts in a bucket, for all that use it. The same; or nil and an error.
local function count_there(self, client)
  local key = "limit." .. client:gsub("[^%w_-]", function(c) return ("=%02X"):format(c:byte()) end)
  local now = os.time() * 1000
  local window, left, err = now // self.ms, self.ms - now % self.ms, nil
  for _ = 1, TRIES do
    local value, revision, why = self.bucket:get(key)
    if why then return nil, why end
    local n = value and value.window == window and value.n or 0
    if n >= self.n then return n + 1, left end -- further ones need not be counted
    local changed = { window = window, n = n + 1 }
    local ok
    if revision then
      ok, err = self.bucket:update(key, changed, revision)
    else
      ok, err = self.bucket:create(key, changed)
    end
    if ok then return n + 1, left end
  end
  return nil, err
end

-- ---- requests ----

local function handle(self, req)
  local client = self.key(req)
  if client == nil then return self.f(req) end
  local n, left = self.count(self, tostring(client))
  if not n then report(left, nil, "the bucket of http.limit") elseif n > self.n then
    return 429, { ["Retry-After"] = math.max(1, math.ceil(left / 1000)) }, "429: too many requests\n"
  end
  return self.f(req)
end

---Makes a function for http.serve that calls another one for at most `n` requests of each client in each `ms`; further
---ones get status 429 with Retry-After.
---@param f fun(req: runnel.http.Request): integer, table?, any
---@param n integer
---@param ms number
---@param opts? { key?: (fun(req: runnel.http.Request): any), bucket?: table } `key`: who the client is; nil: no limit;
---default: its address, of IPv6 the network. `bucket`: of store:kv or conn:kv, where all processes count together
---@return fun(req: runnel.http.Request): integer, table?, any
function limit.limit(f, n, ms, opts)
  check.callable(f, "limit: f")
  check.integer(n, 1, "limit: n")
  check.ms(ms, 1, "limit: ms")
  check.options(opts, OPTIONS, "limit")
  local bucket = opts and opts.bucket
  local is_bucket, update = pcall(function() return bucket.update end)
  if bucket ~= nil and not (is_bucket and check.is_callable(update)) then
    raise("limit: bucket: what store:kv or conn:kv has returned expected, got " .. check.article(bucket))
  end
  if bucket and (ms < 1000 or ms % 1000 ~= 0) then
    raise(("limit: ms: whole seconds expected, since processes share no finer clock, got %s"):format(ms))
  end
  local self = { f = f, n = n, ms = ms, bucket = bucket, key = opts and opts.key or client_of,
    count = bucket and count_there or count_here, counts = {}, window = nil, clients = 0, bytes = 0 }
  return function(req) return handle(self, req) end
end

return limit
