---Writes the records of states as spans, in the JSON form of OpenTelemetry's protocol (OTLP): each go block is a span,
---below that of the go block that started it, and so is each operation (runnel.internal.trace_context), such as a
---request, whose span is below that of the program that sent it.

local contexts = require "runnel.internal.trace_context"
local core = require "runnel.core"
local events = require "runnel.tracing.trace_events"

local quote, recorder, random = events.quote, core.internal.trace, core.internal.seed

-- As in csrc/tracing/trace_state.h.
local RUN, SPAWN, END, PUT, TAKE = 1, 3, 4, 6, 7

-- Kinds of spans.
local INTERNAL <const>, SERVER <const>, CONSUMER <const> = 1, 2, 5
local KINDS = { server = SERVER, consumer = CONSUMER }

---@class runnel.internal.RecordedOperation
---@field n integer the number of the first record after its beginning
---@field go integer the id of the go block in which it began; 0: the main program
---@field operation runnel.internal.Operation
---@field ns? integer when it began
---@field till? integer when the next one began in that go block

---A go block in the records.
---@class runnel.tracing.otlp.Block
---@field id integer
---@field label integer
---@field from integer when it was started, or first seen, in ns
---@field till integer when it ended, or was last seen
---@field failed boolean
---@field parent? integer the id of the go block that started it; 0: the main program; nil: the record is overwritten
---@field spawn? integer the number of that record
---@field run? integer the number of the record of its first run
---@field runs integer
---@field puts integer
---@field takes integer

-- ---- one state ----

---@class runnel.tracing.otlp.Writer
---@field file file*
---@field part runnel.internal.trace_part
---@field operations table<integer, runnel.internal.RecordedOperation[]> by go block, in their order
---@field offset integer what to add to a time, for ns since 1970
---@field trace string the id of the trace of all that belongs to no operation
---@field prefix string what the ids of the go blocks' spans begin with
---@field count integer spans so far
---@field blocks table<integer, runnel.tracing.otlp.Block>
---@field order integer[] their ids, in the order in which they come in the records
---@field known table<integer, runnel.internal.RecordedOperation|false> what a go block was started for
local Writer = {}
Writer.__index = Writer

local function block_of(self, id, label, ns)
  local block = self.blocks[id]
  if not block then
    block = { id = id, label = label, from = ns, till = ns, failed = false, runs = 0, puts = 0, takes = 0 }
    self.blocks[id] = block
    self.order[#self.order + 1] = id
  end
  if label ~= 0 then block.label = label end
  block.till = ns
  return block
end

local function note(self, n, kind, ns, go, seq, how, label)
  if kind == SPAWN then
    local child = block_of(self, seq, 0, ns)
    child.parent, child.spawn = go, n
  end
  if go == 0 then return end
  local block = block_of(self, go, label, ns)
  if kind == RUN then
    block.run, block.runs = block.run or n, block.runs + 1
  elseif kind == PUT then
    block.puts = block.puts + 1
  elseif kind == TAKE then
    block.takes = block.takes + 1
  elseif kind == END then
    block.ended, block.failed = true, how ~= 0
  end
end

-- Finds when operations began and ended: `times` has the time of each record that is next after a beginning.
local function time_operations(self, times)
  for go, list in pairs(self.operations) do
    local block = self.blocks[go]
    for i, one in ipairs(list) do
      one.ns = times[one.n] or block and block.from or self.part.now
      if i > 1 then list[i - 1].till = one.ns end
    end
    list[#list].till = block and block.ended and block.till or self.part.now
  end
end

local function survey(self)
  local times = {}
  for _, list in pairs(self.operations) do
    for _, one in ipairs(list) do times[one.n] = false end
  end
  local found = events.survey(self.part)
  events.each(self.part, found, function(n, kind, ns, go, _, seq, how, label)
    if times[n] == false then times[n] = ns end
    note(self, n, kind, ns, go, seq, how, label)
  end)
  self.began = found.began or self.part.now
  for _, block in pairs(self.blocks) do
    if not block.ended then block.till = self.part.now end
  end
  time_operations(self, times)
end

-- The operation that a go block works for when record n is written; nil: none.
local function operation_at(self, go, n)
  local list = self.operations[go] or {}
  for i = #list, 1, -1 do
    if list[i].n <= n then return list[i] end
  end
  if self.known[go] == nil then
    self.known[go] = false -- ends a circle in damaged records
    local block = self.blocks[go]
    self.known[go] = block and block.parent and operation_at(self, block.parent, block.spawn) or false
  end
  return self.known[go] or nil
end

local function id_of(self, go) return ("%s%08x"):format(self.prefix, go & 0xFFFFFFFF) end

local function attribute(key, n) return ('{"key":"%s","value":{"intValue":"%d"}}'):format(key, n) end

-- Writes a span; times in ns of the records.
local function span(self, fields)
  local parent = fields.parent and (',"parentSpanId":"%s"'):format(fields.parent) or ""
  self.file:write(self.count == 0 and "\n" or ",\n",
    ('{"traceId":"%s","spanId":"%s"%s,"name":%s,"kind":%d,"startTimeUnixNano":"%d","endTimeUnixNano":"%d"'):format(
      fields.trace, fields.span, parent, quote(fields.name), fields.kind, fields.from + self.offset,
      math.max(fields.from, fields.till) + self.offset),
    fields.attributes and ',"attributes":[' .. table.concat(fields.attributes, ",") .. "]" or "",
    ',"status":{', fields.failed and '"code":2' or "", "}}")
  self.count = self.count + 1
end

-- The operation that began when the go block did, as a request does.
local function began_with(self, go)
  local block, first = self.blocks[go], (self.operations[go] or {})[1]
  return first and block and block.run and first.n <= block.run + 1 and first or nil
end

-- The trace of a go block's span, and the span above it.
local function place_of(self, block)
  local own = began_with(self, block.id)
  if own then return own.operation.trace, own.operation.span end
  if not block.parent then return self.trace, nil end
  local given = operation_at(self, block.parent, block.spawn)
  -- A go block that has existed for longer than its operation is in another trace.
  local is_above = given and given.go == block.parent and given ~= began_with(self, block.parent)
  return given and given.operation.trace or self.trace,
    is_above and given.operation.span or id_of(self, block.parent)
end

local function write_block(self, block)
  local trace, parent = place_of(self, block)
  span(self, {
    trace = trace, span = id_of(self, block.id), parent = parent, name = self.part.label(block.label), kind = INTERNAL,
    from = block.from, till = block.till, failed = block.failed,
    attributes = { attribute("runnel.go", block.id), attribute("runnel.runs", block.runs),
      attribute("runnel.puts", block.puts), attribute("runnel.takes", block.takes) },
  })
end

local function write_operation(self, one)
  local operation, block = one.operation, self.blocks[one.go]
  span(self, {
    trace = operation.trace, span = operation.span, parent = operation.parent, name = operation.name or "operation",
    kind = KINDS[operation.kind] or INTERNAL, from = one.ns, till = one.till,
    failed = block ~= nil and block.failed and one.till == block.till,
  })
end

-- Writes the spans of the state. That of the main program is from the first record to the last.
local function write_part(self)
  survey(self)
  self.file:write('{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":', quote(self.part.name),
    '}}]},"scopeSpans":[{"scope":{"name":"runnel"},"spans":[')
  span(self, { trace = self.trace, span = id_of(self, 0), name = self.part.name, kind = INTERNAL, from = self.began,
    till = self.part.now })
  for _, list in pairs(self.operations) do
    for _, one in ipairs(list) do write_operation(self, one) end
  end
  for _, id in ipairs(self.order) do write_block(self, self.blocks[id]) end
  self.file:write "\n]}]}"
end

-- ---- all states ----

-- The operations that were recorded, by go block.
local function by_go(part, operations)
  local all = {}
  for _, one in ipairs(operations) do
    if one.n >= part.first and one.n <= part.last + 1 then
      local list = all[one.go] or {}
      all[one.go], list[#list + 1] = list, { n = one.n, go = one.go, operation = one.operation }
    end
  end
  return all
end

local otlp = {}

---Writes the records of states to an open file. Returns how many records there were, and how many older ones were
---overwritten.
---@param file file*
---@param parts runnel.internal.trace_part[] the first is that of this state
---@param operations runnel.internal.RecordedOperation[] of this state
---@return integer records
---@return integer overwritten
function otlp.write(file, parts, operations)
  local _, _, _, now = recorder.ring()
  local offset = recorder.unix() - (now or 0)
  local trace = contexts.new_id(4)
  local records, overwritten = 0, 0
  file:setvbuf("full", 1 << 16)
  file:write '{"resourceSpans":['
  for i, part in ipairs(parts) do
    if i > 1 then file:write ",\n" end
    write_part(setmetatable({
      file = file, part = part, operations = by_go(part, i == 1 and operations or {}), offset = offset, trace = trace,
      prefix = ("%08x"):format(random() | 1), count = 0, blocks = {}, order = {}, known = {},
    }, Writer))
    records, overwritten = records + part.last - part.first + 1, overwritten + part.overwritten
  end
  file:write "]}\n"
  return records, overwritten
end

return otlp
