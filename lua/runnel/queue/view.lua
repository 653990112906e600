---Queues and dead letters as lines of text: for `runnel queues`, the prompt, and the monitor.

local os = os
local decimal = require "runnel.internal.decimal"
local short = require "runnel.internal.short"
local width = require "runnel.internal.width"

local queue_view = {}

-- ---- parts ----

---A time since 1970 as local date and time.
---@param ms number?
---@return string
function queue_view.date(ms) return ms and os.date("%Y-%m-%d %H:%M:%S", ms // 1000 | 0) --[[@as string]] or "-" end

local function first_line(text) return (text or "?"):match "^[^\n]*" end

local function add_all(lines, more)
  for _, line in ipairs(more) do lines[#lines + 1] = line end
end

-- ---- queues ----

local HEAD <const> = { "queue", "waiting", "running", "redelivered", "given up", "rate/s", "oldest", "workers", "" }
local NUMBERS <const> = { false, true, true, true, true, true, true, true }

local function slots(workers)
  local n = 0
  for _, worker in ipairs(workers) do n = n + (worker.n or 0) end
  return #workers == 0 and "none" or ("%d (%d at a time)"):format(#workers, n)
end

local function notes(queue)
  if queue.paused then return queue.resumes and "paused until " .. queue_view.date(queue.resumes) or "paused" end
  if #queue.workers == 0 and queue.waiting + queue.running > 0 then return "nobody works on it" end
  return ""
end

local function queue_row(queue)
  return {
    queue.name, queue.waiting, queue.running, queue.redelivered, queue.given_up,
    queue.rate and decimal.format("%.1f", queue.rate) or "-", queue.oldest and short.duration(queue.oldest) or "-",
    slots(queue.workers), notes(queue),
  }
end

local function call_text(call)
  local again = (call.deliveries or 1) > 1 and (", start %d"):format(call.deliveries) or ""
  return ("%s for %s%s"):format(call.value, short.duration(call.ms), again)
end

-- A count as a part of a line, if it is not 0.
local function some(count, what) return (count or 0) > 0 and (", %d %s"):format(count, what) or "" end

-- The workers of a queue: for each the call that has run longest, or all calls.
local function worker_lines(queue, has_all)
  local lines = {}
  for _, worker in ipairs(queue.workers) do
    local first = worker.running[1]
    local line = ("  %s:%d %s, %d of %d running%s, %d done, %d failed%s%s"):format(worker.host or "?",
      worker.pid or 0, worker.program or "", worker.busy or #worker.running, worker.n or 0,
      some(worker.waiting, "waiting"), worker.done or 0, worker.failed or 0,
      some(worker.redelivered, "redelivered"), worker.paused and ", paused" or "")
    lines[#lines + 1] = first and not has_all and line .. "; " .. call_text(first) or line
    local failure = worker.failure
    if failure then
      lines[#lines + 1] = ("    last error: %s ago, message %d, start %d: %s (%s)"):format(short.duration(failure.ms),
        failure.sequence, failure.start, first_line(failure.error), failure.value)
    end
    for _, call in ipairs(has_all and worker.running or {}) do lines[#lines + 1] = "    " .. call_text(call) end
  end
  return lines
end

-- Those that hear nothing.
local function silent_lines(list)
  local lines = {}
  for i, one in ipairs(list) do
    lines[i] = ("  %s:%d %s, %s %s, for %s: %s"):format(one.host or "?", one.pid or 0, one.program or "",
      one.what or "?", one.consumer and one.stream .. "/" .. one.consumer or one.stream or "?",
      short.duration(one.ms or 0), one.why or "?")
  end
  if lines[1] then table.insert(lines, 1, "no messages for now:") end
  return lines
end

---What is wrong with a server of a cluster, or "well".
---@param server runnel.nats.ServerHealth
---@return string
function queue_view.server_state(server)
  if server.offline then return "offline" end
  if server.silent then return "silent for " .. short.duration(server.silent) end
  return server.lag > 0 and ("behind by %d"):format(server.lag) or server.behind > 0 and "behind" or "well"
end

-- A size in bytes, with the unit that fits.
local function size(bytes)
  for _, unit in ipairs { "bytes", "KB", "MB", "GB" } do
    if bytes < 1000 then return (bytes % 1 == 0 and "%d" or "%.1f"):format(bytes) .. " " .. unit end
    bytes = bytes / 1000
  end
  return ("%.1f TB"):format(bytes)
end

-- The servers of a cluster, streams without a leader, and the room of the account if that has an end.
local function server_lines(list)
  local lines, rows = {}, { { "server", "leads", "replicas", "behind", "state" } }
  for i, one in ipairs(list.servers or {}) do
    rows[i + 1] = { one.name, one.leads, one.replicas, one.behind, queue_view.server_state(one) }
  end
  if rows[2] then lines = width.columns(rows, { false, true, true, true, false }) end
  if list.leaderless then
    lines[#lines + 1] = "no leader, so their queues are not shown: " .. short.list(list.leaderless, 20)
  end
  if list.storage and list.storage.most then
    lines[#lines + 1] = ("stored: %s of %s"):format(size(list.storage.used), size(list.storage.most))
  end
  return lines
end

---Formats queues as a table, and below it those that hear nothing, and the servers of a cluster. With `workers`, also
---the workers, each with the call that has run longest; or with all calls.
---@param list runnel.queue.List
---@param workers? boolean|"all"
---@return string[] lines
function queue_view.queues(list, workers)
  local lines, rows, silent = { "there are no queues" }, { HEAD }, silent_lines(list.silent or {})
  for i, queue in ipairs(list) do rows[i + 1] = queue_row(queue) end
  if #list > 0 then lines = width.columns(rows, NUMBERS) end
  for _, more in ipairs { silent, server_lines(list) } do
    if more[1] then
      lines[#lines + 1] = ""
      add_all(lines, more)
    end
  end
  for _, queue in ipairs(workers and list or {}) do
    if #queue.workers > 0 then
      add_all(lines, { "", queue.name .. ":" })
      add_all(lines, worker_lines(queue, workers == "all"))
    end
  end
  return width.lines(lines)
end

-- ---- messages that wait ----

-- The errors of tries, one for each.
local function error_lines(errors)
  local lines = {}
  for i, one in ipairs(errors or {}) do
    lines[i] = ("%-11s%s, start %d: %s"):format(i == 1 and "errors" or "", queue_view.date(one.time), one.start,
      first_line(one.error))
  end
  return lines
end

---A message that is not done, with its value and the errors of its tries.
---@param name string of the queue
---@param message runnel.queue.Waiting
---@return string[] lines
function queue_view.message(name, message)
  local state = message.running and ", a worker has it" or message.behind
    and (", waits behind %d of its key"):format(message.behind) or message.due
    and ", is delivered again at " .. queue_view.date(message.due) or ""
  local lines = {
    ("number     %d of %s%s"):format(message.sequence, name, state),
    ("stored     %s, subject %s%s"):format(queue_view.date(message.time), message.subject,
      message.id and ", id " .. message.id or ""),
    ("started    %d times, of which %d raised"):format(message.starts, message.raises),
    "value      " .. (message.problem or short.value(message.value, 2000)),
  }
  if message.key then table.insert(lines, 3, "key        " .. short.cut(message.key, 200)) end
  add_all(lines, error_lines(message.errors))
  return width.lines(lines)
end

---A table of messages that wait.
---@param list runnel.queue.Waiting[]
---@return string[] lines
function queue_view.waiting(list)
  if #list == 0 then return { "nothing waits" } end
  local rows, has_keys = { { "number", "stored", "id", "raised", "value", "error of the last try" } }, false
  for i, one in ipairs(list) do
    rows[i + 1] = { one.sequence, queue_view.date(one.time), one.id and short.value(one.id, 40) or "-", one.raises,
      one.problem or short.value(one.value, 60), one.error and first_line(one.error) or "-" }
    has_keys = has_keys or one.key ~= nil
  end
  for i = 1, has_keys and #rows or 0 do
    local one = list[i - 1]
    table.insert(rows[i], 5, not one and "key" or not one.key and "-"
      or short.cut(one.key, 40) .. (one.behind and ", behind " .. one.behind or ""))
  end
  return width.columns(rows, { true, false, false, true })
end

-- ---- dead letters ----

---A table of dead letters.
---@param letters table[] of dead:list()
---@return string[] lines
function queue_view.letters(letters)
  if #letters == 0 then return { "there are no dead letters" } end
  local rows = { { "number", "given up", "starts", "raised", "bytes", "error" } }
  for i, letter in ipairs(letters) do
    rows[i + 1] = { letter.sequence, queue_view.date(letter.time), letter.starts or "-", letter.raises or "-",
      letter.bytes or "-", first_line(letter.error) }
  end
  return width.columns(rows, { true, false, true, true, true })
end

---A dead letter with its value.
---@param letter table of dead:get()
---@return string[] lines
function queue_view.letter(letter)
  local from = letter.from and ("%s, message %s, subject %s"):format(letter.from, letter.position or "?",
    letter.subject or "?") or "a job"
  local lines = {
    ("number     %d of %s"):format(letter.sequence, letter.name),
    "from       " .. from,
    ("submitted  %s"):format(queue_view.date(letter.since)),
    ("given up   %s, after %s starts, of which %s raised"):format(queue_view.date(letter.time), letter.starts or "?",
      letter.raises or "?"),
    ("worker     %s"):format(letter.worker or "?"),
    ("value      %s"):format(letter.left_out and "too large to be kept" or short.value(letter.value, 2000)),
    "error      " .. (letter.error or "?"):gsub("\n", "\n           "),
  }
  add_all(lines, error_lines(letter.errors))
  if letter.traceback then lines[#lines + 1] = letter.traceback end
  return width.lines(lines)
end

return queue_view
