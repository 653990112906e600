---http.files: serves the files of a folder. Needs luv.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local conditions = require "runnel.http.conditions"
local content_types = require "runnel.http.content_types"
local decode = require("runnel.http.request").decode
local descriptor = require "runnel.uv.descriptor"
local guard = require "runnel.internal.guard"
local loop = require "runnel.uv.loop"

local put_while_open = core.internal.moving.put_while_open
local uv = loop.uv

---@class runnel.http.files
local files = {}

-- Bytes of a piece. A file that is not longer is sent as a string.
local PIECE <const> = 64 * 1024

local kinds = check.kinds
local OPTIONS = { dotfiles = kinds.boolean, headers = kinds.table, index = true, symlinks = kinds.boolean,
  types = kinds.table }

---The options of http.files.
---@class runnel.http.FilesOptions
---@field index? string|false the file that is served for a folder; default "index.html"; false: none
---@field headers? table<string, string|number|string[]> more headers, such as Cache-Control
---@field types? table<string, string> more content types, by the extension of the file's name in lower case
---@field dotfiles? boolean whether files and folders whose names begin with a dot are served; default false
---@field symlinks? boolean whether symbolic links may lead out of the folder; default false

-- ---- from the path to a file ----

-- The requested path within the folder, as the client has sent it.
local function asked(req)
  if req.rest then return req.rest end
  return ((req.target or req.path):match "^[^?#]*":gsub("^%a[%w+.-]*://[^/]*", ""):gsub("^/", ""))
end

-- Decodes such a path: names joined by slashes; nil if it is not allowed. The last name may be empty, for a folder.
local function below(settings, path)
  local names = {}
  for segment in (path .. "/"):gmatch "([^/]*)/" do
    local name = decode(segment)
    if names[#names] == "" or name == ".." or name == "." or name:find "[/\0]" then return nil end
    if name:sub(1, 1) == "." and not settings.dotfiles then return nil end
    names[#names + 1] = name
  end
  return table.concat(names, "/")
end

-- The real path of a file; nil and the name of the error on failure. Does not block the loop.
local function real_path(path)
  local answers = core.chan(1)
  assert(uv.fs_realpath(path, function(err, real) answers:offer { real, err } end))
  local answer = answers:take()
  return answer[1], answer[2]
end

-- Errors that mean for a client that there is no such file. All others are failures of the server.
local ABSENT = { EACCES = true, ELOOP = true, ENAMETOOLONG = true, ENOENT = true, ENOTDIR = true, ENXIO = true }

local function is_absent(err) return ABSENT[err:match "^%u+"] or false end

-- Opens a file in the folder. Returns its descriptor and its properties; nil if it does not exist, or a link leads out
-- of the folder; nil and the properties if it is a folder.
local function open(settings, path)
  local root = assert(uv.fs_realpath(settings.dir)) -- each time, since the folder may be a link whose target changes
  local real, err = real_path(root .. "/" .. path)
  local inside = root == "/" and "/" or root .. "/"
  if real and not (settings.symlinks or real == root or real:sub(1, #inside) == inside) then return nil end
  local fd
  if real then fd, err = uv.fs_open(real, uv.constants.O_RDONLY | uv.constants.O_NONBLOCK, 0) end
  if not fd then
    if is_absent(err) then return nil end
    error(loop.message(err, path), 0)
  end
  local d = assert(descriptor.open(fd))
  d.name = path
  local stat = assert(uv.fs_fstat(fd))
  if stat.type == "file" then return d, stat end
  d:__close()
  return nil, stat.type == "directory" and stat or nil
end

-- ---- the body ----

-- Reads a piece of a file; raises if the file has become too short.
local function read(d, size, offset)
  local err, piece = d:call(uv.fs_read, d.fd, size, offset)
  if err then error(err, 0) end
  if piece == "" then error(d.name .. ": the file has become shorter while it was sent", 0) end
  return piece
end

local function send_pieces(d, ch, offset, length)
  local closing <close> = d
  while length > 0 do
    local ok, piece = pcall(read, closing, math.min(length, PIECE), offset)
    if not ok then return ch:close(piece) end
    if not put_while_open(ch, piece) then return end
    offset, length = offset + #piece, length - #piece
  end
  ch:close()
end

-- A part of a file: a string, or a channel if it is long. The file is closed after the last piece.
local function part(d, offset, length)
  if length > PIECE then
    local ch = core.chan()
    guard.started(guard.go(guard.close, ch, send_pieces, d, ch, offset, length), "files")
    return ch
  end
  local closing <close> = d
  local pieces = {}
  while length > 0 do
    local piece = read(closing, length, offset)
    pieces[#pieces + 1] = piece
    offset, length = offset + #piece, length - #piece
  end
  return table.concat(pieces)
end

-- ---- the response ----

local function with(headers, more)
  for name, value in pairs(more or {}) do headers[name] = value end
  return headers
end

local function type_of(settings, name)
  local ending = (name:match "[^/]%.([^./]+)$" or ""):lower()
  return settings.types and settings.types[ending] or content_types[ending] or "application/octet-stream"
end

local function respond(req, settings, path, d, stat)
  local modified, size, asked_for = stat.mtime.sec, stat.size, req.headers or {}
  local tag = ('"%x-%x-%x"'):format(modified, stat.mtime.nsec, size)
  local headers = with({ ["Content-Type"] = type_of(settings, path), ETag = tag,
    ["Last-Modified"] = conditions.date(modified), ["Accept-Ranges"] = "bytes",
    ["X-Content-Type-Options"] = "nosniff" }, settings.headers)
  local status = conditions.judge(asked_for, tag, modified)
  if status then
    d:__close()
    return status, headers
  elseif req.method == "HEAD" then
    d:__close()
    local nothing = core.chan()
    nothing:close()
    headers["Content-Length"] = size
    return 200, headers, nothing
  end
  local first, last = conditions.range(asked_for, tag, modified, size)
  if first == false then
    d:__close()
    return 416, with({ ["Content-Range"] = "bytes */" .. size }, settings.headers), "there is no such range\n"
  end
  local length = first and last - first + 1 or size
  headers["Content-Length"] = length
  if first then headers["Content-Range"] = ("bytes %d-%d/%d"):format(first, last, size) end
  return first and 206 or 200, headers, part(d, first or 0, length)
end

local function absent() return 404, nil, "there is no such file\n" end

-- Redirects the client to the path with a slash at its end, so that links in the page are relative to the folder.
local function add_slash(req, path)
  local query = (req.target or ""):match "%?.*" or ""
  return 301, { Location = "./" .. path:match "[^/]*$" .. "/" .. query }, "it is a folder\n"
end

local function handle(settings, req)
  if req.method ~= "GET" and req.method ~= "HEAD" then
    return 405, { Allow = "GET, HEAD" }, "files can only be read\n"
  end
  local as_sent = asked(req)
  local path = below(settings, as_sent)
  if not path then return absent() end
  local d, stat = open(settings, path)
  if not d and stat then
    if path ~= "" and path:sub(-1) ~= "/" then return add_slash(req, as_sent) end
    if not settings.index then return absent() end
    path = path .. settings.index
    d, stat = open(settings, path)
  end
  if not d then return absent() end
  return respond(req, settings, path, d, stat)
end

---Makes a function for http.serve, or for a route such as "/static/*path", that serves the files of a folder. It
---answers GET and HEAD, supports ranges, and answers 304 if the client already has the file.
---@param dir string the folder
---@param opts? runnel.http.FilesOptions
---@return fun(req: runnel.http.Request): integer, table?, any
function files.files(dir, opts)
  check.string(dir, "a folder", "files")
  check.options(opts, OPTIONS, "files")
  opts = opts or {}
  if opts.index and (type(opts.index) ~= "string" or opts.index:find "/") then
    error("files: index: the name of a file, or false, expected, got " .. check.describe(opts.index), 2)
  end
  loop.check "files"
  local stat, err = uv.fs_stat(dir)
  if not stat then error("files: " .. loop.message(err, dir), 2) end
  if stat.type ~= "directory" then error(("files: a folder expected, and %s is a %s"):format(dir, stat.type), 2) end
  local index = opts.index == nil and "index.html" or opts.index
  if dir:sub(1, 1) ~= "/" then dir = uv.cwd() .. "/" .. dir end
  local settings = { dir = dir, index = index, headers = opts.headers, types = opts.types, dotfiles = opts.dotfiles,
    symlinks = opts.symlinks }
  return function(req) return handle(settings, req) end
end

return files
