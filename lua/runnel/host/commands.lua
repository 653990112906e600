---The prompt's commands, which begin with a colon.

local rn = require "runnel"
local terminal = require "runnel.host.terminal"
local inspect = require "runnel.host.inspect"
local contract = require "runnel.host.contract"
local pretty = require "runnel.host.pretty"
local views = require "runnel.host.views"

---@class runnel.host.commands
local commands = {}

---What each command does with the rest of its line. What it raises is shown without a traceback.
---@type table<string, fun(rest: string)>
local command = {}

local function fail(message, ...) error(message:format(...), 0) end

local function print_lines(lines)
  for _, line in ipairs(lines) do print(line) end
end

local function width()
  local _, columns = terminal.size()
  return columns
end

local function check_nothing(rest, name)
  if rest ~= "" then fail(":%s takes nothing behind it", name) end
end

-- The go block with the number that was typed.
local function find_block(rest, name)
  local id = math.tointeger(tonumber(rest))
  if not id then fail(":%s needs the id of a go block, which :ps shows", name) end
  for _, entry in ipairs(rn.ps()) do
    if entry.id == id then return entry end
  end
  fail("there is no go block #%d; :ps shows those that there are", id)
end

-- Compiles an expression, and calls the function that gives its value.
local function evaluate(rest, name)
  local f, err = load("return " .. rest, "=stdin", "t")
  if rest == "" or not f then fail(":%s needs an expression%s", name, rest ~= "" and ": " .. err or "") end
  return terminal.run(f)
end

-- Shows what failed.
local function show_failure(message) io.stderr:write(commands.without_host(message), "\n") end

function command.ps(rest)
  check_nothing(rest, "ps")
  local lines = views.go_blocks(width())
  if #lines == 1 then return print "there are no go blocks" end
  print_lines(lines)
end

function command.chans(rest)
  check_nothing(rest, "chans")
  collectgarbage() -- those that nobody can reach are none
  local lines = views.channels(width())
  if #lines == 1 then return print "there are no channels" end
  print_lines(lines)
end

function command.watch(rest)
  local ms = rest == "" and 500 or tonumber(rest)
  if not ms or not (ms >= 10 and ms < math.huge) then fail ":watch needs a number of ms, from 10" end
  repeat
    local rows, columns = terminal.size()
    local blocks, channels = views.go_blocks(columns - 1), views.channels(columns - 1)
    local lines = { ("go blocks: %d, channels: %d; any key ends this"):format(#blocks - 1, #channels - 1), "" }
    local room = math.max(rows - 6, 4)
    local of_blocks = math.min(#blocks, math.max(room // 2, room - #channels))
    local function add(list, most)
      table.move(list, 1, math.min(#list, most), #lines + 1, lines)
      if #list > most then lines[#lines + 1] = ("… %d more"):format(#list - most) end
    end
    add(blocks, of_blocks)
    lines[#lines + 1] = ""
    add(channels, room - of_blocks)
    terminal.paint(table.concat(lines, "\n") .. "\n", #lines)
    local key = terminal.key(ms)
  until key ~= nil
  terminal.paint("", 0, true)
end

function command.trace(rest)
  local ok, ch = evaluate(rest, "trace")
  if not ok then return show_failure(ch) end
  if not rn.is_chan(ch) then fail(":trace needs a channel, got %s", pretty.value(ch)) end
  local shown, last = 0, nil
  local before = ch:stats()
  -- At most ten values a second: nobody can read more.
  inspect.trace(ch, function(value)
    local now = rn.now()
    if last and now - last < 100 then return end
    last = now
    shown = shown + 1
    print(("%s <- %s"):format(ch:name() or "#" .. before.id, pretty.value(value)))
  end)
  print "values as they are put, at most ten a second; any key ends this"
  local closed
  repeat
    local key = terminal.key(200)
    closed = ch:closed()
  until key ~= nil or closed
  inspect.trace(nil)
  local stats = ch:stats()
  print(("%d put and %d taken meanwhile, %d of them shown%s"):format(stats.put_total - before.put_total,
    stats.take_total - before.take_total, shown, closed and "; it is closed" or ""))
end

function command.bt(rest)
  local entry = find_block(rest, "bt")
  local trace = inspect.traceback(entry.result)
  print(("#%d (%s), %s"):format(entry.id, entry.name, entry.state))
  print(trace)
end

function command.kill(rest)
  local entry = find_block(rest, "kill")
  rn.cancel(entry.result, "killed at the prompt")
end

function command.time(rest)
  local began, cpu = rn.now(), os.clock()
  local function finish(ok, ...)
    local took, used = rn.now() - began, os.clock() - cpu
    if not ok then show_failure((...)) elseif select("#", ...) > 0 then print(pretty.values(...)) end
    print(("%.3f ms, of the processor %.3f ms"):format(took, used * 1000))
  end
  finish(evaluate(rest, "time"))
end

function command.load(rest)
  local path = rest:match '^"(.*)"$' or rest
  if path == "" then fail ":load needs the name of a file" end
  local f, err = loadfile(path)
  if not f then fail("%s", err) end
  local ok, message = terminal.run(f)
  if not ok then show_failure(message) end
end

-- Prints entries of the contract: what to write, and what it is.
local function print_entries(entries)
  for _, entry in ipairs(entries) do print(table.concat(entry.calls, "  ") .. "\n    " .. entry.text) end
end

-- Whether an entry of the contract is about a name, as in "take", "ch:take" or "rn.alts".
local function is_about(entry, prefix, name)
  for _, call in ipairs(entry.calls) do
    if call:find("^" .. prefix .. "[.:]" .. name .. "%f[^%w_]") then return true end
  end
  if prefix ~= "%a+" then return false end
  for _, other in ipairs(entry.names) do
    if other == name then return true end
  end
  return false
end

function command.doc(rest)
  local prefix, name = rest:match "^(%a+)[.:]([%a_]+)$"
  if not prefix then prefix, name = "%a+", rest:match "^[%a_]+$" end
  if not name then fail ":doc needs a name, as in :doc take, :doc ch:take or :doc rn.alts" end
  local found = {}
  for _, entry in ipairs(contract) do
    if is_about(entry, prefix, name) then found[#found + 1] = entry end
  end
  if #found == 0 then fail("there is nothing by the name of %s", rest) end
  print_entries(found)
end

function command.help(rest)
  check_nothing(rest, "help")
  print "An expression prints its values; a statement runs; what is incomplete continues on the next line."
  local list = {}
  for _, entry in ipairs(contract) do
    if entry.calls[1]:find "^:" then list[#list + 1] = entry end
  end
  local widest = 0
  for _, entry in ipairs(list) do widest = math.max(widest, #entry.calls[1]) end
  for _, entry in ipairs(list) do print(entry.calls[1] .. (" "):rep(widest - #entry.calls[1] + 2) .. entry.text) end
  print "Tab completes names, Ctrl-C ends what is running or drops the line, Ctrl-D ends the session."
end

---The names of all commands.
---@return string[]
function commands.names()
  local names = {}
  for name in pairs(command) do names[#names + 1] = name end
  table.sort(names)
  return names
end

---A message without what of the host its traceback ends with: nobody's business at the prompt.
---@param message string
---@return string
function commands.without_host(message)
  return (message:gsub("\n\t%[C%]: in function 'runnel%.host%.terminal%.run'.*", ""))
end

---Runs the command of a line.
---@param line string
function commands.run(line)
  local name, rest = line:match "^%s*:(%a*)%s*(.-)%s*$"
  local f = command[name]
  if not f then
    io.stderr:write(("there is no command :%s; :help lists them\n"):format(name))
    return
  end
  local ok, err = pcall(f, rest)
  if not ok then io.stderr:write(tostring(err), "\n") end
end

return commands
