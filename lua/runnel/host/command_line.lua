---What the commands of the executable that look at queues and runs have in common: their errors, their arguments, and
---the option --watch.

local rn = require "runnel"
local terminal = require "runnel.host.terminal"
local width = require "runnel.internal.width"

local command_line = {}

local WATCH_MS <const> = 2000

---@param name string of the command, as "runnel queues"
---@return table line
function command_line.new(name)
  local line = {}

  ---Ends the program with a message.
  ---@param message string a format
  ---@param ... any
  function line.fail(message, ...)
    io.stderr:write(table.concat(width.lines { name .. ": " .. message:format(...) }, "\n"), "\n")
    os.exit(1, true)
  end

  ---The same for a wrong command line.
  ---@param message string a format
  ---@param ... any
  function line.wrong_usage(message, ...)
    io.stderr:write(name, ": ", message:format(...), "\n(", name, " help lists the commands)\n")
    os.exit(2, true)
  end

  ---Returns the results of a function of the library, if the first one is not nil; otherwise ends the program.
  ---@param result any
  ---@param err any
  ---@param ... any
  ---@return any ...
  function line.must(result, err, ...)
    if result == nil then line.fail("%s", tostring(err)) end
    return result, err, ...
  end

  ---Calls a function that opens a connection or a store; ends the program with its error.
  ---@param module string
  ---@param open string the name of the function
  ---@param ... any
  ---@return any owner
  function line.open(module, open, ...)
    local found, library = pcall(require, module)
    if not found then line.fail("%s", tostring(library)) end
    local ok, owner, err = pcall(library[open], ...)
    if not ok then line.fail("%s", (tostring(owner):gsub("^[^:]*:%d+: ", ""))) end
    return line.must(owner, err)
  end

  ---Ends the program if a file is none of runnel.store, which opening it as one would make of any database: the
  ---commands are for looking. This looks without changing anything.
  ---@param path string
  function line.check_store(path)
    local db <close> = line.open("runnel.sqlite", "open", path, { create = false, wal = false })
    if require("runnel.store.schema").version_of(db) == 0 then line.fail("%s is no file of runnel.store", path) end
  end

  ---@param lines string[]
  function line.print(lines)
    for _, one in ipairs(lines) do print(one) end
    io.stdout:flush()
  end

  ---Refuses words after the first n.
  ---@param words string[]
  ---@param n integer
  ---@param what string the command
  function line.no_more(words, n, what)
    if words[n + 1] then line.wrong_usage("%s takes no argument %q", what, words[n + 1]) end
  end

  ---@param text? string
  ---@param what string the command or option
  ---@return integer n
  function line.number_of(text, what)
    local n = math.tointeger(tonumber(text))
    if not n or n < 1 then
      line.wrong_usage("%s: a number expected, got %s", what, text and ("%q"):format(text) or "nothing")
    end
    return n --[[@as integer]]
  end

  ---Prints lines again and again, until Ctrl-C; on a screen as many as fit.
  ---@param seconds? string the value of --watch
  ---@param lines_of fun(): string[]
  function line.watch(seconds, lines_of)
    local ms = seconds and line.number_of(seconds, "--watch") * 1000 or WATCH_MS
    local is_screen = terminal.is_screen()
    local ok, err = pcall(function()
      while true do
        local lines = lines_of()
        if is_screen then
          local rows = terminal.size()
          lines = table.move(lines, 1, math.min(#lines, rows - 2), 1, {})
          io.write "\27[H\27[J"
        end
        print(os.date "%H:%M:%S")
        line.print(lines)
        if not is_screen then print() end
        rn.sleep(ms)
      end
    end)
    if not ok and not tostring(err):find("interrupted!", 1, true) then error(err, 0) end
  end

  return line
end

return command_line
