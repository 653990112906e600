---What remote stages have in common, wherever their jobs are: the arguments of conn:remote and conn:serve, and calls.
---How a job is submitted and dropped is the matter of the class.

local require = require
local backoff = require "runnel.internal.backoff"
local check = require "runnel.internal.check"
local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local names = require "runnel.queue.names"
local options = require "runnel.queue.options"
local running = require "runnel.queue.running"
local sign = require "runnel.internal.sign"

local chan = core.chan
local kinds = check.kinds
local take, put = core.internal.moving.take, core.internal.moving.put

local remote = {}

-- ---- arguments ----

---The options of conn:remote.
---@class runnel.RemoteOptions
---@field encoding? string of values and results: "msgpack" (default), "json", or "raw" for strings as they are
---@field starts? integer how often a job is started at most, if its worker falls silent each time; default 5
---@field tries? integer how often a job is tried at most, if the function raises, or returns nil and an error, each
---time; default 1
---@field backoff? number ms until the second try, half of it at least; doubled for each further one, up to a minute;
---default 1000
---@field dead? boolean false: jobs that are given up do not become dead letters (conn:dead)
---@field traceback? boolean false: errors are as the worker's function raised them. Otherwise the worker's traceback is
---appended to an error that is a string, and is the field `traceback` of one that is a table
---@field storage? string "file" (default) or "memory": for the stream, if it does not exist yet
---@field replicas? integer on how many servers of a cluster the stream is stored; default 1
---@field max_age? number ms after which the stream drops a job that no worker has taken; default a day. A submitter
---that still waits for it sends it again

local REMOTE_OPTIONS <const> = {
  encoding = options.ENCODING, starts = kinds.integer(1), tries = true, backoff = true, dead = kinds.boolean,
  traceback = kinds.boolean, storage = kinds.one_of { "file", "memory" }, replicas = kinds.integer(1),
  max_age = kinds.ms(10),
}

---Checks the arguments of conn:remote.
---@param name any
---@param opts any
---@return table opts
---@return { starts: integer, tries: integer, retry: number, traceback: boolean, has_letters: boolean } terms
function remote.check(name, opts)
  names.check_stage(name, "remote")
  check.options(opts, REMOTE_OPTIONS, "remote")
  opts = opts or {}
  local tries, retry = backoff.options({ tries = opts.tries, backoff = opts.backoff or 1000 }, "remote", 1)
  return opts, {
    starts = opts.starts or running.STARTS, tries = tries, retry = retry, traceback = opts.traceback ~= false,
    has_letters = opts.dead ~= false,
  }
end

---The options of conn:serve.
---@class runnel.ServeOptions
---@field ack_wait? number ms after which the server redelivers a job to another worker if its worker has fallen silent;
---500 if the first worker gives none. What the first worker of a stage gives holds for all: another value is an error
---@field max_running? integer how many jobs all workers may have together; no limit by default. As for ack_wait, the
---first worker's value holds
---@field timeout? number ms that one job may take. One that parks is then cancelled, and has failed, with an error for
---which rn.is_timeout is true. If Lua has not come back by then, since the job computes, the process says so on stderr
---and ends; by default there is no limit
---@field rate? integer|{ [1]: integer, [2]: number } how many jobs all workers of the stage may start in a second, or
---{ jobs, ms }: that many in any `ms`
---@field drain_on_term? boolean false: SIGTERM ends the program at once, as usual; otherwise the worker drains first
---@field storage? string as for conn:remote
---@field replicas? integer as for conn:remote
---@field max_age? number as for conn:remote

local SERVE_OPTIONS <const> = {
  ack_wait = kinds.ms(10), max_running = kinds.integer(1), storage = REMOTE_OPTIONS.storage,
  replicas = REMOTE_OPTIONS.replicas, max_age = REMOTE_OPTIONS.max_age,
}
for name, kind in pairs(options.KINDS) do SERVE_OPTIONS[name] = kind end

---Checks the arguments of conn:serve.
---@param name any
---@param n any
---@param f any
---@param opts any
---@return table opts
---@return function f
---@return runnel.queue.Options options
function remote.check_serve(name, n, f, opts)
  names.check_stage(name, "serve")
  check.integer(n, 1, "serve: n")
  check.options(opts, SERVE_OPTIONS, "serve")
  f = require("runnel.queue.served")(f, "serve")
  check.callable(f, "serve: f")
  opts = opts or {}
  return opts, f, options.read(opts)
end

-- ---- calls ----

---A remote stage.
---@class runnel.queue.Remote
---@operator call(any): any
---@field name string
---@field traceback boolean
---@field jobs table<any, table> the jobs without a result
---@field last integer the number of the last job
---@field submit fun(self, value: any, out?: runnel.Channel<any>, finish?: fun(outcome: table)): table starts a job,
---whose outcome goes onto `out`, or to `finish`; returns the job, which is dropped when it is closed
---@field close fun(self, reason: any)
local Remote = {}

-- The error of an outcome for the caller: with the worker's traceback, if it is a string or a table.
local function error_of(self, outcome)
  local err, traceback = outcome.err, outcome.traceback
  if not self.traceback or not traceback then return err end
  if type(err) == "string" then return err .. "\n" .. traceback end
  if type(err) == "table" and err.traceback == nil then err.traceback = traceback end
  return err
end

-- Puts a job's results, and closes their channel.
local function deliver(self, result, outcome)
  for i = 1, outcome.n do
    if not put(result, outcome[i]) then break end
  end
  guard.close(result, outcome.failed and error_of(self, outcome) or nil)
end

---Runs a job on a worker and returns its first result or raises its error. With `result`, the channel of a job of
---rn.pipeline_async, the worker's function gets a channel in its place, and this returns at once.
---@param value any
---@param result? runnel.Channel<any>
---@return any
function Remote:__call(value, result)
  if result ~= nil then
    self:submit(value, nil, function(outcome)
      if outcome.n == 0 then return guard.close(result, outcome.failed and error_of(self, outcome) or nil) end
      guard.go(guard.close, result, deliver, self, result, outcome)
    end)
    return
  end
  local out = chan(1)
  local job <close> = self:submit(value, out) -- luacheck: ignore 211
  local outcome = take(out)
  if outcome.failed then error(error_of(self, outcome), 0) end
  return outcome[1]
end

---Gives an outcome to the caller of a job.
---@param job { out?: runnel.Channel<any>, finish?: fun(outcome: table) }
---@param outcome table
function remote.tell_caller(job, outcome)
  if job.out then job.out:offer(outcome) else job.finish(outcome) end
end

function Remote:__close() self:close() end

function Remote:__tostring() return ("remote stage: %s"):format(self.name) end

---Counts of jobs.
---@return { waiting: integer, submitted: integer } stats `waiting`: jobs without a result
function Remote:stats()
  sign.own(self, "remote", "stats")
  local waiting = 0
  for _ in pairs(self.jobs) do waiting = waiting + 1 end
  return { waiting = waiting, submitted = self.last }
end

---Makes a class of remote stages of a table of methods.
---@param class table
---@return table class
function remote.class(class)
  class.__index, class.__name, class.__sign = class, "remote stage", "remote"
  for name, method in pairs(Remote) do class[name] = method end
  return class
end

return remote
