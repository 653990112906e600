---The commands of a prompt. They begin with a colon, except help, exit and quit.

local rn = require "runnel"
local core = require "runnel.core"
local graph = require "runnel.tracing.graph"
local guard = require "runnel.internal.guard"
local hint = require "runnel.prompt.hint"
local living = require "runnel.flow.flow_living"
local doc = require "runnel.prompt.doc"
local recorder = require "runnel.profile.profile_recorder"
local pretty = require "runnel.prompt.pretty"
local views = require "runnel.prompt.views"
local width = require "runnel.internal.width"

---The interface of a prompt for its commands.
---@class runnel.prompt.Interface
---@field session runnel.prompt.Session
---@field style runnel.prompt.Style
---@field print fun(text: string)
---@field complain fun(text: string) prints an error
---@field call fun(f: function): boolean, ... calls f. Returns true and its results, or false and the text to print
---@field size fun(): integer, integer rows and columns
---@field paint fun(lines: string[]|nil) shows lines instead of those shown before; nil: keeps them on the screen
---@field key fun(ms: integer): any waits for a key. Returns nil if none was pressed in that time, false at the end of
---the input
---@field channels fun(): table all channels
---@field files? fun(directory: string): string[]? the names in it
---@field keys? string the description of the keys, for :help
---@field flow? runnel.Flow the one that :flow has shown last
---@field trace fun(ch: any, f: function|nil) from now on calls f(v, waits) for values put on the channel; f nil: stops
---@field untrace? fun() ends what `trace` has begun

local LIST = {
  { "ps", "", "list the go blocks: what each waits for, where, and for how long; and the pending timers" },
  { "chans", "", "list the channels: their values, waiting puts and takes, puts and takes so far" },
  { "watch", "[ms]", "show both, every 500 ms or at the given interval, until a key is pressed: the newest first, with "
    .. "one line and a count for those that are alike" },
  { "trace", "F [ms]", "record what go blocks and channels do, for the given ms or until a key is pressed, and "
    .. "write it to a file, ending in .json, for Perfetto's viewer or speedscope" },
  { "profile", "[ms] [F]", "measure for 5000 ms, or the given number, where the time goes: what runs, and what go "
    .. "blocks wait for; F: a file for all of it, ending in .html (a flame graph), .folded or .json (speedscope)" },
  { "leaks", "", "collect garbage, and list the go blocks that were collected while they waited" },
  { "graph", "[form]", "show who puts on which channel and who takes from it, counted from the first :graph on, and "
    .. "what is the bottleneck: in boxes, or in the form dot or mermaid" },
  { "flow", "[f]", "show what each stage of a flow does; without f, of the flow that was shown or started last" },
  { "pause", "[stage]", "pause a stage of that flow, or all" },
  { "resume", "[stage]", "end the pause of a stage, or of all: values that were held are tried again" },
  { "tap", "ch", "show the values that are put on a channel, or that a stage of that flow puts (STAGE or "
    .. "STAGE.OUTPUT), at most ten a second, until a key is pressed" },
  { "queues", "[conn]", "show the queues of a NATS server or a store, and who works on them: of a connection or a "
    .. "store, of a URL, or of all that the program has open" },
  { "runs", "[run]", "show the durable runs of the stores that the program has open: how many there are in each "
    .. "state; or those of a name, in a state, or of a name in a state; or one, by its id, with its steps and their "
    .. "times" },
  { "bt", "ID", "show the traceback of a go block" },
  { "cancel", "ID", "cancel a go block" },
  { "time", "expr", "evaluate an expression and print how long it took" },
  { "load", "file", "run a file" },
  { "save", "file", "write the chunks of this session to a file, as a script; :save flow [file] writes the flow of "
    .. ":flow, as it is now" },
  { "doc", "name", "show what the manual says about a function or method, Lua's own included, or the sections that "
    .. "answer a question, as in :doc close a channel; also NAME?" },
  { "set", "[name value]", "set how values are printed: depth (of tables), width (of lines; 0: the terminal's)" },
  { "help", "", "list the commands" },
  { "quit", "", "end the session, as do :q, quit, exit and Ctrl-D" },
}

local ALIASES = { q = "quit", exit = "quit", h = "help" }
local WORDS = { help = "help", exit = "quit", quit = "quit" }
for word, name in pairs { help = "help", exit = "quit", quit = "quit" } do WORDS[word .. "()"] = name end

local commands = {}

---@class runnel.prompt.Commands
---@field ui runnel.prompt.Interface
local Commands = {}
Commands.__index = Commands

local function fail(message, ...) error(message:format(...), 0) end

local function check_nothing(rest, name)
  if rest ~= "" then fail(":%s takes no argument", name) end
end

-- The go block with the id that was typed.
local function find_block(rest, name)
  local id = math.tointeger(tonumber(rest))
  if not id then fail(":%s needs the id of a go block, which :ps shows", name) end
  for _, entry in ipairs(rn.ps()) do
    if entry.id == id then return entry end
  end
  fail("there is no go block #%d; :ps lists the go blocks", id)
end

---Runs a command with the rest of its line. An error is shown without a traceback.
---@type table<string, fun(ui: runnel.prompt.Interface, rest: string): boolean?>
local command = {}

local function print_lines(ui, lines)
  for _, line in ipairs(lines) do ui.print(line) end
end

local function columns(ui) return (select(2, ui.size())) end

-- Calls a function that was typed. Returns true and its results; or shows its error and returns false.
local function call(ui, f)
  local results = table.pack(ui.call(f))
  if not results[1] then
    ui.complain(results[2])
    return false
  end
  return table.unpack(results, 1, results.n)
end

-- Evaluates an expression.
local function evaluate(ui, rest, name)
  local f, err
  if rest ~= "" then f, err = ui.session:expression(rest) end
  if not f then fail(":%s needs an expression%s", name, err and ": " .. err or "") end
  return call(ui, f)
end

-- Values as text. That may run code of the program's, such as __tostring. nil after an error, which is shown.
local function text_of(ui, style, ...)
  local values = table.pack(...)
  local ok, text = call(ui, function() return pretty.values(style, table.unpack(values, 1, values.n)) end)
  return ok and text or nil
end

-- The same for the message that something else was expected.
local function got(ui, value) return text_of(ui, pretty.style(60), value) or "a " .. type(value) end

function command.ps(ui, rest)
  check_nothing(rest, "ps")
  local lines, timers = views.go_blocks(columns(ui)), views.timers(columns(ui))
  if #lines == 1 then lines = { "there are no go blocks" } end
  print_lines(ui, lines)
  if #timers > 1 then print_lines(ui, timers) end
end

function command.chans(ui, rest)
  check_nothing(rest, "chans")
  local lines = views.channels(ui.channels(), columns(ui))
  if #lines == 1 then return ui.print "there are no channels" end
  print_lines(ui, lines)
end

function command.watch(ui, rest)
  local ms = rest == "" and 500 or tonumber(rest)
  if not ms or not (ms >= 10 and ms < math.huge) then fail ":watch needs a number of ms, from 10" end
  repeat
    local rows, most = ui.size()
    local room, channels = math.max(rows - 6, 6), ui.channels()
    local of_channels = views.channels(channels, most - 1, room // 2)
    local blocks, count = views.go_blocks(most - 1, room - #of_channels)
    local heading = ("go blocks: %d, channels: %d; any key ends this"):format(count, #channels)
    local lines = { width.cut(heading, most - 1), "" }
    table.move(blocks, 1, #blocks, #lines + 1, lines)
    lines[#lines + 1] = ""
    table.move(of_channels, 1, #of_channels, #lines + 1, lines)
    ui.paint(lines)
    local key = ui.key(ms)
  until key ~= nil
  ui.paint(nil)
end

-- The channel with a name or number, as in "jobs" or "#7".
local function named_channel(ui, name)
  for _, ch in ipairs(ui.channels()) do
    local stats = ch:stats()
    if stats.name == name or "#" .. stats.id == name then return ch end
  end
end

-- The channel that is the value of an expression, or has a name or number.
local function find_channel(ui, rest)
  if rest:find "^#%d+$" then
    return named_channel(ui, rest) or fail("there is no channel %s; :chans lists the channels", rest)
  end
  local ok, ch = evaluate(ui, rest, "tap")
  if not ok then return nil end
  if ch == nil then ch = named_channel(ui, rest) end
  if not rn.is_chan(ch) then fail(":tap needs a channel or a stage, got %s", got(ui, ch)) end
  return ch
end

local function tap_channel(ui, rest)
  local ch = find_channel(ui, rest)
  if not ch then return end
  local shown, last = 0, nil
  local before = ch:stats()
  -- Shows at most ten values a second; more are unreadable.
  ui.trace(ch, function(value, is_waiting)
    local now = rn.now()
    if last and now - last < 100 then return end
    last = now
    shown = shown + 1
    local waits = is_waiting and "  (waits)" or ""
    ui.print(("%s <- %s%s"):format(ch:name() or "#" .. before.id, pretty.value(value, ui.style), waits))
  end)
  ui.print "values as they are put, at most ten a second; any key ends this"
  local closed, key
  repeat
    key = ui.key(200)
    closed = ch:closed()
  until key ~= nil or closed
  ui.trace(ch, nil)
  local stats = ch:stats()
  ui.print(("%d put and %d taken meanwhile; values shown: %d%s"):format(stats.put_total - before.put_total,
    stats.take_total - before.take_total, shown, closed and "; it is closed" or ""))
end

function command.trace(ui, rest)
  local path, text = rest:match "^(.-)%s+(%d+)$"
  path = path or rest
  local ms = tonumber(text)
  if not path:find "%.json$" then
    fail ":trace needs the path of a file that ends in .json, and optionally a number of ms; :tap ch shows values"
  end
  local begun, problem = pcall(rn.trace, path)
  if not begun then fail("%s", guard.text(problem)) end
  if ms then
    call(ui, function() rn.sleep(ms) end)
  else
    ui.print "recording; any key ends this"
    repeat local key = ui.key(200) until key ~= nil
  end
  local ended, written = pcall(rn.trace, false)
  if not ended then fail("%s", guard.text(written)) end
  if not written then return end
  ui.print(("%d records written to %s%s"):format(written.records, path,
    written.overwritten > 0 and ("; %d older ones were overwritten"):format(written.overwritten) or ""))
end

-- A variable to be closed: the end of the client, or Ctrl-C, ends the measuring, too.
local Measuring = setmetatable({}, { __close = function() recorder.finish() end })

function command.profile(ui, rest)
  local text, path = rest:match "^(%d*%.?%d*)%s*(.-)$"
  local ms = text == "" and 5000 or tonumber(text)
  if not ms or not (ms >= 50 and ms < math.huge) then fail ":profile needs a number of ms, from 50: 5000 are 5 s" end
  if path ~= "" then
    local _, wrong = recorder.check_path(path)
    if wrong then fail("%s", wrong) end
  end
  local file ---@type string?
  local ok, profile, problem = call(ui, function()
    local begun, why = pcall(recorder.begin)
    if not begun then return nil, tostring(why) end
    local _ <close> = Measuring
    if path ~= "" then file, why = recorder.open(path) end
    if not file and path ~= "" then return nil, why end
    ui.print(("measuring for %g ms"):format(ms))
    recorder.pause(ms)
    return recorder.finish()
  end)
  if not ok then return end
  if not profile then fail("profile: %s", problem) end
  ui.print(profile:text())
  if not file then return end
  local written, err = profile:write(file)
  if not written then fail("%s", err) end
  ui.print("written to " .. path)
end

function command.leaks(ui, rest)
  check_nothing(rest, "leaks")
  local list = rn.leaks(true)
  for _, leak in ipairs(list) do
    ui.print(("%d started at %s, in %s: %s"):format(leak.count, leak.started, leak.where, leak.example))
  end
  if #list == 0 then ui.print "no go block was collected while it waited" end
end

-- Whether a value is a connection of runnel.nats, or a store.
local function is_connection(value)
  local ok, queues = pcall(function() return value.queues end)
  return ok and type(queues) == "function"
end

-- Connects to a server, for a command.
local function connect(ui, url)
  local found, nats = pcall(require, "runnel.nats")
  if not found then fail("%s", tostring(nats)) end
  local ok, made, err = call(ui, function() return nats.connect(url) end)
  if ok and not made then fail("%s", tostring(err)) end
  return made
end

function command.queues(ui, rest)
  local list, is_own = {}, false
  if rest == "" then
    local owners = package.loaded["runnel.queue.owners"]
    list = owners and owners.open() or list
  elseif not rest:find "^%l+://" then
    local ok, value = evaluate(ui, rest, "queues")
    if not ok then return end
    if not is_connection(value) then
      fail(":queues needs a connection of runnel.nats, a store, or a URL, got %s", got(ui, value))
    end
    list[1] = value
  end
  if #list == 0 then
    list[1], is_own = connect(ui, rest ~= "" and rest or nil), true
    if not list[1] then return end
  end
  local ok, lines = call(ui, function() return require("runnel.queue.owners").lines(list) end)
  if is_own then list[1]:close() end
  if ok then print_lines(ui, lines) end
end

function command.runs(ui, rest)
  local owners, stores = package.loaded["runnel.queue.owners"], {}
  for _, owner in ipairs(owners and owners.open() or {}) do
    if owner.runs then stores[#stores + 1] = owner end
  end
  if #stores == 0 then fail "this program has no store open" end
  local ok, lines, err = call(ui, function() return require("runnel.store.runs.run_view").lines(stores, rest) end)
  if not ok then return end
  if not lines then fail("%s", tostring(err)) end
  print_lines(ui, lines)
end

function command.graph(ui, rest)
  local form = graph.forms[rest == "" and "text" or rest]
  if not form then fail(":graph knows the forms text, dot and mermaid, got %s", rest) end
  local g = rn.graph()
  ui.print((form(g):gsub("\n$", "")))
  if #g.edges == 0 then ui.print "no values have been counted yet: counting begins with the first :graph" end
end

-- ---- flows ----

local function is_flow(value)
  local meta = debug.getmetatable(value)
  return type(meta) == "table" and rawget(meta, "__name") == "runnel.flow"
end

local function current_flow(ui, name)
  local flow = commands.flow(ui)
  if not flow then fail(":%s needs a flow, and none runs: show one first, as in :flow f", name) end
  return flow
end

-- Calls f with the commands' current flow, and shows the flow again.
local function with_flow(ui, name, f)
  local flow = current_flow(ui, name)
  local ok, text = call(ui, function()
    f(flow)
    return tostring(flow:stats())
  end)
  if ok then ui.print(text) end
end

function command.flow(ui, rest)
  if rest ~= "" then
    local ok, flow = evaluate(ui, rest, "flow")
    if not ok then return end
    if not is_flow(flow) then fail(":flow needs a flow, got %s", got(ui, flow)) end
    ui.flow = flow
  end
  with_flow(ui, "flow", function() end)
end

local function stage_of(rest) return rest ~= "" and rest or nil end

function command.pause(ui, rest)
  with_flow(ui, "pause", function(flow) flow:pause(stage_of(rest)) end)
end

function command.resume(ui, rest)
  with_flow(ui, "resume", function(flow) flow:resume(stage_of(rest)) end)
end

-- Whether a text names a stage of a flow, or one of its outputs.
local function is_stage(flow, text)
  for _, stage in ipairs(flow and flow.stages or {}) do
    if text == stage.name or text:find(stage.name .. ".", 1, true) == 1 then return true end
  end
  return false
end

local function tap_stage(ui, flow, rest)
  local ok, tap = call(ui, function() return flow:tap(rest, 1) end)
  if not ok then return end
  ui.print "values as they are put, at most ten a second; any key ends this"
  repeat
    local value = tap:poll()
    local text = value ~= nil and text_of(ui, ui.style, value)
    if text then ui.print(("%s -> %s"):format(rest, text)) end
    local key = ui.key(100)
  until key ~= nil or tap:closed() and #tap == 0
  tap:close()
end

function command.tap(ui, rest)
  if rest == "" then fail ":tap needs a channel or a stage, as in :tap jobs, :tap #7 or :tap parse.error" end
  local flow = commands.flow(ui)
  if is_stage(flow, rest) then return tap_stage(ui, flow, rest) end
  return tap_channel(ui, rest)
end

function command.bt(ui, rest)
  local entry = find_block(rest, "bt")
  local co = core.internal.coroutine_of(entry.result)
  ui.print(width.plain(("#%d (%s), %s"):format(entry.id, entry.name, entry.state)))
  if co then ui.print(debug.traceback(co)) end
end

function command.cancel(_, rest)
  local entry = find_block(rest, "cancel")
  rn.cancel(entry.result, "cancelled at the prompt")
end

function command.time(ui, rest)
  local began, cpu = rn.now(), os.clock()
  local function finish(ok, ...)
    local took, used = rn.now() - began, os.clock() - cpu
    local text = ok and select("#", ...) > 0 and text_of(ui, ui.style, ...)
    if text then ui.print(text) end
    ui.print(("%.3f ms elapsed, %.3f ms CPU"):format(took, used * 1000))
  end
  finish(evaluate(ui, rest, "time"))
end

-- The name of a file that was typed, with or without quotes.
local function path_of(rest, name)
  local path = rest:match '^"(.*)"$' or rest
  if path == "" then fail(":%s needs the name of a file", name) end
  return path
end

function command.load(ui, rest)
  local f, err = loadfile(path_of(rest, "load"), "t", ui.session.env or _G)
  if not f then fail("%s", err) end
  call(ui, f)
end

-- Writes a new file.
local function write_file(path, text)
  local there = io.open(path)
  if there then
    there:close()
    fail("%s already exists", path)
  end
  local file, err = io.open(path, "w")
  if not file then return fail("%s", err) end
  local written, problem = file:write(text)
  local closed, late = file:close()
  if written and closed then return end
  os.remove(path)
  fail("%s: %s", path, problem or late)
end

-- Writes the current flow.
local function save_flow(ui, rest)
  local flow = current_flow(ui, "save flow")
  local path = rest ~= "" and path_of(rest, "save flow") or flow.name:gsub("[^%w_%-]", "_") .. ".lua"
  local text, missing = require "runnel.prompt.flow_script"(ui.session, flow)
  write_file(path, text)
  ui.print(("flow %s written to %s, stages: %d"):format(flow.name, path, #flow.stages))
  for _, what in ipairs(missing) do ui.print("to be filled in there: " .. what) end
end

function command.save(ui, rest)
  local of_flow = rest:match "^flow%f[%s%z](.*)$"
  if of_flow then return save_flow(ui, of_flow:match "^%s*(.*)$") end
  local path = path_of(rest, "save")
  write_file(path, ui.session:script())
  ui.print(("chunks written to %s: %d"):format(path, #ui.session.chunks))
end

function command.doc(ui, rest)
  if not rest:find "[%w_]" then fail ":doc needs a name or a question, as in :doc ch:take or :doc close a channel" end
  local answers, problem = doc.answers(rest, columns(ui))
  if not answers then fail("%s", problem) end
  for _, text in ipairs(answers) do ui.print(text) end
end

function command.set(ui, rest)
  local style = ui.style
  if rest == "" then
    return ui.print(("depth %d\nwidth %d"):format(style.depth, style.fixed or 0))
  end
  local name, text = rest:match "^(%a+)%s+(%d+)$"
  local value = math.tointeger(tonumber(text))
  if name == "depth" and value and value >= 1 then
    style.depth = value
  elseif name == "width" and value and (value == 0 or value >= 20) then
    style.fixed = value > 0 and value or nil
  else
    fail ":set needs depth and a number from 1, or width and a number from 20 (0: that of the terminal)"
  end
end

function command.help(ui, rest)
  check_nothing(rest, "help")
  ui.print "An expression prints its values; a statement runs; incomplete input continues on the next line."
  ui.print "Locals last for the session. _ is the last value; _1, _2 and _3 are the ones before it."
  local widest = 0
  for _, entry in ipairs(LIST) do widest = math.max(widest, #entry[1] + #entry[2] + 2) end
  for _, entry in ipairs(LIST) do
    local typed = ":" .. entry[1] .. " " .. entry[2]
    local text = doc.text({ calls = {}, names = {}, text = entry[3] }, columns(ui) - widest + 2):gsub("^\n    ", "")
    ui.print(typed .. (" "):rep(widest - #typed + 2) .. text:gsub("\n    ", "\n" .. (" "):rep(widest + 2)))
  end
  if ui.keys then ui.print(width.wrap(ui.keys, columns(ui), "")) end
end

function command.quit(_, rest)
  check_nothing(rest, "quit")
  return true
end

---The flow of :flow, :pause, :resume and :tap: the one shown last, or else the one started last.
---@param ui runnel.prompt.Interface
---@return runnel.Flow?
function commands.flow(ui) return ui.flow or living.last() end

---The names of all commands.
---@return string[]
function commands.names()
  local names = {}
  for _, entry in ipairs(LIST) do names[#names + 1] = entry[1] end
  table.sort(names)
  return names
end

---All commands: what to type, and what they do.
---@return string[][]
function commands.list() return LIST end

---@param ui runnel.prompt.Interface
---@return runnel.prompt.Commands
function commands.new(ui) return setmetatable({ ui = ui }, Commands) end

-- The name of a line's command, and the rest of the line; nil if the line is Lua.
local function parse(self, line)
  local name, rest = line:match "^%s*:([%a%-]*)%s*(.-)%s*$"
  if name and (name ~= "" or rest == "") then return ALIASES[name] or name, rest end
  local word = line:match "^%s*(.-)%s*$"
  if word == "?" then return "help", "" end
  local asked = word:match "^([%a_][%w_.:]*)%s*%?$"
  if asked then return "doc", asked end
  local is_command = WORDS[word] and self.ui.session:is_free(word:match "^%a+")
  return is_command and WORDS[word] or nil, ""
end

---Whether a line is a command.
---@param line string
---@return boolean
function Commands:is_command(line) return parse(self, line) ~= nil end

---Runs a line that is a command.
---@param line string
---@return boolean? is_command nil for a line that is Lua
---@return boolean? ends whether it ends the session
function Commands:run(line)
  local name, rest = parse(self, line)
  if not name then return nil end
  local f = command[name]
  if not f then
    local nearest = hint.nearest(name, commands.names())
    self.ui.complain(("there is no command :%s; %s"):format(name, nearest and ("did you mean :%s?"):format(nearest)
      or ":help lists them"))
    return true
  end
  local ok, result = pcall(f, self.ui, rest)
  if not ok then self.ui.complain(core.internal.error_text(result)) end
  return true, ok and result == true
end

return commands
