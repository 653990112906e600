---Files that grow, such as logs: their lines as they come, as `tail -F` shows them.

local core = require "runnel.core"
local check = require "runnel.check"
local descriptor = require "runnel.uv.descriptor"
local lines = require "runnel.uv.lines"
local loop = require "runnel.uv.loop"

local uv = loop.uv

-- Bytes that are read at a time.
local BLOCK = 64 * 1024
-- ms after which a file is looked at although no event has come: no system tells of everything. And how often one that
-- is not there is looked for.
local AT_LEAST, ABSENT = 1000, 250

local function id_of(stat) return stat and ("%d %d"):format(stat.dev, stat.ino) end

-- ---- when to look ----

-- Ends the waits of whoever follows a file: when something happens to the file, after some ms, and for good when `out`
-- is closed. Events that come while nobody waits are one.
local Watch = {}
Watch.__index = Watch

local function watch(out)
  local wake = core.chan(core.sliding_buffer(1))
  out:done():take_async(function() wake:close() end)
  local function on_event()
    if not loop.over then wake:offer(true) end
  end
  return setmetatable({ wake = wake, on_event = on_event, event = uv.new_fs_event(), timer = uv.new_timer() }, Watch)
end

-- From now on it is this file. Where that fails, the time alone ends a wait.
function Watch:begin(path)
  self.event:stop()
  self.event:start(path, {}, self.on_event)
end

-- Parks; false when `out` is closed.
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

-- Where the last `n` complete lines of the first `size` bytes begin: they are read backwards. Or nil and an error.
local function start_of_last(d, n, size)
  local newlines = -1 -- the last one ends a line, and begins none
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

-- Calls `emit` with all that there is from `pos` on. Returns where it ends; or nil when `emit` wants no more, or with
-- an error.
local function read_from(d, pos, emit)
  while true do
    local err, chunk = d:call(uv.fs_read, d.fd, BLOCK, pos)
    if err then return nil, err end
    if chunk == "" then return pos end
    pos = pos + #chunk
    if not emit(chunk) then return nil end
  end
end

-- Puts the lines of a file on a channel until another one has taken its path: true then. Else false, and the error if
-- there is one.
local function follow_file(out, d, path, pos, watching)
  local emit = lines.splitter(out)
  local err, stat = d:call(uv.fs_fstat, d.fd)
  if err then return false, err end
  local id = id_of(stat)
  watching:begin(path)
  while true do
    -- Whether it is another one is to be known before reading: what is written until then is not to be missed.
    local _, at_path = d:call(uv.fs_stat, path)
    pos, err = read_from(d, pos, emit)
    if not pos then return false, err end
    if at_path and id_of(at_path) ~= id then return emit(nil) end
    err, stat = d:call(uv.fs_fstat, d.fd)
    if err then return false, err end
    if stat.size < pos then -- it has been cut off
      if not emit(nil) then return false end
      pos, emit = 0, lines.splitter(out)
    elseif not watching:wait(at_path and AT_LEAST or ABSENT) then
      return false
    end
  end
end

-- ---- whatever is at the path ----

-- Opens the file at a path and finds where to begin. `seen`: what was there when following began, if anything. Returns
-- nil and an error where that cannot be done.
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

local function follow_into(out, path, seen, last)
  local closing <close> = out
  local watching <close> = watch(out)
  local begun = false
  repeat
    local opened, pos = open(path, seen, last)
    local goes_on, err
    if opened then
      local d <close> = opened
      goes_on, err = follow_file(out, d, path, pos, watching)
    elseif begun or pos:find "^ENOENT" then -- later it may be all kinds of things for a moment, while it is replaced
      goes_on = watching:wait(ABSENT)
    else
      goes_on, err = false, pos
    end
    begun, seen = true, nil
    if err then closing:close(err) end
  until not goes_on
end

---@class runnel.uv.follow
local follow = {}

---The lines of a file that grows, and of the files that take its place, for ever; as `tail -F` shows them. A line comes
---once its newline has been written; the rest of a file that is replaced or cut off comes as a line, too. A file that
---is not there is waited for. One that has taken the path, or was cut off, is read from its beginning; that a file was
---cut off shows when it is shorter than what has been read. Nothing is read while nobody takes, so that what comes and
---goes meanwhile is missed.
---@param path string
---@param opts? { last?: integer } `last`: begin with so many of the lines that there are, 0 for none but new ones; by
---default with all of them
---@return runnel.Channel<string> lines without their newlines; closes with an error where there is something that
---cannot be read, or no file. Closing it ends the following.
function follow.follow(path, opts)
  if type(path) ~= "string" then
    error("follow: a path expected, got " .. (path == nil and "nothing" or "a " .. type(path)), 2)
  end
  check.options(opts, { last = true }, "follow")
  local last = opts and opts.last
  if last ~= nil then check.integer(last, 0, "follow: last") end
  loop.check_time "follow"
  local out = lines.chan()
  core.go(follow_into, out, path, uv.fs_stat(path), last) -- what is written from now on is new
  return out
end

return follow
