---req:form: the fields of a form, of both kinds that browsers send. Files go to a function as they come.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local multipart = require "runnel.http.form.multipart_reader"
local refusal = require "runnel.http.refusal"
local save = require "runnel.http.save"
local sign = require "runnel.internal.sign"

local forms = {}

local MAX <const>, MAX_FIELDS <const> = 1048576, 1000

local kinds = check.kinds
local OPTIONS = { file = kinds.callable, max = kinds.integer(0), max_fields = kinds.integer(1),
  max_file = kinds.integer(0) }

---The options of req:form.
---@class runnel.http.FormOptions
---@field file? fun(part: runnel.http.Part): any, any is called with each file; returns the value of the field, or nil
---and an error, which refuses the form. Without it, a form with a file is refused
---@field max? integer bytes of all names and values, without files; default 1048576
---@field max_fields? integer how many fields and files; default 1000
---@field max_file? integer bytes of each file; default: no limit but that of the server

---A form.
---@class runnel.http.Form
---@field fields table<string, any> the fields; of several with one name, the first
---@field lists table<string, any[]> all values of each field

---A file of a form, while it comes.
---@class runnel.http.Part
---@field name string of the field
---@field filename string the last part of the path that the client has sent; "" if it is none
---@field type string the content type, as the client says
---@field headers table<string, string> by name in lower case
---@field private reader runnel.http.MultipartReader
---@field private left integer bytes that may still come
---@field private is_over? boolean the function that got it has returned
local Part = { __name = "part of a form", __sign = "part" }
Part.__index = Part

---The next piece; nil at the end. Parks.
---@return string?
function Part:read()
  sign.own(self, "part", "read")
  if self.is_over then return nil end
  local piece = self.reader:piece()
  self.left = self.left - (piece and #piece or 0)
  if self.left < 0 then error(refusal.new(413, "the file of the field %q is too long", self.name), 0) end
  return piece
end

---Writes the file to a path, where it is once it is complete. Parks.
---@param path string
---@return integer? bytes nil if it cannot be written
---@return string? err the reason
function Part:save(path)
  sign.own(self, "part", "save")
  check.path(path, "a path", "save")
  local bytes, err = save.whole(path, function() return self:read() end)
  return bytes, err
end

-- ---- reading ----

local function refuse(status, format, ...) error(refusal.new(status, format, ...), 0) end

-- Adds a field, within the limits.
local function add(self, name, value)
  local list = self.form.lists[name]
  if list then
    list[#list + 1] = value
  else
    self.form.lists[name], self.form.fields[name] = { value }, value
  end
end

local function count_field(self)
  self.count = self.count + 1
  if self.count > self.max_fields then refuse(413, "the form has more than %d fields", self.max_fields) end
end

local function count_bytes(self, n)
  self.bytes = self.bytes + n
  if self.bytes > self.max then refuse(413, "the fields of the form have more than %d bytes", self.max) end
end

local function read_encoded(self, read, fields)
  local pieces = {}
  for piece in read do
    count_bytes(self, #piece)
    pieces[#pieces + 1] = piece
  end
  for name, value in fields(table.concat(pieces)) do
    count_field(self)
    add(self, name, value)
  end
end

local function read_field(self, reader, name)
  local pieces = {}
  count_bytes(self, #name)
  for piece in reader.piece, reader do
    count_bytes(self, #piece)
    pieces[#pieces + 1] = piece
  end
  add(self, name, table.concat(pieces))
end

local function read_file(self, reader, name, filename, headers)
  if not self.file then refuse(400, "the form has a file, and this page takes none: the field %q", name) end
  local base = filename:match "^.*[/\\](.*)$" or filename
  if base == "." or base == ".." or base:find "[%c]" then base = "" end
  count_bytes(self, #name + #filename)
  local part = setmetatable({ name = name, filename = base, headers = headers, reader = reader, left = self.max_file,
    type = headers["content-type"] or "application/octet-stream" }, Part)
  local value, err = self.file(part)
  part.is_over = true
  if value == nil and err ~= nil then refuse(500, "%s", core.internal.error_text(err)) end
  add(self, name, value == nil or value)
end

local PLAIN = { ["7bit"] = true, ["8bit"] = true, binary = true }

local function read_parts(self, read, content_type)
  local boundary = multipart.boundary(content_type)
  if not boundary then refuse(400, "the form has no valid boundary") end
  local reader = multipart.new(read, boundary --[[@as string]])
  reader:begin()
  for headers in reader.next_part, reader do
    count_field(self)
    local kind, parameters = multipart.parameters(headers["content-disposition"] or "")
    local name = parameters.name
    if kind ~= "form-data" or not name then refuse(400, "a part of the form has no name") end
    if not PLAIN[(headers["content-transfer-encoding"] or "binary"):lower()] then
      refuse(400, "the part %q of the form has an encoding", name)
    end
    if parameters.filename then
      read_file(self, reader, name, parameters.filename, headers)
    else
      read_field(self, reader, name)
    end
  end
end

-- The kind of a form.
local function kind_of(req) return (req.headers["content-type"] or ""):match "^%s*([^;%s]*)":lower() end

local READERS = {
  ["application/x-www-form-urlencoded"] = function(self, read, _, fields) read_encoded(self, read, fields) end,
  ["multipart/form-data"] = read_parts,
}

local function finish(self, ok, ...)
  if ok then return self.form end
  local err, trace = ...
  if not refusal.is(err) then guard.raise(err, trace) end
  return nil, err.text, err.status
end

---@param req runnel.http.Request
---@param opts? runnel.http.FormOptions
---@param request { reader: function, fields: function } runnel.http.request
---@return runnel.http.Form? form
---@return string? err
---@return integer? status
function forms.read(req, opts, request)
  check.options(opts, OPTIONS, "form")
  opts = opts or {}
  local read_form = READERS[kind_of(req)]
  if not read_form then return nil, "the request is no form", 415 end
  local next_piece = request.reader(req, "form")
  local function read()
    local piece, why = next_piece()
    if why ~= nil then error(why, 0) end
    return piece
  end
  local self = { form = { fields = {}, lists = {} }, count = 0, bytes = 0, file = opts.file, max = opts.max or MAX,
    max_fields = opts.max_fields or MAX_FIELDS, max_file = opts.max_file or math.maxinteger }
  return finish(self, guard.try(read_form, self, read, req.headers["content-type"], request.fields))
end

return forms
