---`runnel queues`: shows the queues of a NATS server or of a store, and changes them.

local command_line = require "runnel.host.command_line"
local rn = require "runnel"
local width = require "runnel.internal.width"

local USAGE = [[
usage: runnel queues [URL | FILE] [COMMAND]
Shows the queues of a NATS server: remote stages, and consumers of streams; or those of a file of runnel.store. Without
either, the environment says where and how to connect to a server: RUNNEL_NATS_URL, RUNNEL_NATS_CREDENTIALS and others
(docs/manual/nats.md). Commands:
  --watch[=SECONDS]         show them again and again, every 2 seconds or as given, until Ctrl-C
  --metrics                 write their numbers as Prometheus' text
  --max-waiting=N           end with status 3 if a queue has more than N waiting messages, and say which
  --max-oldest=SECONDS      the same if a message that is not done is older than that
  --healthy                 the same if a server of the cluster is not well, or a stream has no leader
  show NAME                 a queue, with what each worker runs
  show NAME NUMBER          a message that is not done, with its value and the error of each try
  pause NAME [TIME]         let the workers of a queue start nothing more, until it is resumed; of a store, for TIME
                            at most: 90s, 30min, 2h, 1d
  resume NAME               end the pause
  change NAME OPTION=N ...  change replicas, max_age, ack_wait, max_running of a remote stage (of a store: max_running);
                            ack_wait, max_running of others; tries (0: no limit) of a source with a name
  delete NAME [--force]     delete a queue; with --force, also one that has messages
  clean [DAYS]              delete remote stages that were not used for DAYS days (30)
  waiting NAME [TEXT]       list the messages that wait, with their values; those that contain a text
  cancel NAME NUMBER        remove a message that waits
  move NAME NUMBER STREAM   move it to the end of another stream of the store
  dead NAME                 list the dead letters of a queue
  dead NAME NUMBER          show one, with its value
  replay NAME NUMBER|all    run a job again, and drop its letter if that succeeds; or put a message, in place of its
                            letter, into its stream again
  drop NAME NUMBER|all      drop it
  help                      show this
]]

-- The exit status if a queue is beyond a limit.
local ALARM <const> = 3

local SAMPLE_MS <const>, DAY_MS <const> = 1000, 24 * 3600 * 1000

local line = command_line.new "runnel queues"
local fail, wrong_usage, must, no_more, print_lines = line.fail, line.wrong_usage, line.must, line.no_more, line.print
local number_of = line.number_of

local function view() return require "runnel.queue.view" end

local function plural(n, what) return ("%d %s%s"):format(n, what, n == 1 and "" or "s") end

-- ---- arguments ----

local function name_of(words, what)
  local name = words[1]
  if not name then wrong_usage("%s needs the name of a queue", what) end
  return name
end

-- The dead letters of a queue, or of one that was deleted and has left some: NAME, NAME.dead, or STREAM/NAME.
local function dead_of(conn, name)
  name = name:gsub("%.dead$", "")
  local queue, err, is_ambiguous = conn:queue(name)
  if queue then return queue:dead() end
  local is_name, letters = pcall(conn.dead, conn, name)
  if is_ambiguous or not is_name or must(letters:count()) == 0 then fail("%s", err) end
  return letters
end

-- ---- commands ----

local function show_all(conn)
  local list = must(conn:queues())
  if #list > 0 then
    rn.sleep(SAMPLE_MS) -- the rate needs two samples
    list = must(conn:queues())
  end
  print_lines(view().queues(list, true))
end

local command = {}

function command.show(conn, words)
  local name = name_of(words, "show")
  no_more(words, 2, "show")
  if words[2] then
    local number, queue = number_of(words[2], "show"), must(conn:queue(name))
    return print_lines(view().message(queue.name, must(queue:get(number))))
  end
  must(conn:queues())
  rn.sleep(SAMPLE_MS)
  print_lines(view().queues({ must(conn:queue(name)) }, "all"))
end

local UNITS <const> = { s = 1000, min = 60 * 1000, h = 3600 * 1000, d = DAY_MS }

-- A time as ms, as in 90s.
local function time_of(text, what)
  local number, unit = text:match "^(%d+%.?%d*)(%a+)$"
  local ms = number and UNITS[unit] and number * UNITS[unit]
  if not ms or ms < 1 then wrong_usage("%s: a time expected, as 90s, 30min, 2h or 1d, got %q", what, text) end
  return ms
end

function command.pause(conn, words)
  local name, lasts = name_of(words, "pause"), words[2] and time_of(words[2], "pause")
  no_more(words, 2, "pause")
  local queue = must(conn:queue(name))
  if lasts and not queue.can_resume then
    fail("%s: only a pause of a queue in a store has an end: pause it without a time, and resume it later", queue.name)
  end
  local workers = must(queue:pause { lasts = lasts })
  print(("%s is paused%s; %s answered. What runs goes on (runnel queues show %s)"):format(queue.name,
    lasts and " for " .. words[2] or "", plural(workers, "worker"), queue.name))
end

function command.resume(conn, words)
  local queue = must(conn:queue(name_of(words, "resume")))
  no_more(words, 1, "resume")
  print(("%s goes on; %s answered"):format(queue.name, plural(must(queue:resume()), "worker")))
end

function command.change(conn, words)
  local name, opts = name_of(words, "change"), {}
  for i = 2, #words do
    local key, value = words[i]:match "^([%l_]+)=(%d+)$"
    if not key then wrong_usage("change: OPTION=NUMBER expected, got %q", words[i]) end
    opts[key] = math.tointeger(value)
  end
  if next(opts) == nil then wrong_usage "change: OPTION=NUMBER expected" end
  local queue = must(conn:queue(name))
  local well, ok, err = pcall(queue.change, queue, opts)
  if not well then fail("%s", (tostring(ok):gsub("^[^:]*:%d+: ", ""))) end
  must(ok, err)
  print(queue.name .. " is changed")
end

command.delete = function(conn, words)
  local name, is_forced = name_of(words, "delete"), words[2] == "--force"
  no_more(words, is_forced and 2 or 1, "delete")
  local queue = must(conn:queue(name))
  local left, has = queue.waiting + queue.running, {}
  if left > 0 then has[1] = plural(left, "message") .. " that are not done" end
  if #queue.workers > 0 then has[#has + 1] = plural(#queue.workers, "worker") .. ", which would make it again" end
  if #has > 0 and not is_forced then
    fail("%s has %s: add --force to delete it all the same", queue.name, table.concat(has, ", and "))
  end
  must(queue:delete())
  print(queue.name .. " is deleted")
end

function command.clean(conn, words)
  local days = words[1] and number_of(words[1], "clean") or 30
  no_more(words, 1, "clean")
  local count = 0
  for _, queue in ipairs(must(conn:queues())) do
    local is_empty = queue.waiting + queue.running == 0 and #queue.workers == 0
    if queue.kind == "jobs" and is_empty and queue.unused >= days * DAY_MS then
      must(queue:delete())
      print(queue.name .. " is deleted")
      count = count + 1
    end
  end
  print(plural(count, "queue") .. " deleted")
end

function command.waiting(conn, words)
  local queue = must(conn:queue(name_of(words, "waiting")))
  no_more(words, 2, "waiting")
  local after = 0
  repeat
    local list = must(queue:list { after = after, contains = words[2] })
    if #list > 0 or after == 0 then print_lines(view().waiting(list)) end
    after = #list > 0 and list[#list].sequence or nil
  until not after or #list < 100
end

function command.cancel(conn, words)
  local name, number = name_of(words, "cancel"), number_of(words[2], "cancel")
  no_more(words, 2, "cancel")
  local queue = must(conn:queue(name))
  must(queue:cancel(number))
  print(("message %d of %s is cancelled"):format(number, queue.name))
end

function command.move(conn, words)
  local name, number = name_of(words, "move"), number_of(words[2], "move")
  if not words[3] then wrong_usage "move needs the name of a stream" end
  no_more(words, 3, "move")
  local queue = must(conn:queue(name))
  must(queue:move(number, words[3]))
  print(("message %d of %s is moved to %s"):format(number, queue.name, words[3]))
end

function command.dead(conn, words)
  local name, number = name_of(words, "dead"), words[2] and number_of(words[2], "dead")
  no_more(words, 2, "dead")
  local dead = dead_of(conn, name)
  if number then return print_lines(view().letter(must(dead:get(number)))) end
  local after = 0
  repeat
    local letters = must(dead:list { after = after })
    if #letters > 0 or after == 0 then print_lines(view().letters(letters)) end
    after = #letters > 0 and letters[#letters].sequence or nil
  until not after or #letters < 100
end

-- The dead letter with the given number, or all that exist now, without their values: replaying may add new ones.
local function letters_of(dead, number)
  if number then return { must(dead:get(number)) } end
  local all, after = {}, 0
  repeat
    local page = must(dead:list { after = after })
    for _, letter in ipairs(page) do
      after = letter.sequence
      all[#all + 1] = { sequence = after, kind = letter.kind }
    end
  until #page == 0
  return all
end

-- The name of a queue, and the number of a letter; nil: all.
local function letter_of(words, what)
  local name, number = name_of(words, what), words[2] ~= "all" and number_of(words[2], what) or nil
  no_more(words, 2, what)
  return name, number
end

function command.replay(conn, words)
  local name, number = letter_of(words, "replay")
  local dead, done, failed = dead_of(conn, name), 0, 0
  for _, letter in ipairs(letters_of(dead, number)) do
    local ok, err = dead:replay(letter.sequence)
    if ok then
      done = done + 1
      print(("%d: %s"):format(letter.sequence, letter.kind == "job" and "done" or "put into its stream again"))
    else
      failed = failed + 1
      io.stderr:write(("%d: %s\n"):format(letter.sequence, width.plain(tostring(err):match "^[^\n]*")))
    end
  end
  print(plural(done, "dead letter") .. " replayed" .. (failed > 0 and (", %d failed"):format(failed) or ""))
  if failed > 0 then os.exit(1, true) end
end

function command.drop(conn, words)
  local name, number = letter_of(words, "drop")
  local dead = dead_of(conn, name)
  print(plural(must(dead:drop(number)), "dead letter") .. " dropped")
end

-- ---- options ----

-- The options of the command line by name: { value or true }. Removes them from the words.
local OPTIONS <const> = { watch = "seconds", metrics = "none", healthy = "none", ["max-waiting"] = "limit",
  ["max-oldest"] = "limit" }

local function take_options(words)
  local options = {}
  for i = #words, 1, -1 do
    local name, value = words[i]:match "^%-%-([%l-]+)=?(.*)$"
    local kind = name and OPTIONS[name]
    local has_value = kind and words[i]:find("=", 1, true) ~= nil
    if kind then
      if kind == "none" and has_value or kind == "limit" and not value:find "^%d+$" then
        wrong_usage("--%s: %s expected, got %q", name, kind == "limit" and "a number" or "no value", words[i])
      end
      options[name] = has_value and value or true
      table.remove(words, i)
    end
  end
  if options.watch and next(options, next(options)) then wrong_usage "--watch takes no other option" end
  return options
end

-- Prints the numbers of all queues, and whether they are within the limits. The exit status is 3 if one is not.
local function measure(conn, options)
  local figures = require "runnel.queue.figures"
  local list = must(conn:queues())
  local lines = figures.alarms(list, { waiting = math.tointeger(tonumber(options["max-waiting"])),
    oldest = math.tointeger(tonumber(options["max-oldest"])), healthy = options.healthy })
  if options.metrics then
    io.write(figures.text(list))
    for _, one in ipairs(lines) do io.stderr:write(one, "\n") end
  else
    print_lines(#lines > 0 and lines or { plural(#list, "queue") .. " within the limits" })
  end
  io.stdout:flush()
  if #lines > 0 then rn.exit(ALARM) end
end

-- ---- the command line ----

local function is_file(path)
  local file <close> = io.open(path, "rb")
  return file ~= nil
end

local function connect(url) return line.open("runnel.nats", "connect", url) end

local function open_store(path)
  line.check_store(path)
  return line.open("runnel.store", "open", path, { create = false })
end

return function(...)
  local words, url = { ... }, nil
  local options = take_options(words)
  for i = #words, 1, -1 do
    if words[i]:find("://", 1, true) then url = table.remove(words, i) end
  end
  local what, file = table.remove(words, 1), nil
  if what and not command[what] and is_file(what) then
    what, file = table.remove(words, 1), what
    if url then wrong_usage("a URL or a file expected, got both") end
  end
  if what == "help" or what == "--help" or what == "-h" then return io.write(USAGE) end
  if what and not command[what] then wrong_usage("unknown command %q, and no such file", what) end
  local option = next(options)
  if what and option then wrong_usage("--%s takes no command, got %q", option, what) end
  local conn <close> = file and open_store(file) or connect(url)
  if options.watch then
    return line.watch(options.watch ~= true and options.watch or nil, function()
      return view().queues(must(conn:queues()), true)
    end)
  end
  if option then return measure(conn, options) end
  if what then command[what](conn, words) else show_all(conn) end
end
