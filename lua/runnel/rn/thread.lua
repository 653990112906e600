---rn.thread calls a function in an OS thread with a Lua state of its own; rn.threads makes a pool of such threads.

local check = require "runnel.internal.check"
local internal = require "runnel.core".internal
local pool = require "runnel.threads.pool"
local sign = require "runnel.internal.sign"
local start = require "runnel.threads.start"
local raise = internal.raise

---@class runnel.thread
local thread = {}

---Calls a function in an OS thread of its own, in a Lua state with its own go blocks. Source: core.async's thread.
---
---    local sum = rn.thread(function(n)
---      local sum = 0
---      for i = 1, n do sum = sum + i end
---      return sum
---    end, 1e8)
---    print(sum:take())
---
---The function is copied into that state. Arguments and result are copied like values that are put on a shared channel.
---The function must not use local variables from outside it; global variables are those of its own state, and it
---requires the modules that it needs. package.path, package.cpath and the driver are the same as here.
---
---The thread ends when the function returns: its other ready go blocks get one more turn, and then all are dropped. An
---error of the function closes the result channel, and is reported here unless a take gets it. Unhandled errors of the
---thread's other go blocks are reported here, too.
---@param f string|fun(...: any): any the function, or the name of a module that returns it
---@param ... any its arguments
---@return runnel.Channel<any> result a shared channel that gets the function's first result, and closes
function thread.thread(f, ...)
  sign.dot(f, "rn", "thread")
  local job, where = start.describe(f)
  if not job then raise("thread: " .. where) end
  local result, why = start.thread(job, where, "thread", ...)
  return result or raise("thread: " .. why)
end

-- ---- pools ----

---The options of rn.threads.
---@class runnel.ThreadsOptions
---@field n? integer how many jobs each thread runs at a time; default 1. Use more for jobs that wait

local OPTIONS = { n = check.kinds.integer(1) }

-- How many threads a pool has at most. A larger number is a mistake, such as a number of bytes.
local MOST <const> = 65536

---Makes a pool of threads that call a function. Pass the pool in place of a function that is called for each value, for
---example to rn.pmap: the calls then run in the threads.
---
---    local resize = rn.threads(4, "resize")
---    for image in rn.pmap(8, resize, images) do ... end
---
---The function is copied as for rn.thread. Any free thread takes the next value.
---@param k integer how many threads; for jobs that compute, rn.cores() or one less
---@param f string|function the function, or the name of a module that returns it
---@param opts? runnel.ThreadsOptions
---@return runnel.Pool pool
function thread.threads(k, f, opts)
  check.integer(k, 1, "threads: k")
  if k > MOST then raise(("threads: k: at most %d threads expected, got %s"):format(MOST, check.describe(k))) end
  check.options(opts, OPTIONS, "threads")
  local n = opts and opts.n or 1
  local what, where = start.describe(f)
  if not what then raise("threads: " .. where) end
  local made, why = pool.make(k, what, where, "threads", n)
  return made or raise("threads: " .. why)
end

---How many processors this process may use: a good number of threads for jobs that compute.
---@return integer n at least 1
function thread.cores(...)
  sign.dot((...), "rn", "cores")
  return internal.cores()
end

return thread
