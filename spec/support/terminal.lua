---Runs a program in a terminal of tmux, so that specs can type and see the screen.

local patience = require "spec.support.patience"
local process = require "spec.support.process"
local quote = require("spec.support.shell").quote

local terminal = {}

local function capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return text
end

---Whether terminals are available.
terminal.available = os.execute "command -v tmux >/dev/null 2>&1" == true

local opened = {} -- the terminals of a spec

---Starts a command in a terminal of its own. tmux runs in its control mode: it reads commands, answers each of them
---between the lines %begin and %end, and reports events in between, above all %output when a program has written. So a
---spec waits for the program's output without starting a process for each check of the screen.
---@param command string
---@param opts? { columns?: integer, rows?: integer }
function terminal.open(command, opts)
  local columns, rows = opts and opts.columns or 80, opts and opts.rows or 24
  local socket = os.tmpname()
  local commands, answers = socket .. ".commands", socket .. ".answers"
  assert(os.execute(("mkfifo %s %s"):format(commands, answers)))
  -- Keeps the screen after the program has ended, until the terminal is closed.
  local script = command .. "; echo \"[ended $?]\"; exec sleep 600"
  local tmux = assert(io.popen(("exec tmux -C -u -f /dev/null -S %s new-session -x %d -y %d %s <%s >%s 2>&1"):format(
    socket, columns, rows, quote(script), commands, answers), "w"))
  -- Open for reading, too: so a write to a tmux that has ended does not end this process by SIGPIPE.
  local to_tmux = assert(io.open(commands, "r+"))
  local from_tmux = assert(io.open(answers))
  os.remove(commands)
  os.remove(answers)
  to_tmux:setvbuf "line"
  local term = {}
  local said = "nothing" -- tmux's last message

  local function next_line(awaited)
    local line = from_tmux:read "l"
    if not line then error(("tmux has ended, before %s; at last it said: %s"):format(awaited, said), 0) end
    said = line
    return line
  end

  -- The lines that answer a command; raises if it fails. Skips earlier events.
  local function answer(question)
    local number, line
    local awaited = "its answer to " .. question
    repeat number = next_line(awaited):match "^%%begin (.*)$" until number
    local lines = {}
    while true do
      line = next_line(awaited)
      if line == "%end " .. number then return table.concat(lines, "\n") end
      if line == "%error " .. number then error(("tmux: %s: %s"):format(question, table.concat(lines, "\n")), 3) end
      lines[#lines + 1] = line
    end
  end

  local function run(arguments)
    assert(not arguments:find "\n", "a command of tmux is one line")
    to_tmux:write(arguments, "\n")
    return answer(arguments)
  end

  answer "new-session"
  run "set -g destroy-unattached on" -- also when the process of the spec is killed
  -- tmux sends a line each second, so that a wait for a missing event ends.
  run "set -g @second '%S'"
  run "refresh-client -B 'second::#{T:@second}'"

  ---Types bytes.
  function term:bytes(bytes)
    for at = 1, #bytes, 200 do
      run("send-keys -H " .. bytes:sub(at, at + 199):gsub(".", function(c) return ("%02x "):format(c:byte()) end))
    end
    return self
  end

  ---Types a text, as it is.
  function term:type(text)
    if text:find "\n" then return self:bytes(text) end
    run("send-keys -l -- " .. quote(text))
    return self
  end

  ---Presses keys by tmux's names: "Enter", "C-c", "Tab".
  function term:press(...)
    run("send-keys " .. table.concat({ ... }, " "))
    return self
  end

  local function paste(text, options)
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(text)
    file:close()
    run("load-buffer " .. path)
    run("paste-buffer " .. options)
    os.remove(path)
  end

  ---Pastes a text of any length, with paste marks for programs that have asked for them.
  function term:paste(text)
    paste(text, "-p")
    return self
  end

  ---Pastes a text as terminals without paste marks do: as if it were typed.
  function term:paste_unmarked(text)
    paste(text, "")
    return self
  end

  ---The contents of the screen, without blank lines at the end; with `colours` as escape sequences.
  function term.screen(_, colours)
    local screen = run("capture-pane -p" .. (colours and " -e" or ""))
    return (screen:gsub("\t", "        "):gsub("[ \n]+$", "")) -- tmux 3.6 keeps tabs
  end

  -- Checks the screen after each event until f accepts it. If f never does, or the program has ended, raises an error
  -- with the expectation and the contents of the screen.
  local function wait_for(f, awaited, ...)
    local is_over = patience.limit(patience.most)
    while true do
      local screen = term:screen()
      if f(screen) then return screen end
      if is_over() or screen:find "%[ended %d+%]$" then
        error((awaited .. ":\n%s"):format(..., screen), 3)
      end
      repeat local line = next_line(awaited:format(...)) until line:find "^%%[%a-]+"
    end
  end

  ---Waits until the screen matches the pattern, and returns it.
  ---@param pattern string
  function term.expect(_, pattern)
    return wait_for(function(screen) return screen:find(pattern) end, "nothing on the screen matches %q", pattern)
  end

  ---The end of the screen when a program waits for a line: a pattern, or nil for a program whose lines may be typed
  ---ahead.
  term.prompt = nil

  ---Types a text when the program waits for a line. Earlier, before the editor has taken over the terminal, the
  ---terminal would echo the text, and the editor would show it again.
  function term:at_prompt(text)
    if not self.prompt then return self:type(text) end
    wait_for(function(screen) return screen:find(self.prompt) end, "no prompt %q", self.prompt)
    self:type(text)
    wait_for(function(screen) return not screen:find(self.prompt) end, "%q is typed but not shown", text)
    return self
  end

  ---The same, and presses the Enter key.
  function term:enter(text) return self:at_prompt(text):press "Enter" end

  ---Waits until the screen matches the pattern, and another pattern only once, and returns it. It may be seen while it
  ---is being drawn.
  ---@param pattern string
  ---@param once string
  function term.expect_once(_, pattern, once)
    local function is_there_once(screen)
      return select(2, screen:gsub(once, "")) == 1 and screen:find(pattern)
    end
    return wait_for(is_there_once, "nothing on the screen matches %q, and once %q", pattern, once)
  end

  ---Changes the size; with several widths, through all of them, as if a user dragged the edge of a window.
  ---@param widths integer|integer[]
  ---@param new_rows integer
  function term.resize(_, widths, new_rows)
    for n, width in ipairs(type(widths) == "table" and widths or { widths }) do
      if n > 1 then run "run-shell 'sleep 0.01'" end
      run(("resize-window -x %d -y %d"):format(width, new_rows))
    end
  end

  ---Tells the program another size than the terminal's, as happens before the terminal reports a new size.
  function term.set_size_of_program(_, width, rows_of_program)
    local tty = run "display-message -p '#{pane_tty}'"
    assert(os.execute(("stty -F %s columns %d rows %d"):format(tty, width, rows_of_program)))
  end

  ---The process in the terminal.
  function term.pid() return capture("pgrep -P " .. run "display-message -p '#{pane_pid}'"):match "%d+" end

  ---Closes the terminal.
  function term.close()
    if io.type(to_tmux) ~= "file" then return end
    to_tmux:write "kill-server\n"
    from_tmux:read "a" -- tmux ends only when its output is read
    to_tmux:close()
    from_tmux:close()
    tmux:close()
    os.remove(socket)
  end

  opened[#opened + 1] = term
  return term
end

---Starts runnel in a directory, where its history is, too, and waits for its prompt.
---@param dir table of process.directory
---@param arguments? string the options, as typed in a shell
---@param opts? { columns?: integer, rows?: integer, environment?: string, prompt?: string } `environment`: variables,
---as in a shell; `prompt`: a pattern, by default for both of runnel's
function terminal.runnel(dir, arguments, opts)
  local term = terminal.open(("cd %s && XDG_STATE_HOME=. LC_ALL=C.UTF-8 %s %s %s"):format(dir.path,
    opts and opts.environment or "", process.runnel, arguments or ""), opts)
  term.prompt = opts and opts.prompt or ">$"
  term:expect(term.prompt)
  return term
end

local directory -- of a spec

---For before_each.
---@return table directory of process.directory
function terminal.begin()
  directory = process.directory()
  return directory
end

local function close_all()
  for _, term in ipairs(opened) do term:close() end
  opened = {}
end

---For after_each: closes the terminals, and removes the directory.
function terminal.finish()
  close_all()
  directory:remove()
end

---Starts runnel in the directory of the spec, as terminal.runnel does, and closes the terminals before it.
---@param arguments? string
---@param opts? table
function terminal.prompt(arguments, opts)
  close_all()
  return terminal.runnel(directory, arguments, opts)
end

return terminal
