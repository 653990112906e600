---http.download: a response into a file, which has its name only when all of it is there, and is the right one.
---
---What has come is in `PATH.part`. `PATH.part.state` says of how many of its bytes which checksum is known, and which
---version of the file they are of (If-Range) and how long that is, so that a later try goes on behind them. Only what
---has that checksum is used: a crash may leave anything in the two files.

local io, os, require = io, os, require
local check = require "runnel.internal.check"
local client = require "runnel.http.client"
local core = require "runnel.core"
local current = require "runnel.internal.world"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local lib = require "runnel.http.curl"
local options = require "runnel.http.http_options"
local repeats = require "runnel.http.repeats"
local responses = require "runnel.http.response"
local save = require "runnel.http.save"
local raise = core.internal.raise

---@class runnel.http.download
local download = {}

---After so many bytes the state is written, so that a program that was killed goes on from there. Specs change it.
---@package
download.stride = 32 << 20

-- After so many ms, too: much of what comes over a slow line is kept then.
local STRIDE_MS <const> = 2000

-- By how many seconds a file must be older than the response, so that its time tells versions apart.
local OLD_ENOUGH <const> = 60

---@class runnel.http.Download
---@field url string
---@field place string for messages
---@field path string
---@field part string
---@field state string the path of what is known of it
---@field settings runnel.http.Settings
---@field lines string[] the headers that the program sends
---@field progress? fun(bytes: integer, total?: integer)
---@field sha256? string the expected one
---@field max? integer
---@field size integer how many bytes there are
---@field sum integer their CRC-32
---@field hash? any their SHA-256
---@field validator? string of the version that they are of
---@field total? integer how many that version has, if it is known
---@field marked integer how many there were when the state was written
---@field marked_at number when that was, or when writing began, in ms
local Download = {}
Download.__index = Download

-- ---- what is there ----

local function new_hash(self)
  if not self.sha256 then return nil end
  return require("runnel.internal.tls_options").native.sha256()
end

-- Nothing is there.
local function forget(self)
  os.remove(self.state)
  os.remove(self.part)
  self.size, self.sum, self.hash, self.validator, self.total, self.marked = 0, 0, new_hash(self), nil, nil, 0
end

local function add(self, piece)
  self.size, self.sum = self.size + #piece, lib.crc32(self.sum, piece)
  if self.hash then self.hash:update(piece) end
end

-- Writes the state. If it cannot be written, a later try begins anew.
local function mark(self)
  self.marked, self.marked_at = self.size, core.now()
  local file = io.open(self.state, "w")
  if not file then return end
  file:write(("%d %d %d %s %s\n"):format(self.size, self.sum, lib.crc32(0, self.url), self.total or "*",
    self.validator))
  file:close()
end

-- Whether so much has come that the state is to be written.
local function must_mark(self)
  local is_much = self.size - self.marked >= download.stride or core.now() - self.marked_at >= STRIDE_MS
  return is_much and self.validator ~= nil
end

-- Drops what is behind the bytes that are known.
local function cut(self)
  local uv = require("runnel.uv.loop").uv
  local fd = uv.fs_open(self.part, uv.constants.O_RDWR, 0)
  if not fd then return false end
  local ok = uv.fs_ftruncate(fd, self.size)
  uv.fs_close(fd)
  return ok ~= nil
end

-- Reads what an earlier try has left, up to a number of bytes. Returns whether they have the checksum.
local function read_part(self, size, sum)
  local chunks <close> = require("runnel.uv").read(self.part)
  while self.size < size do
    local chunk = chunks:take()
    if not chunk then return false end
    add(self, chunk:sub(1, size - self.size))
  end
  return self.sum == sum
end

-- Finds what an earlier try has left of this URL.
local function recall(self)
  local file = io.open(self.state)
  if not file then return forget(self) end
  local size, sum, url, total, validator = (file:read "a" or ""):match "^(%d+) (%d+) (%d+) ([%d*]+) ([^\n]+)\n$"
  file:close()
  local is_mine = tonumber(url) == lib.crc32(0, self.url) and math.type(tonumber(size)) == "integer"
  if not is_mine or not read_part(self, tonumber(size), tonumber(sum)) or not cut(self) then return forget(self) end
  self.validator, self.total, self.marked = validator, math.tointeger(tonumber(total)), self.size
end

-- ---- a try ----

-- What tells the version of a response from all others; nil if nothing does. A weak tag or a new file does not.
local function validator_of(headers)
  local tag, changed = headers.etag, headers["last-modified"]
  if headers["content-encoding"] then return nil end -- it was decompressed: its bytes are not those of the version
  if tag then return tag:match '^"[^"\r\n]*"$' end
  local time = require("runnel.http.conditions").time
  local at, now = time(changed or ""), time(headers.date or "")
  return at and now and now - at >= OLD_ENOUGH and changed or nil
end

-- Whether a response is the file from an offset on, as it was asked for. Returns its whole length, too, if that is
-- known. Not all servers obey If-Range: what the response says of its version must be what is known of the bytes that
-- are there.
local function is_rest(self, headers, wanted)
  local from, whole = (headers["content-range"] or ""):match "^bytes (%d+)%-%d+/([%d*]+)$"
  local total = math.tointeger(tonumber(whole))
  local version = headers[self.validator:sub(1, 1) == '"' and "etag" or "last-modified"]
  local is_other = version and version ~= self.validator or self.total and total and total ~= self.total
  return tonumber(from) == wanted and not is_other and not headers["content-encoding"], total or self.total
end

-- What writes. At its end it notes what was written, if a later try can go on there. If not all could be written, what
-- was noted before is still there.
local Writing = { __close = function(self)
  local partial, job, is_written = self.partial, self.download, nil
  partial.ch:close()
  guard.insist(function() is_written = partial.written:take() end) -- it may only now be opened
  if self.is_whole then return end
  if self.is_refused or not job.validator then forget(job)
  elseif is_written then mark(job)
  elseif job.marked == 0 then forget(job) end
end }

local function open(self)
  return setmetatable({ partial = save.open(self.part, { append = self.size > 0 }), download = self }, Writing)
end

-- The end of writing. Returns nil, or the error.
local function finish(writing)
  local partial = writing.partial
  partial.ch:close()
  local written, err = partial.written:take()
  if written then return nil end
  return err or "it was not written"
end

-- What is there when so much has come is on the disk, and noted. Goes on in a new writing.
local function pass_mark(self, writing)
  local err = finish(writing)
  if err then return err end
  mark(self)
  writing.partial = open(self).partial
end

-- Writes the body, without its first bytes if these are there. Returns nil, or the error, and whether a later try may
-- succeed.
local function write(self, pieces, there)
  local writing <close> = open(self)
  self.marked_at = core.now()
  while true do
    local piece, err = pieces:take()
    if piece == nil and err ~= nil then return err, true end
    if piece == nil then break end
    if there > 0 then piece, there = piece:sub(there + 1), 0 end -- it is one byte, and no piece is empty
    if self.max and self.size + #piece > self.max then
      writing.is_refused = true
      return ("%s: the body has more than %d bytes"):format(self.place, self.max)
    end
    if not writing.partial.ch:put(piece) then return finish(writing) end
    add(self, piece)
    if self.progress then self.progress(self.size, self.total) end
    if must_mark(self) then
      err = pass_mark(self, writing)
      if err then return err end
    end
  end
  if self.total and self.size ~= self.total then
    return ("%s: %d bytes have come of %d"):format(self.place, self.size, self.total), true
  end
  local err = finish(writing)
  if err then return err end
  writing.is_whole = true
end

-- The file is whole. Gives it its name; returns nil, or the error, after which nothing of it stays, and whether what
-- has come is wrong.
local function complete(self)
  local found = self.hash and self.hash:finish()
  if found ~= self.sha256 then
    forget(self)
    local problem = ("%s: the SHA-256 of the file is %s, and %s was expected"):format(self.place, found,
      self.sha256)
    return problem, true
  end
  local ok, err = os.rename(self.part, self.path)
  if not ok then
    forget(self)
    return ("%s: %s"):format(self.path, err)
  end
  os.remove(self.state)
end

-- Returns the response; or nil, the error, the response if its status is the reason, and what may be done: "again", at
-- once, since what is there has to be asked for in another way; "later"; or nil.
local function try(self)
  local size, settings = self.size, self.settings
  -- Of a file that is whole it asks for the last byte, since there is nothing behind it: so the server says whether the
  -- file is still that version.
  local from = size > 0 and size == self.total and size - 1 or size
  local lines = table.move(self.lines, 1, #self.lines, 1, {})
  if from > 0 then
    lines[#lines + 1], lines[#lines + 2] = ("Range: bytes=%d-"):format(from), "If-Range: " .. self.validator
  end
  settings.headers = lines
  local pieces, head = client.forward("download", self.url, settings)
  local closing <close> = setmetatable({ ch = pieces }, ends.Dropping) -- luacheck: ignore 211
  local res, err = head()
  if not res then return nil, err, nil, "later" end
  local headers, total, is_right = res.headers, nil, nil
  if res.status == 206 and from > 0 then
    is_right, total = is_rest(self, headers, from)
  elseif res.status == 200 then
    if size > 0 then forget(self) end -- it has changed: this is all of the new version
    is_right, from, size, self.validator = true, 0, 0, validator_of(headers)
    total = not headers["content-encoding"] and math.tointeger(tonumber(headers["content-length"])) or nil
  elseif res.status == 416 and size > 0 and not self.total then
    self.total = size -- nothing is behind what is there: it may be whole
    return nil, responses.status_error(self.url, res.status), res, "again"
  elseif res.status ~= 416 or from == 0 then
    return nil, responses.status_error(self.url, res.status), res, repeats.LATER[res.status] and "later"
  end
  if not is_right then
    forget(self)
    return nil, self.place .. ": the server has sent another part of the file than was asked for", nil, "again"
  end
  self.total = total
  local problem, may_be_tried = write(self, pieces, size - from)
  if problem then return nil, problem, nil, may_be_tried and "later" end
  local is_wrong
  problem, is_wrong = complete(self)
  if problem then return nil, problem, nil, is_wrong and size > 0 and "again" end
  res.bytes, res.resumed = self.size, size
  return res
end

-- ---- the call ----

local function read_options(path, opts)
  check.path(path, "a path", "download")
  opts = opts or {}
  local sha256 = opts.sha256
  if sha256 ~= nil and (type(sha256) ~= "string" or #sha256 ~= 64 or sha256:find "%X") then
    raise("download: sha256: 64 hexadecimal digits expected, got " .. check.describe(sha256))
  end
  check.callable_or_nil(opts.progress, "download: progress")
  for name in pairs(type(opts.headers) == "table" and opts.headers or {}) do
    local lower = tostring(name):lower()
    if lower == "range" or lower == "if-range" or lower == "accept-encoding" then
      raise(("download: headers: %s is set by the function itself"):format(name))
    end
  end
  return opts
end

-- The files that are being written: two downloads would write into one another. On a host of a simulated world they
-- end with it.
local running = setmetatable({}, { __mode = "k" })
local REAL <const> = {}

local function enter(path)
  local of = current.world and current.world:here().open_files or REAL
  running[of] = running[of] or {}
  if running[of][path] then return nil end
  running[of][path] = true
  return setmetatable({}, { __close = function() running[of][path] = nil end })
end

---Gets a file. Parks until it has its name, which it has only when it is whole and on the disk; before, it is
---`path .. ".part"`. If it fails, a later call goes on where this one has ended, unless the file has changed.
---@param url string http:// or https://
---@param path string
---@param opts? table as for http.get, but without a default limit, and `sha256`: the checksum that the file must have;
---`progress`: is called with the number of bytes that are there, and the whole number if it is known
---@return runnel.http.Response? response without its body, but with `bytes` and `resumed`
---@return any err why there is no file
---@return runnel.http.Response? failed the response, if its status is the reason
function download.download(url, path, opts)
  local full_url, settings = options.read("download", url, opts)
  opts = read_options(path, opts)
  local wrong = options.refuse(full_url)
  if wrong then return nil, wrong end
  local stat = require("runnel.uv.loop").uv.fs_stat(path)
  if stat and stat.type == "directory" then return nil, path .. ": it is a folder: give the path of the file" end
  local entered <close> = enter(path)
  if not entered then return nil, path .. ": another call of http.download writes this file now" end
  local lines = settings.headers or {}
  lines[#lines + 1] = "Accept-Encoding: identity" -- a part of a compressed body is of no use
  settings.has_more = true
  settings.tries, settings.backoff = settings.tries or 1, settings.backoff or 0
  local max = settings.max
  settings.max = nil -- it is of the whole file
  local self = setmetatable({
    url = full_url, place = responses.host(full_url), path = path, part = path .. ".part",
    state = path .. ".part.state", settings = settings, lines = lines, progress = opts.progress,
    sha256 = opts.sha256 and opts.sha256:lower(), max = max, size = 0, sum = 0, marked = 0,
    marked_at = 0,
  }, Download)
  self.hash = new_hash(self)
  recall(self)
  local tried = 0
  while true do
    local res, err, failed, how = try(self)
    if res then return res end
    if how ~= "again" then
      tried = tried + 1
      local ms = how and repeats.pause(settings, tried, failed)
      if not ms then return nil, err, failed end
      core.sleep(ms)
      if self.size > 0 then
        self.size, self.sum, self.hash = 0, 0, new_hash(self)
        recall(self) -- what was really written
      end
    end
  end
end

return download
