---http.within: limits for the requests of one function, which are narrower than those of the server.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local refusal = require "runnel.http.refusal"
local request = require "runnel.http.request"
local time_limit = require "runnel.internal.time_limit"
local timed_out = require "runnel.internal.timed_out"
local raise = core.internal.raise

---@class runnel.http.within
local within = {}

local OPTIONS = { max = check.kinds.integer(0), timeout = check.kinds.ms(1) }

-- Limits the body to `max` bytes.
local function limit_body(req, max)
  local left = max
  request.filter(req, function(next_piece)
    if left < 0 then return nil, refusal.new(413, "413: the body is longer than %d bytes", max) end
    local piece, why = next_piece()
    left = left - (piece and #piece or 0)
    if left < 0 then return nil, refusal.new(413, "413: the body is longer than %d bytes", max) end
    return piece, why
  end)
end

-- Answers in place of the function. What it has returned too late, which nobody will read, is dropped.
local function too_late(err, dropped)
  local body = dropped and dropped[3]
  if core.is_chan(body) then ends.drop(body) end
  if not timed_out.is_timeout(err) then error(err, 0) end
  return 503, nil, "503: the answer took too long\n"
end

local function handle(self, req)
  local headers, max = req.headers or {}, self.max
  if max then
    if (tonumber(headers["content-length"]) or 0) > max then
      return 413, nil, ("413: the body is longer than %d bytes\n"):format(max)
    end
    limit_body(req, max)
  end
  -- Another protocol, such as WebSocket, may take as long as it likes. The server's own limit holds until it begins.
  if not self.limit or req.can_upgrade then return refusal.call(self.f, req) end
  local results, err, dropped = self.limit:call(nil, refusal.call, self.f, req)
  if not results then return too_late(err, dropped) end
  return table.unpack(results, 1, results.n)
end

---Makes a function for http.serve that calls another one within limits. The narrowest of all limits around a function
---counts.
---@param f fun(req: runnel.http.Request): integer, table?, any
---@param opts { max?: integer, timeout?: number } `max`: bytes of the body, longer ones get status 413; `timeout`: ms
---until `f` has returned, after which it is cancelled and the client gets status 503
---@return fun(req: runnel.http.Request): integer, table?, any
function within.within(f, opts)
  check.callable(f, "within: f")
  check.options(opts, OPTIONS, "within")
  if not opts or next(opts) == nil then raise("within: a limit expected, as in { max = 65536, timeout = 5000 }") end
  local self = { f = f, max = opts.max,
    limit = opts.timeout and time_limit.new("the request had no answer", opts.timeout) }
  return function(req) return handle(self, req) end
end

return within
