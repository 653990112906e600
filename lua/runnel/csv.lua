---CSV (RFC 4180), strictly, in pieces.
---
---    local csv = require "runnel.csv"
---    for row in csv.rows(uv.read "people.csv", { header = true }) do print(row.name) end
---    print(csv.encode { { "name", "motto" }, { "Ann", 'says "no", often' } })
---
---csrc/csv splits the text.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local decimal = require "runnel.internal.decimal"
local sign = require "runnel.internal.sign"
local raise = core.internal.raise

local byte, concat, find, sub = string.byte, table.concat, string.find, string.sub
local scan = core.internal.csv_scan

-- How many bytes a record may have, if the program does not say: as those of a line.
local MAX = 1024 * 1024

local BOM = "\xEF\xBB\xBF"

---@class runnel.csv
local csv = {}

-- ---- options ----

local function check_separator(value, what)
  if type(value) == "string" and #value == 1 and not find(value, '["\r\n]') then return end
  raise(("%s: one byte expected, and no quote or newline, got %s"):format(what, check.describe(value)))
end

local ROWS = {
  separator = check_separator, header = check.kinds.boolean, ragged = check.kinds.boolean, max = check.kinds.integer(1),
}

---@class runnel.CsvOptions
---@field separator? string one byte between the fields, default ","
---@field header? boolean the first record has names; the others are tables with these keys
---@field ragged? boolean records may have different numbers of fields
---@field max? integer how many bytes a record may have, default 1 MB

-- ---- reading ----

---@class runnel.internal.Csv
---@field next_piece fun(): string?, any
---@field separator string
---@field header boolean|string[]
---@field ragged boolean
---@field max integer
---@field text string what was not split yet
---@field from integer where that begins
---@field line integer the line there
---@field fields integer of the first record
---@field is_whole boolean there is nothing behind the text
---@field is_begun boolean the first text is there
---@field in_quotes boolean the text ends within the quotes of a record that is not complete
---@field mistake string|nil what is wrong behind the rows
local Csv = {}
Csv.__index = Csv

-- Whether a record may be complete in the next piece of its text, or wrong; and if not, whether the piece ends within
-- quotes. `last`: the byte before it, if any.
local function may_end(piece, in_quotes, separator, last)
  local at = 1
  while true do
    local to = find(piece, in_quotes and '"' or '["\n]', at)
    if not to then return false, in_quotes end
    if byte(piece, to) == 10 then return true end
    if not in_quotes then
      local before = to > 1 and byte(piece, to - 1) or last
      if before and before ~= 34 and before ~= separator then return true end -- a quote within a field
    end
    in_quotes, at = not in_quotes, to + 1
  end
end

-- Gets more text: until a record may be complete, or to the end. So a record in many pieces is not scanned with each.
local function read_on(self)
  local parts, n, size = { sub(self.text, self.from) }, 1, #self.text - self.from + 1
  local in_quotes, separator, last, is_enough = self.in_quotes, byte(self.separator), byte(parts[1], -1), nil
  repeat
    local piece, err = self.next_piece()
    if piece == nil and err ~= nil then error(err, 0) end
    if piece == nil then
      self.is_whole = true
    elseif type(piece) ~= "string" then
      error("csv: pieces of text expected, got " .. check.article(piece), 0)
    else
      n = n + 1
      parts[n], size = piece, size + #piece
      is_enough, in_quotes = may_end(piece, in_quotes, separator, last)
      last = byte(piece, -1) or last
    end
  until piece == nil or is_enough or size > self.max + 1
  self.text, self.from = concat(parts, "", 1, n), 1
  if not self.is_begun then
    self.is_begun = true
    if sub(self.text, 1, #BOM) == BOM then self.from = #BOM + 1 end
  end
end

-- The mistake is raised again each time.
local function fail(self, mistake, line)
  self.mistake, self.line = mistake, line or self.line
  error(("csv: line %d: %s"):format(self.line, mistake), 0)
end

-- The next records, as lists, each with how many lines are before it; nil at the end. And the line where they begin.
local function next_rows(self)
  if self.mistake then fail(self, self.mistake) end
  while true do
    if not self.is_begun then read_on(self) end
    local line = self.line
    local rows, from, lines, fields, in_quotes, mistake, further = scan(self.text, self.from, self.separator,
      self.is_whole, self.fields, self.ragged, self.max)
    self.from, self.fields, self.line, self.in_quotes = from, fields, line + lines, in_quotes
    if mistake then self.mistake, self.line = mistake, self.line + further end
    if rows[1] then return rows, line end
    if mistake then fail(self, mistake) end
    if self.is_whole and from > #self.text then return nil end
    if #self.text - from > self.max then -- one byte more may be the "\r" of its end
      fail(self, ("a record is longer than %d bytes; the option max allows longer ones"):format(self.max))
    end
    if not self.is_whole then read_on(self) end
  end
end

local function read_header(self, names, line)
  local seen = {}
  for _, name in ipairs(names) do
    if seen[name] then fail(self, ("the header has %q twice"):format(name), line) end
    seen[name] = true
  end
  self.header = names
end

local function named(names, row)
  local record = {}
  for i = 1, #row do
    local name = names[i]
    if name then record[name] = row[i] end
  end
  return record
end

local function new(next_piece, opts)
  opts = opts or {}
  return setmetatable({
    next_piece = next_piece, separator = opts.separator or ",", header = opts.header or false,
    ragged = opts.ragged or false, max = opts.max or MAX, text = "", from = 1, line = 1, fields = 0, is_whole = false,
    is_begun = false, in_quotes = false, mistake = nil,
  }, Csv)
end

local function iterator(self)
  local rows, i, line = {}, 1, 0
  return function()
    local row = rows[i]
    while row == nil do
      local more, begin = next_rows(self)
      if not more then return nil end
      local is_header = self.header == true
      if is_header then read_header(self, more[1], begin + more[2]) end
      rows, i, line = more, is_header and 3 or 1, begin
      row = rows[i]
    end
    i = i + 2
    return self.header and named(self.header, row) or row, line + rows[i - 1]
  end
end

local function pieces_of(source)
  if type(source) == "string" then
    local is_given = false
    return function()
      if is_given then return nil end
      is_given = true
      return source
    end
  end
  if core.is_chan(source) then return function() return source:take() end end
  return source
end

---An iterator over the records of a text, as lists of strings; or, with `header`, as tables by name; and the number of
---the line where each begins. Raises at the first mistake, with the number of its line, and an error with which the
---channel closes.
---@param source string|runnel.Channel<string>|fun(): string? a text, or its pieces, which may end anywhere
---@param opts? runnel.CsvOptions
---@return fun(): table<any, string>?, integer?
function csv.rows(source, opts)
  sign.dot(source, "csv", "rows")
  if type(source) ~= "string" and not core.is_chan(source) then check.callable(source, "csv.rows: source") end
  check.options(opts, ROWS, "csv.rows")
  return iterator(new(pieces_of(source), opts))
end

---All records of a text.
---@param text string
---@param opts? runnel.CsvOptions
---@return table<any, string>[]? rows nil if the text is wrong
---@return string? err with the line
function csv.decode(text, opts)
  sign.dot(text, "csv", "decode")
  check.string(text, "a text", "csv.decode")
  check.options(opts, ROWS, "csv.decode")
  local list, n = {}, 0
  local ok, err = pcall(function()
    for row in iterator(new(pieces_of(text), opts)) do
      n = n + 1
      list[n] = row
    end
  end)
  if not ok then return nil, err end
  return list
end

-- ---- writing ----

local WRITES = { separator = check_separator, names = check.kinds.table }

-- A field as it is written. `alone`: the record has no other one, so that without quotes it would be an empty line.
local function field(value, separator, alone)
  local kind = math.type(value)
  if kind == "float" and not (value == value and value - value == 0) then return nil end
  if kind then return decimal.exact(value) end
  if type(value) == "boolean" then return tostring(value) end
  if type(value) ~= "string" then return nil end
  if value == "" then return alone and '""' or "" end
  local first, last = byte(value, 1), byte(value, -1)
  if find(value, '["\r\n]') or find(value, separator, 1, true) or first == 32 or last == 32 or first == 0xEF then
    return '"' .. value:gsub('"', '""') .. '"'
  end
  return value
end

local function line_of(row, names, separator, n, what)
  local fields = {}
  local count = names and #names or #row
  for i = 1, count do
    local value = row[names and names[i] or i]
    if value == nil then value = "" end
    local text = field(value, separator, count == 1)
    if not text then
      raise(("%s: row %d, field %s: a string, a finite number or a boolean expected, got %s")
        :format(what, n, tostring(names and names[i] or i), check.article(value)))
    end
    fields[i] = text
  end
  return concat(fields, separator)
end

---Records as text. Each ends with "\r\n". Fields with quotes, separators or newlines get quotes.
---@param rows table<any, string|number|boolean>[] lists; or tables by name, for `names`
---@param opts? { separator?: string, names?: string[] } `names`: which are the first record, and the keys of
---the others
---@return string text
function csv.encode(rows, opts)
  sign.dot(rows, "csv", "encode")
  check.table(rows, "csv.encode: rows")
  check.options(opts, WRITES, "csv.encode")
  local separator, names = opts and opts.separator or ",", opts and opts.names
  local lines, n = {}, 0
  if names then
    n = 1
    lines[1] = line_of(names, nil, separator, 0, "csv.encode")
  end
  for i, row in ipairs(rows) do
    if type(row) ~= "table" then
      raise(("csv.encode: row %d: a table expected, got %s"):format(i, check.article(row)))
    end
    n = n + 1
    lines[n] = line_of(row, names, separator, i, "csv.encode")
  end
  lines[n + 1] = ""
  return concat(lines, "\r\n")
end

return csv
