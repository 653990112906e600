-- A busted output handler. It prints the specs that fail and those that are pending, and nothing about the others. It
-- reports progress to two programs:
-- - scripts/specs.lua reads the file named by SPEC_RESULTS. Its lines are "begin NAME" when a spec begins, "count
--   SUCCESSES FAILURES ERRORS PENDING" after each spec, and "end" when all of them have ended.
-- - scripts/watchdog ends a spec that takes more than SPEC_LIMIT seconds; 0 is no limit. It needs bash: without bash, a
--   spec that hangs is never ended.
local busted = require "busted"
local pretty = require "pl.pretty"

local limit = tonumber(os.getenv "SPEC_LIMIT" or 120)
local watchdog
if limit > 0 and os.execute "command -v bash >/dev/null 2>&1" then
  watchdog = io.popen(("exec scripts/watchdog %d"):format(limit), "w")
  watchdog:setvbuf "line"
end
local results = assert(io.open(os.getenv "SPEC_RESULTS" or "/dev/null", "w"))
results:setvbuf "line"

local function place(trace)
  return trace and trace.short_src and ("%s:%d: "):format(trace.short_src, trace.currentline) or ""
end

local function text(message)
  if message == nil then return "" end
  message = type(message) == "string" and message or pretty.write(message)
  return "\n  " .. message:gsub("\n+$", ""):gsub("\n", "\n  ")
end

return function(options)
  local handler = require "busted.outputHandlers.base"()
  local shown, shown_pending = { failures = 0, errors = 0 }, 0

  local function show(list, word)
    for i = shown[list] + 1, #handler[list] do
      local entry = handler[list][i]
      io.write(word, place(entry.element.trace), entry.name, text(entry.message))
      if options.verbose and entry.trace and entry.trace.traceback then io.write(text(entry.trace.traceback)) end
      io.write "\n"
    end
    shown[list] = #handler[list]
  end

  -- Runs after the base handler's subscribers, which count.
  local function update()
    show("failures", "Failure: ")
    show("errors", "Error: ")
    for i = shown_pending + 1, #handler.pendings do -- each on one line, for scripts
      local entry = handler.pendings[i]
      local why = tostring(entry.message or ""):gsub("^%S+:%d+: ", ""):gsub("\n", " ")
      io.write("Pending: ", place(entry.element.trace), entry.name, why ~= "" and ": " or "", why, "\n")
    end
    shown_pending = #handler.pendings
    io.flush()
    results:write(("count %d %d %d %d\n"):format(handler.successesCount, handler.failuresCount, handler.errorsCount,
      handler.pendingsCount))
    return nil, true
  end

  busted.subscribe({ "test", "start" }, function(element)
    local name = place(element.trace) .. handler.getFullName(element):gsub("\n", " ")
    results:write("begin ", name, "\n")
    if watchdog then watchdog:write(name, "\n") end
    return nil, true -- other subscribers go on
  end)
  busted.subscribe({ "test", "end" }, update)
  busted.subscribe({ "failure" }, update)
  busted.subscribe({ "error" }, update)
  busted.subscribe({ "exit" }, function()
    update()
    results:write "end\n"
    if watchdog then watchdog:close() end
    return nil, true
  end)
  return handler
end
