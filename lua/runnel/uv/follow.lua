---uv.follow: reads the lines of a growing file, such as a log, like `tail -F`.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local descriptor = require "runnel.uv.descriptor"
local guard = require "runnel.internal.guard"
local lines = require "runnel.uv.lines"
local loop = require "runnel.uv.loop"
local path_watch = require "runnel.uv.path_watch"

local uv = loop.uv

-- How many bytes are read at a time.
local BLOCK = 64 * 1024
-- Looks at the path after this many ms without an event, since no system reports every change.
local CHECK_MS = 1000
-- How many files that were replaced before they were read are kept open.
local MOST_KEPT = 64

-- Identifies a file under any name, as long as it is open.
local function id_of(stat) return stat and ("%d %d"):format(stat.dev, stat.ino) end

-- ---- the files at the path, one after another ----

---An open file that is or was at the path.
---@class runnel.uv.Followed
---@field d runnel.uv.Descriptor
---@field id string
---@field size integer when it was opened

-- Opens each file that comes to the path, at once, although the one before it has not been read to its end; and lets
-- the go block that reads wait.
---@class runnel.uv.Queue
---@field path string
---@field wake runnel.Channel<true> has a value if there is news; closed with the lines' channel
---@field files runnel.uv.Followed[] not yet read to the end, the oldest first
---@field last_id? string of the last one, which stays open until there is another one
---@field err? string why nothing can be read: of the first look, or that too many files were replaced
---@field has_file boolean the last look has seen a file at the path
---@field timer any luv's
---@field watch? runnel.uv.PathWatch nil: there are no events, so that it goes by time alone
local Queue = {}
Queue.__index = Queue

-- Opens the file at the path. Returns nil and the error's text if there is none.
---@return runnel.uv.Followed?
---@return string?
local function open(path)
  local fd, err = uv.fs_open(path, uv.constants.O_RDONLY | uv.constants.O_NONBLOCK, 0)
  if not fd then return nil, loop.message(err, path) end
  local d = descriptor.of_file(path, fd)
  local stat
  stat, err = uv.fs_fstat(fd)
  if stat and stat.type == "file" then return { d = d, id = id_of(stat), size = stat.size } end
  local _ <close> = d
  if not stat then return nil, loop.message(err, path) end
  return nil, ("%s: only a file can be followed, and it is a %s"):format(path, stat.type)
end

-- Looks at the path, and puts a file that is new there into the queue.
function Queue:look()
  local stat = uv.fs_stat(self.path)
  self.has_file = stat ~= nil
  if not stat or id_of(stat) == self.last_id or self.err then return end
  local file, err = open(self.path)
  if not file then return err end -- it may be a moment in which it is replaced
  if file.id == self.last_id then return file.d:close() end
  if #self.files > MOST_KEPT then
    file.d:close()
    self.err = ("%s: %d files were replaced before they were read, which is too slow: lines are lost")
      :format(self.path, MOST_KEPT)
    return
  end
  self.files[#self.files + 1], self.last_id = file, file.id
end

-- Begins to watch the path, for the channel of lines.
local function new_queue(out, path)
  local self = setmetatable({
    path = path, wake = core.chan(core.sliding_buffer(1)), files = {}, last_id = nil, err = nil, has_file = false,
    timer = nil, watch = nil,
  }, Queue)
  local function on_event(_, what)
    if loop.over or out:closed() then return end
    if not what or what.rename then self:look() end
    self.wake:offer(true)
  end
  self.timer = loop.made(uv.new_timer(), "uv.follow", path)
  self.watch = path_watch.new(path, "uv.follow", on_event, guard.nothing)
  self.timer:start(CHECK_MS, CHECK_MS, on_event)
  core.internal.on_close(out, function() -- the go block may have been cancelled before it began
    if self.watch then self.watch:close() end
    self.timer:stop()
    loop.close(self.timer)
    self.wake:close()
  end)
  local err = self:look()
  if not self.has_file then err = select(2, uv.fs_stat(path)) end
  if err and not err:find "^ENOENT" then self.err = err end
  return self
end

-- Parks until there may be news. Returns false once the channel of lines is closed.
function Queue:wait() return self.wake:take() or false end

-- Not when the channel closes, because a file may be being read then.
function Queue:__close()
  for _, file in ipairs(self.files) do file.d:close() end
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

-- Calls `emit` with the bytes from `pos` to the end of the file. Returns the position of the end, and the size of the
-- file then; nil if `emit` returned false; or nil and an error.
local function read_from(d, pos, emit, is_last)
  while true do
    local err, chunk, size = d:read_file(BLOCK, pos)
    if err then return nil, err end
    if chunk ~= "" then
      pos = pos + #chunk
      if not emit(chunk) then return nil end
    elseif not size then
      local problem, stat = d:call(uv.fs_fstat, d.fd)
      if problem then return nil, problem end
      size = stat.size
    end
    if chunk == "" or size == pos and not is_last then return pos, size end
  end
end

-- Puts the lines of the queue's first file on a channel. Returns true when another file has replaced it at its path; or
-- false, and the error if there is one.
local function follow_file(out, queue, pos, max)
  local d, path = queue.files[1].d, queue.path
  local emit = lines.splitter(out, max, path)
  while true do
    -- Whether there is a next file is asked before reading, so that no earlier write to this file is missed.
    local has_next = #queue.files > 1 or queue.err ~= nil
    local at, size = read_from(d, pos, emit, has_next)
    if not at then return false, size end
    pos = at
    if has_next then return emit(nil) end
    if size < pos then -- it was truncated
      if not emit(nil) then return false end
      pos, emit = 0, lines.splitter(out, max, path)
    elseif not queue:wait() then
      return false
    end
  end
end

local function follow_into(out, opened, last, max)
  local queue <close> = opened
  while true do
    local file, goes_on, err = queue.files[1], true, queue.err
    if file then
      local pos = 0
      if last then pos, err = start_of_last(file.d, last, file.size) else err = nil end
      if not err then goes_on, err = follow_file(out, queue, pos, max) end
      if not err and goes_on then table.remove(queue.files, 1).d:close() end
    elseif not err then
      goes_on = queue:wait()
    end
    last = nil
    if err or not goes_on then return out:close(err) end
  end
end

local OPTIONS = { last = check.kinds.integer(0), max = check.kinds.integer(1) }

---@class runnel.uv.follow
local follow = {}

---Reads the lines of a growing file, and of the files that replace it at its path, like `tail -F`. A line is put once
---its newline has been written. When a file is replaced or truncated, the rest of its last line is put as a line, too.
---If there is no file at the path, it waits for one. A file that has replaced another, or was truncated, is read from
---its beginning; it counts as truncated when it is shorter than what has been read. Files that are replaced before they
---were read are kept open, 64 of them; with more, the channel closes with an error. Without takes nothing is read: what
---was in a file when it was truncated then is missed, and so is a file that was at the path only for a moment.
---@param path string
---@param opts? { last?: integer, max?: integer } `last`: begin with this many of the existing lines, 0 for new lines
---only; by default with all of them. `max`: how many bytes a line may have, default 1 MB
---@return runnel.Channel<string> lines without their newlines; closes with an error if the file cannot be read, is not
---a regular file, or has a longer line. Close it to stop following.
function follow.follow(path, opts)
  check.path(path, "a path", "follow")
  check.options(opts, OPTIONS, "follow")
  local last, max = opts and opts.last, opts and opts.max
  loop.check "follow"
  local out = lines.chan(path)
  local queue = new_queue(out, path) -- lines that are written from now on are new
  guard.started(guard.go(guard.close, out, follow_into, out, queue, last, max), "uv.follow")
  return out
end

return follow
