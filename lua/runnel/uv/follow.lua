---uv.follow: reads the lines of a growing file, such as a log, like `tail -F`.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local descriptor = require "runnel.internal.uv.descriptor"
local guard = require "runnel.internal.guard"
local lines = require "runnel.internal.uv.lines"
local loop = require "runnel.internal.uv.loop"

local uv = loop.uv

-- How many bytes are read at a time.
local BLOCK = 64 * 1024
-- Checks a file after this many ms without an event, since no system reports every change; and looks for a missing file
-- again after this many ms.
local CHECK_MS, RETRY_MS = 1000, 250

-- Identifies a file under any name.
local function id_of(stat) return stat and ("%d %d"):format(stat.dev, stat.ino) end

-- ---- waiting for a change ----

-- Lets a go block wait until a file changes, some ms have passed, or `out` closes. Events that arrive between two waits
-- count as one.
local Watch = {}
Watch.__index = Watch

local function watch(out, path)
  local wake = core.chan(core.sliding_buffer(1))
  core.internal.on_close(out, function() wake:close() end)
  local function on_event()
    if not loop.over then wake:offer(true) end
  end
  local event, timer = loop.made(uv.new_fs_event(), "uv.follow", path), uv.new_timer()
  loop.made_with(timer, event)
  return setmetatable({ wake = wake, on_event = on_event, event = event, timer = timer }, Watch)
end

-- Begins to watch the file at this path. If that fails, waits end only by time.
function Watch:begin(path)
  self.event:stop()
  self.event:start(path, {}, self.on_event)
end

-- Parks for at most `ms`. Returns false once `out` is closed.
function Watch:wait(ms)
  self.timer:start(ms, 0, self.on_event)
  local open = self.wake:take()
  self.timer:stop()
  return open or false
end

function Watch:__close()
  for _, handle in ipairs { self.event, self.timer } do
    handle:stop()
    loop.close(handle)
  end
end

-- ---- one file ----

-- Returns the position at which the last `n` complete lines of the first `size` bytes begin; or nil and an error. Reads
-- backwards.
local function start_of_last(d, n, size)
  local newlines = -1 -- the last newline ends a line, but no line begins after it
  while size > 0 do
    local from = math.max(0, size - BLOCK)
    local err, block = d:call(uv.fs_read, d.fd, size - from, from)
    if err then return nil, err end
    for i = #block, 1, -1 do
      if block:byte(i) == 10 then
        newlines = newlines + 1
        if newlines == n then return from + i end
      end
    end
    size = from
  end
  return 0
end

-- Calls `emit` with the bytes from `pos` to the end of the file. Returns the position of the end; nil if `emit`
-- returned false; or nil and an error.
local function read_from(d, pos, emit)
  while true do
    local err, chunk = d:call(uv.fs_read, d.fd, BLOCK, pos)
    if err then return nil, err end
    if chunk == "" then return pos end
    pos = pos + #chunk
    if not emit(chunk) then return nil end
  end
end

-- Puts the lines of a file on a channel. Returns true when another file has replaced it at its path; or false, and the
-- error if there is one.
local function follow_file(out, d, path, pos, watching, max)
  local emit = lines.splitter(out, max, path)
  local err, stat = d:call(uv.fs_fstat, d.fd)
  if err then return false, err end
  local id = id_of(stat)
  watching:begin(path)
  while true do
    -- Looks for another file at the path before reading, so that no earlier write to this file is missed.
    local _, at_path = d:call(uv.fs_stat, path)
    pos, err = read_from(d, pos, emit)
    if not pos then return false, err end
    if at_path and id_of(at_path) ~= id then return emit(nil) end
    err, stat = d:call(uv.fs_fstat, d.fd)
    if err then return false, err end
    if stat.size < pos then -- it was truncated
      if not emit(nil) then return false end
      pos, emit = 0, lines.splitter(out, max, path)
    elseif not watching:wait(at_path and CHECK_MS or RETRY_MS) then
      return false
    end
  end
end

-- ---- the files at a path, one after another ----

-- Opens the file at a path. `seen` is the stat of the file that was there when following began, if any. Returns the
-- descriptor and the position to begin at, or nil and an error.
---@return runnel.uv.Descriptor? d
---@return any pos or the error
local function open(path, seen, last)
  local d, err = descriptor.open(path, uv.constants.O_RDONLY)
  if not d then return nil, err end
  local stat
  err, stat = d:call(uv.fs_fstat, d.fd)
  if not err and stat.type ~= "file" then
    err = ("%s: only a file can be followed, and it is a %s"):format(path, stat.type)
  end
  local pos = 0
  if not err and last and id_of(stat) == id_of(seen) then
    pos, err = start_of_last(d, last, math.min(seen.size, stat.size))
  end
  if not err then return d, pos end
  local _ <close> = d
  return nil, err
end

local function follow_into(out, path, seen, last, max)
  local watching <close> = watch(out, path)
  local begun = false
  repeat
    local opened, pos = open(path, seen, last)
    local goes_on, err
    if opened then
      local d <close> = opened
      goes_on, err = follow_file(out, d, path, pos, watching, max)
    elseif begun or pos:find "^ENOENT" then -- once begun, an error may be temporary: the file is being replaced
      goes_on = watching:wait(RETRY_MS)
    else
      goes_on, err = false, pos
    end
    begun, seen = true, nil
    if err then out:close(err) end
  until not goes_on
  out:close()
end

local OPTIONS = { last = check.kinds.integer(0), max = check.kinds.integer(1) }

---@class runnel.uv.follow
local follow = {}

---Reads the lines of a growing file, and of the files that replace it at its path, like `tail -F`. A line is put once
---its newline has been written. When a file is replaced or truncated, the rest of its last line is put as a line, too.
---If there is no file at the path, it waits for one. A file that has replaced another, or was truncated, is read from
---its beginning; it counts as truncated when it is shorter than what has been read. Without takes nothing is read: text
---that is written and removed again in that time is missed.
---@param path string
---@param opts? { last?: integer, max?: integer } `last`: begin with this many of the existing lines, 0 for new lines
---only; by default with all of them. `max`: how many bytes a line may have, default 1 MB
---@return runnel.Channel<string> lines without their newlines; closes with an error if the file cannot be read, is not
---a regular file, or has a longer line. Close it to stop following.
function follow.follow(path, opts)
  check.string(path, "a path", "follow")
  check.options(opts, OPTIONS, "follow")
  local last, max = opts and opts.last, opts and opts.max
  loop.check "follow"
  local out = lines.chan(path)
  -- Lines that are written after this stat are new.
  guard.started(guard.go(guard.close, out, follow_into, out, path, uv.fs_stat(path), last, max), "uv.follow")
  return out
end

return follow
