---Starting a run: for the program, or for a run, whose step that is.

local core = require "runnel.core"
local table_of = require "runnel.store.runs.run_table"
local values = require "runnel.store.values"

local internal = core.internal

local run_start = {}

-- A value of the file as a short text.
local function shown(form, value)
  if form == "nil" then return "nil" end
  local text = form:find "json" and tostring(value) or ("%q"):format(tostring(value))
  return #text <= 200 and text or text:sub(1, 200) .. "..."
end

-- Whether two values are the same; nan is the same as nan.
local function is_equal(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b or a ~= a and b ~= b end
  for key, value in pairs(a) do
    if not is_equal(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

---The argument of a run, as the file keeps it.
---@param argument any
---@return table? argument, string? err for an argument that cannot be kept
function run_start.argument(argument)
  local form, data, entry = values.encode(argument, "the argument")
  if not form then return nil, data end
  return { form = form, data = data, entry = entry }
end

---Starts a run, unless there is one with that id: then it finds that one, which must have the same argument. Parks.
---@param ref runnel.store.RunRef
---@param argument table of run_start.argument
---@param priority integer 0 to 9
---@param parent? runnel.store.RunSteps the run that starts it
---@param of? table the step of `parent`
---@return boolean? is_own this call has started it, or `parent` has, earlier; nil: it could not be started
---@return string? err
function run_start.start(ref, argument, priority, parent, of)
  local store, stream, form, data = ref.store, table_of.stream(ref.name), argument.form, argument.data
  local rows, changes = (parent or store):attempt("last", table_of.start(ref, stream, form, data, priority, parent))
  if not rows then return nil, changes end
  if changes > 0 then
    store:ring(stream)
    return true
  end
  local row = rows[1]
  if not row and parent then
    parent:look_for_cancel()
    if parent.cancels then parent:raise_cancellation(of) end
  end
  if not row then return nil, ("the stream %q is missing"):format(stream) end
  if not is_equal(table_of.value(row.form, row.value), values.of(argument.entry)) then
    internal.raise(("start: there is a run %q of %s with another argument: it has %s, and this call has %s")
      :format(tostring(ref.id), ref.name, shown(row.form, row.value), shown(form, values.bytes(data))))
  end
  return parent and row.parent == parent.work.name and row.parent_id == values.bytes(parent.id) or false
end

---Starts a run as a step of the run that calls this. Parks.
---@param parent runnel.store.RunSteps
---@param ref runnel.store.RunRef
---@param argument table of run_start.argument
---@param priority integer
---@return boolean is_own `parent` has started it
function run_start.step(parent, ref, argument, priority)
  return parent:value("start", { ref.name, ref.id }, function(doing)
    local is_own, err = run_start.start(ref, argument, priority, parent, doing.of)
    if is_own == nil then error(err, 0) end
    return is_own
  end)
end

return run_start
