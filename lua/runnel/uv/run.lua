---uv.run: in one call, starts a process, writes its input, reads its output and waits until it ends.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local decimal = require "runnel.internal.decimal"
local descriptor = require "runnel.uv.descriptor"
local guard = require "runnel.internal.guard"
local sign = require "runnel.internal.sign"
local spawn = require("runnel.uv.process").spawn
local spawn_options = require("runnel.uv.spawn").OPTIONS
local timed_out = require "runnel.internal.timed_out"
local raise = core.internal.raise

local alts_index = core.internal.alts_index
local describe, is_descriptor = check.describe, descriptor.is_descriptor
local PRIORITY = { priority = true }

-- The options that spawn does not have.
local OWN = { timeout = true, max = true }

local ALL = { timeout = true, max = true }
for name in pairs(spawn_options) do ALL[name] = true end

---The output of a process, and how it ended.
---@class runnel.uv.Result
---@field stdout? string its output; nil if `stdout` was sent elsewhere
---@field stderr? string likewise
---@field code integer the exit status, 0 to 255; if a signal killed the process, 128 + its number, as in a shell
---@field signal? integer the number of the signal that killed the process; nil if it ended by itself

-- ---- options ----

local function check_number(value, name, what)
  if value == nil or type(value) == "number" and value >= 0 then return end
  error(("%s: %s expected, got %s"):format(name, what, describe(value)), 0)
end

local function check_stdin(value)
  if not value or type(value) == "string" or is_descriptor(value) or core.is_chan(value) then return end
  error("stdin: a string, a channel, false for none (the default), or a file descriptor expected, got "
    .. describe(value), 0)
end

local function check_output(value, name, same)
  if not value or value == same or is_descriptor(value) then return end
  error(("%s: %sfalse for none, or a file descriptor expected, got %s"):format(name,
    same and '"stdout" for the same, ' or "", describe(value)), 0)
end

-- Makes a closed channel that holds one string.
local function channel_with(text)
  local ch = core.chan(1)
  ch:offer(text)
  ch:close()
  return ch
end

-- Returns the options for spawn, which does the other checks. Raises without a position.
local function options_for_spawn(options)
  if type(options) ~= "table" then return options end
  check_number(options.timeout, "timeout", "a number of ms")
  check_number(options.max, "max", "a number of bytes")
  local rest = {}
  for key, value in next, options do
    if not ALL[key] and math.type(key) ~= "integer" then error(check.unknown(key, ALL), 0) end
    if not OWN[key] then rest[key] = value end
  end
  check_stdin(options.stdin)
  check_output(options.stdout, "stdout")
  check_output(options.stderr, "stderr", "stdout")
  if options.max and options.stdout ~= nil and options.stderr ~= nil then
    error("max: it limits the output, and neither stdout nor stderr is in the result", 0)
  end
  rest.stdin = options.stdin or false
  if type(rest.stdin) == "string" then rest.stdin = channel_with(rest.stdin) end
  return rest
end

local function start(options)
  local process = spawn(options_for_spawn(options))
  process:end_by "sigterm"
  return process
end

---@class runnel.uv.run
local run = {}

-- ---- until the end ----

-- Raises an error, at the line that called run, if the caller cannot wait there. Call it before the process starts.
local function check_wait()
  local ok, err = pcall(core.yield)
  if ok then return end
  local why = type(err) == "string" and err:match "yield( would .*)"
  if why then raise("run" .. why) end
  error(err, 0) -- the go block has been cancelled
end

local LATE_OUTPUT =
  "%s: it has ended, but its output has not within %s ms: a process that it has started has it open"

-- Takes all output of the process until it has ended. Returns its runnel.uv.Status, lists of chunks by "stdout" and
-- "stderr", and the first error.
local function gather(p, late, options)
  local limit, file = options.max or math.huge, tostring(options[1])
  local texts, sizes, problem, status = {}, {}, nil, nil
  local names, ops = { "late" }, { late }
  local function listen(name, ch)
    names[#names + 1], ops[#ops + 1] = name, ch
  end
  for _, name in ipairs { "stdout", "stderr" } do
    local ch = p[name]
    if ch then
      texts[name], sizes[name] = {}, 0
      listen(name, ch)
    end
  end
  listen("exit", p.exit)
  local function fail(message)
    problem = problem or message
    p:close()
  end
  while #ops > 1 do
    local value, i, err = alts_index(ops, PRIORITY)
    local name = names[i]
    if name == "late" then
      local text = status and LATE_OUTPUT or "%s: it has not ended within %s ms"
      fail(timed_out.new(text:format(file, decimal.text(options.timeout))))
      ops[i] = core.chan() -- it is over only once
    elseif texts[name] and value ~= nil then
      local text = texts[name]
      text[#text + 1] = value:sub(1, math.max(0, math.min(#value, limit - sizes[name])) // 1)
      sizes[name] = sizes[name] + #value
      if sizes[name] > limit then fail(("%s: more than %s bytes of %s"):format(file, limit, name)) end
    else
      if name == "exit" then status = value end
      problem = problem or err
      table.remove(names, i)
      table.remove(ops, i)
    end
  end
  return status, texts, problem
end

---Runs a process; parks until it has ended and its output is closed. If the waiting go block is cancelled, or the
---program ends, the process is stopped.
---@param options table the command and its arguments, and the options of spawn, with these differences. `stdin`: a
---string, a channel, false for none (the default) or a file descriptor. `stdout`, `stderr`: false for none or a file
---descriptor; by default the output is in the result; `stderr = "stdout"` sends it where stdout goes. `timeout`: ms
---after which the process is stopped. `max`: bytes; a process that writes more than this to stdout, or to stderr, is
---stopped.
---@return runnel.uv.Result? result nil if there is an error; an exit status other than 0 is not an error
---@return any err why the process could not be started, or was stopped; or the error with which the channel for stdin
---closed
---@return runnel.uv.Result? result the result despite the error, if the process was started
function run.run(options, ...)
  sign.dot(options, "uv", "run")
  check.alone((...), "run")
  check_wait()
  local ok, process = core.internal.held(start, options)
  if not ok then raise("run: " .. guard.text(process):gsub("^spawn: ", "")) end
  local p <close> = process
  if p.streams.stdin then p.streams.stdin.tells_source_error = true end
  local alarm <close> = guard.alarm(options.timeout)
  local status, texts, problem = gather(p, alarm.over, options)
  p:leave()
  if not status then return nil, problem end
  local result = { code = status.code, signal = status.signal }
  for name, text in pairs(texts) do result[name] = table.concat(text) end
  if problem == nil and p.streams.stdin then problem = p.streams.stdin.source_error end
  if problem ~= nil then return nil, problem, result end
  return result
end

return run
