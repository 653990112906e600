---`runnel runs`: shows the durable runs of a store, and changes them.

local command_line = require "runnel.host.command_line"
local rn = require "runnel"
local width = require "runnel.internal.width"

local USAGE = [[
usage: runnel runs FILE [COMMAND]
Shows the durable runs in a file of runnel.store: how many there are in each state, and those that have failed or cannot
go on. RUN is the id of a run; or NAME/ID, if runs of several names have that id. Commands:
  --watch[=SECONDS]         show them again and again, every 2 seconds or as given, until Ctrl-C
  list [NAME] [STATE]       list runs, of a name, or in a state: ready, running, sleeping, waiting, retrying, blocked,
                            done, failed or cancelled
  show RUN                  a run with its steps and their times
  signal RUN SIGNAL [JSON]  send it a signal, with a value; without one, true
  cancel RUN [REASON]       cancel it
  restart RUN [STEP]        start it again: from the beginning, or from the first step of that name on
  forget RUN                forget a run that has ended, with its steps; its id is free then
  check PROGRAM [ARG ...]   whether a new program, a Lua file, can continue the runs: repeats them without doing a step
  help                      show this
]]

local PAGE <const> = 1000

local line = command_line.new "runnel runs"
local fail, wrong_usage, must, no_more, print_lines = line.fail, line.wrong_usage, line.must, line.no_more, line.print

local function view() return require "runnel.store.runs.run_view" end

local function look() return require "runnel.store.runs.run_look" end

-- ---- arguments ----

-- The run that the first word names.
local function run_of(store, words, what)
  if not words[1] then wrong_usage("%s needs the id of a run", what) end
  local found = must(look().find(store, words[1]))
  return require("runnel.store.runs.run_ref").new(store, found.name, found.id), found
end

local function title(found) return look().shown(found.id) .. " of " .. found.name end

-- ---- commands ----

local command = {}

local function contains(list, word)
  for _, one in ipairs(list) do
    if one == word then return true end
  end
  return false
end

-- Prints the runs of a name, a page at a time. Returns how many.
local function list_runs(store, name, state, is_first)
  local column, n = nil, 0
  repeat
    local list = must(look().list(store, name, state, column, PAGE))
    if #list > 0 then
      if n == 0 then print((is_first and "" or "\n") .. name .. ":") end
      print_lines(view().list(list, store:time()))
      column = require("runnel.store.keys").of(list[#list].id)
    end
    n = n + #list
  until #list < PAGE
  return n
end

function command.list(store, words)
  local names, states = must(look().names(store)), look().STATES
  local name, state = words[1], words[2]
  if name and not state and not contains(names, name) and contains(states, name) then name, state = nil, name end
  no_more(words, 2, "list")
  if state and not contains(states, state) then
    wrong_usage("list: a state expected, one of %s; got %q", table.concat(states, ", "), state)
  end
  if name and not contains(names, name) then
    fail("there are no runs of %q; %s", name, names[1] and "there are runs of " .. table.concat(names, ", ")
      or "the store has none")
  end
  local n = 0
  for _, one in ipairs(name and { name } or names) do n = n + list_runs(store, one, state, n == 0) end
  if n == 0 then print(state and "there are no such runs" or "there are no runs") end
end

function command.show(store, words)
  no_more(words, 1, "show")
  local run = run_of(store, words, "show")
  print_lines(must(view().run(store, run)))
end

function command.signal(store, words)
  if words[1] and not words[2] then wrong_usage "signal needs the name of a signal" end
  no_more(words, 3, "signal")
  local value = true
  if words[3] then
    local problem
    value, problem = require("runnel.json").decode(words[3])
    if problem then wrong_usage("signal: JSON expected, got %s: %s", words[3], problem) end
  end
  if words[2] == "" then wrong_usage "signal: the name of a signal is not empty" end
  local run, found = run_of(store, words, "signal")
  must(run:signal(words[2], value))
  print(("%s is sent to %s"):format(words[2], title(found)))
end

function command.cancel(store, words)
  no_more(words, 2, "cancel")
  local run, found = run_of(store, words, "cancel")
  must(run:cancel(words[2]))
  print(title(found) .. " is being cancelled")
end

function command.restart(store, words)
  no_more(words, 2, "restart")
  local run, found = run_of(store, words, "restart")
  must(run:restart { from = words[2] })
  print(("%s is started again%s"):format(title(found), words[2] and ", from " .. words[2] .. " on" or ""))
end

function command.forget(store, words)
  no_more(words, 1, "forget")
  local run, found = run_of(store, words, "forget")
  must(run:forget())
  print(title(found) .. " is forgotten")
end

-- ---- checking a program ----

-- Says which runs the program cannot continue. The exit status is 1 if there are any.
function command.check(file, words)
  local program = table.remove(words, 1)
  if not program then wrong_usage "check needs a program" end
  arg = table.move(words, 1, #words, 1, { [0] = program }) -- luacheck: ignore 121 (the program's)
  local result = must(require("runnel.store.runs.run_check").check(file, program))
  for _, run in ipairs(result.blocked) do
    local at = run.step and run.step .. (run.line and " at " .. run.line or "") .. ": " or ""
    print_lines(width.lines { ("%s of %s cannot go on: %s%s"):format(look().shown(run.id), run.name, at, run.error) })
  end
  print(("runs that have not ended: %d; this program cannot continue: %d"):format(result.checked, #result.blocked))
  io.stdout:flush()
  rn.exit(#result.blocked > 0 and 1 or 0)
end

-- ---- the command line ----

-- Removes the option --watch. Returns whether it was there, and its seconds.
local function take_watch(words)
  if words[1] == "check" or words[2] == "check" then return false end -- the rest are the program's arguments
  local watches, seconds = false, nil
  for i = #words, 1, -1 do
    local word = words[i]
    if word:find "^%-%-watch" then
      watches, seconds = true, word:match "^%-%-watch=(.*)$"
      if not seconds and word ~= "--watch" then wrong_usage("unknown option %q", word) end
      table.remove(words, i)
    end
  end
  return watches, seconds
end

return function(...)
  local words = { ... }
  local watches, seconds = take_watch(words)
  local file, what = table.remove(words, 1), table.remove(words, 1)
  if file == "help" or file == "--help" or file == "-h" or what == "help" then return io.write(USAGE) end
  if not file then wrong_usage "a file of runnel.store expected" end
  if command[file] and what and not command[what] then file, what = what, file end -- `runnel runs show work.db 17`
  if what and (watches or not command[what]) then
    wrong_usage(watches and "--watch takes no command, got %q" or "unknown command %q", what)
  end
  local there <close> = io.open(file, "rb")
  if not there then fail("there is no file %s", file) end
  line.check_store(file)
  if what == "check" then return command.check(file, words) end
  local store <close> = line.open("runnel.store", "open", file, { create = false })
  if watches then return line.watch(seconds, function() return must(view().overview(store)) end) end
  if what then command[what](store, words) else print_lines(must(view().overview(store))) end
end
