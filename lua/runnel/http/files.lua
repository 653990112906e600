---http.files: serves the files of a folder. Needs luv.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local conditions = require "runnel.http.conditions"
local content_types = require "runnel.http.content_types"
local decode = require("runnel.http.request").decode
local current = require "runnel.internal.world"
local descriptor = require "runnel.uv.descriptor"
local file_body = require "runnel.http.file_body"
local headers_of = require "runnel.http.middleware.headers"
local loop = require "runnel.uv.loop"
local raise = core.internal.raise

local has_lib, lib = pcall(core.internal.require, "runnel.http.core") -- it may not have been built
local uv = loop.uv

---@class runnel.http.files
local files = {}

-- What is remembered of requests: of so many paths, which are not longer.
local MANY <const>, LONG <const> = 1000, 200

local kinds = check.kinds
local OPTIONS = { dotfiles = kinds.boolean, headers = kinds.table, index = true, list = kinds.boolean,
  precompressed = kinds.boolean, symlinks = kinds.boolean, types = kinds.table }

-- Compressed forms of a file, the shortest one first.
local FORMS <const> = { { name = "zstd", ending = ".zst" }, { name = "br", ending = ".br" },
  { name = "gzip", ending = ".gz" } }

---The options of http.files.
---@class runnel.http.FilesOptions
---@field index? string|false the file that is served for a folder; default "index.html"; false: none
---@field list? boolean whether a folder without that file is shown as a list of what is in it; default false
---@field headers? table<string, string|number|string[]> more headers, such as Cache-Control
---@field types? table<string, string> more content types, by the extension of the file's name in lower case
---@field dotfiles? boolean whether files and folders whose names begin with a dot are served; default false
---@field symlinks? boolean whether symbolic links may lead out of the folder; default false
---@field precompressed? boolean whether a client that accepts it gets FILE.zst, FILE.br or FILE.gz in place of FILE;
---default false

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

-- Opens a file in the folder by looking at each name of the path. Returns the file and its properties; nil if it does
-- not exist, or a link leads out of the folder; nil and the properties if it is a folder.
local function open_slowly(settings, path)
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
  if stat.type == "file" then
    return file_body.new(path, nil, d), { size = stat.size, sec = stat.mtime.sec, nsec = stat.mtime.nsec }
  end
  d:__close()
  return nil, stat.type == "directory" and stat or nil
end

-- The same, without waiting where the system has all that is needed in memory, and can keep a path within a folder.
-- With `reads`, a file that is not too long is then a string.
local function open(settings, path, reads)
  if not has_lib or current.world then return open_slowly(settings, path) end
  local file, size, sec, nsec = lib.open(settings.dir, path, settings.symlinks, reads)
  if file == nil then return open_slowly(settings, path) end
  if not size then return nil, file and { type = "directory" } or nil end
  if type(file) ~= "string" then file = file_body.new(path, file) end
  return file, { size = size, sec = sec, nsec = nsec }
end

-- ---- the response ----

local function with(headers, more)
  if more then
    for name, value in pairs(more) do headers_of.set(headers, name, value) end
  end
  return headers
end

local function type_of(settings, name)
  local ending = (name:match "[^/]%.([^./]+)$" or ""):lower()
  return settings.types and settings.types[ending] or content_types[ending] or "application/octet-stream"
end

-- What the headers of a file say of it; remembered until it changes.
local function describe(settings, known, path, stat)
  if known.tag and known.sec == stat.sec and known.nsec == stat.nsec and known.size == stat.size then return end
  known.sec, known.nsec, known.size = stat.sec, stat.nsec, stat.size
  known.tag = ('"%x-%x-%x%s"'):format(stat.sec, stat.nsec, stat.size, known.encoding and "-" .. known.encoding or "")
  known.date, known.type = conditions.date(stat.sec), type_of(settings, path)
end

-- The form of a file that the client likes best: `file`, or a compressed one, with its properties and what is known of
-- it. Only one file stays open.
local function choose(settings, known, path, file, stat, headers)
  local weights = conditions.encodings(headers["accept-encoding"])
  local best, likes, found, chosen = nil, weights.identity or 0, nil, nil
  for _, form in ipairs(FORMS) do
    local weight = weights[form.name] or weights["*"] or 0
    if weight > 0 and (weight > likes or not best and weight == likes) then
      local other, its = open(settings, path .. form.ending, false)
      if other and (its.sec < stat.sec or its.sec == stat.sec and its.nsec < stat.nsec) then
        other:close() -- it is of an earlier version of the file
      elseif other then
        if best then best:close() end
        best, likes, found = other, weight, its
        chosen = known[form.name] or { encoding = form.name }
        known[form.name] = chosen
      end
    end
  end
  if not best then return file, stat, known end
  file:close()
  return best, found, chosen
end

local function respond(req, settings, known, file, stat, is_plain)
  local size, tag = stat.size, known.tag
  local headers = with({ ["Content-Type"] = known.type, ETag = tag, ["Last-Modified"] = known.date,
    ["Accept-Ranges"] = "bytes", ["X-Content-Type-Options"] = "nosniff", ["Content-Encoding"] = known.encoding },
    settings.headers)
  if is_plain then
    headers["Content-Length"] = size
    return 200, headers, type(file) == "string" and file or file:part(0, size)
  end
  local asked_for = req.headers or {}
  local status = conditions.judge(asked_for, tag, stat.sec)
  if status then
    file:close()
    return status, headers
  elseif req.method == "HEAD" then
    file:close()
    local nothing = core.chan()
    nothing:close()
    headers["Content-Length"] = size
    return 200, headers, nothing
  end
  local first, last = conditions.range(asked_for, tag, stat.sec, size)
  if first == false then
    file:close()
    return 416, with({ ["Content-Range"] = "bytes */" .. size }, settings.headers), "there is no such range\n"
  end
  local length = first and last - first + 1 or size
  headers["Content-Length"] = length
  if first then headers["Content-Range"] = ("bytes %d-%d/%d"):format(first, last, size) end
  return first and 206 or 200, headers, file:part(first or 0, length)
end

local function absent() return 404, nil, "there is no such file\n" end

-- Redirects the client to the path with a slash at its end, so that links in the page are relative to the folder.
local function add_slash(req, path)
  local query = (req.target or ""):match "%?.*" or ""
  return 301, { Location = "./" .. (path:match "^.*/(.*)$" or path) .. "/" .. query }, "it is a folder\n"
end

local ESCAPED <const> = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }

local function escape(text) return (text:gsub('[&<>"]', ESCAPED)) end

local function percent(c) return ("%%%02X"):format(c:byte()) end

-- What a request for an entry of a folder would get: its name, with a slash for a folder; nil for nothing.
local function shown(settings, path, entry)
  local name, kind = entry.name, entry.type
  if name:sub(1, 1) == "." and not settings.dotfiles then return nil end
  if kind == "link" or kind == "unknown" then
    local file, stat = open_slowly(settings, path .. name)
    if file then file:close() end
    kind = file and "file" or stat and "directory"
  end
  return kind == "directory" and name .. "/" or kind == "file" and name or nil
end

-- The response with the list of a folder, in the order of the names.
local function list(settings, path)
  local lines = { path ~= "" and '<li><a href="../">../</a>\n' or "" }
  local entries <close> = require("runnel.uv.dir").list(settings.dir .. "/" .. path)
  local entry, err = entries:take()
  while entry do
    local name = shown(settings, path, entry)
    if name then
      lines[#lines + 1] = ('<li><a href="./%s">%s</a>\n'):format(name:gsub("[^%w._~/-]", percent), escape(name))
    end
    entry, err = entries:take()
  end
  if err then
    if is_absent(err) then return absent() end
    error(err, 0)
  end
  local title = escape("/" .. path)
  local page = ("<!DOCTYPE html>\n<meta charset=utf-8>\n<title>%s</title>\n<h1>%s</h1>\n<ul>\n%s</ul>\n"):format(title,
    title, table.concat(lines))
  return 200, with({ ["Content-Type"] = "text/html; charset=utf-8", ["X-Content-Type-Options"] = "nosniff" },
    settings.headers), page
end

-- What is remembered of a path: `as_sent` by the client, `path`, decoded, or false; and what `describe` adds. By its
-- target, too, if that has nothing else.
local function recall(settings, req)
  local target = not req.rest and req.target
  local known = settings.targets[target]
  if known then return known end
  local as_sent = asked(req)
  known = settings.known[as_sent]
  if not known then
    known = { as_sent = as_sent, path = below(settings, as_sent) or false }
    if #as_sent > LONG then return known end
    if settings.nknown == MANY then settings.known, settings.targets, settings.nknown = {}, {}, 0 end
    settings.known[as_sent], settings.nknown = known, settings.nknown + 1
  end
  if target == "/" .. as_sent then settings.targets[target] = known end
  return known
end

-- Whether a request is a GET without conditions and ranges. Other functions may have changed the headers.
local function is_plain(req)
  local lib_request = rawget(req, "headers") == nil and rawget(req, "core")
  return req.method == "GET" and lib_request and lib_request.is_plain and lib_request:is_plain()
end

local function handle(settings, req)
  if req.method ~= "GET" and req.method ~= "HEAD" then
    return 405, { Allow = "GET, HEAD" }, "files can only be read\n"
  end
  local known = recall(settings, req)
  local path, plain = known.path, not settings.precompressed and is_plain(req)
  if not path then return absent() end
  local file, stat = open(settings, path, plain)
  if not file and stat then
    if path ~= "" and path:sub(-1) ~= "/" then return add_slash(req, known.as_sent) end
    local folder = path
    if settings.index then
      path = path .. settings.index
      file, stat = open(settings, path, plain)
    end
    if not file and settings.list then return list(settings, folder) end
    if not settings.index then return absent() end
  end
  if not file then return absent() end
  if settings.precompressed then file, stat, known = choose(settings, known, path, file, stat, req.headers or {}) end
  describe(settings, known, path, stat)
  return respond(req, settings, known, file, stat, plain)
end

-- The program's headers, and Vary.
local function with_vary(headers)
  local copy, others = { Vary = "Accept-Encoding" }, nil
  for name, value in pairs(headers or {}) do
    if type(name) == "string" and name:lower() == "vary" then others = value else copy[name] = value end
  end
  if type(others) == "table" then others = table.concat(others, ", ") end
  if others then copy.Vary = others .. ", Accept-Encoding" end
  return copy
end

---Makes a function for http.serve, or for a route such as "/static/*path", that serves the files of a folder. It
---answers GET and HEAD, supports ranges, and answers 304 if the client already has the file.
---@param dir string the folder
---@param opts? runnel.http.FilesOptions
---@return fun(req: runnel.http.Request): integer, table?, any
function files.files(dir, opts)
  check.path(dir, "a folder", "files")
  check.options(opts, OPTIONS, "files")
  opts = opts or {}
  if opts.index and (type(opts.index) ~= "string" or opts.index:find "/") then
    raise("files: index: the name of a file, or false, expected, got " .. check.describe(opts.index))
  end
  if opts.index then check.no_zero(opts.index, "files: index") end
  loop.check "files"
  local stat, err = uv.fs_stat(dir)
  if not stat then raise("files: " .. loop.message(err, dir)) end
  if stat.type ~= "directory" then raise(("files: a folder expected, and %s is a %s"):format(dir, stat.type)) end
  local index = opts.index == nil and "index.html" or opts.index
  if dir:sub(1, 1) ~= "/" then dir = uv.cwd() .. "/" .. dir end
  local headers = opts.precompressed and with_vary(opts.headers) or opts.headers
  local settings = { dir = dir, index = index, headers = headers, precompressed = opts.precompressed,
    list = opts.list, types = opts.types, dotfiles = opts.dotfiles, symlinks = opts.symlinks, known = {},
    targets = {}, nknown = 0 }
  return function(req) return handle(settings, req) end
end

return files
