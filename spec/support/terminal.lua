---Runs a program in a terminal of tmux, so that specs can type and see the screen.

local patience = require "spec.support.patience"
local process = require "spec.support.process"

local terminal = {}

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return text
end

-- How long a screen may take to look as expected, in ms.
local PATIENCE = 60000

---Whether terminals are available.
terminal.available = os.execute "command -v tmux >/dev/null 2>&1" == true

---Starts a command in a terminal of its own. tmux runs in its control mode: it reads commands and answers each of them
---between the lines %begin and %end, and says what happens in between, above all %output when a program has written.
---So a spec waits for what the program does, without a process for each look at the screen.
---@param command string
---@param opts? { columns?: integer, rows?: integer }
function terminal.open(command, opts)
  local columns, rows = opts and opts.columns or 80, opts and opts.rows or 24
  local socket = os.tmpname()
  local answers = socket .. ".answers"
  assert(os.execute("mkfifo " .. answers))
  -- Keeps the screen after the program has ended, until the terminal is closed.
  local script = command .. "; echo \"[ended $?]\"; exec sleep 600"
  local to_tmux = assert(io.popen(("exec tmux -C -u -f /dev/null -S %s new-session -x %d -y %d %s >%s 2>&1"):format(
    socket, columns, rows, quote(script), answers), "w"))
  local from_tmux = assert(io.open(answers))
  os.remove(answers)
  to_tmux:setvbuf "line"
  local term = {}

  local function next_line() return from_tmux:read "l" or error "tmux has ended" end

  -- The lines that answer a command; raises if it fails. Passes over what tmux says before.
  local function answer()
    local number, line
    repeat number = next_line():match "^%%begin (.*)$" until number
    local lines = {}
    while true do
      line = next_line()
      if line == "%end " .. number then return table.concat(lines, "\n") end
      if line == "%error " .. number then error("tmux: " .. table.concat(lines, "\n"), 3) end
      lines[#lines + 1] = line
    end
  end

  local function run(arguments)
    assert(not arguments:find "\n", "a command of tmux is one line")
    to_tmux:write(arguments, "\n")
    return answer()
  end

  answer() -- of new-session
  run "set -g destroy-unattached on" -- also when the process of the spec is killed
  -- Each second tmux says something, so that a wait for what does not come ends.
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

  ---Types a text and the Enter key.
  function term:enter(text) return self:type(text):press "Enter" end

  local function paste(text, options)
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(text)
    file:close()
    run("load-buffer " .. path)
    run("paste-buffer " .. options)
    os.remove(path)
  end

  ---Pastes a text, of any length, and marks it as pasted for programs that have asked for that.
  function term:paste(text)
    paste(text, "-p")
    return self
  end

  ---Pastes a text as terminals do that have no such marks: as if it were typed.
  function term:paste_unmarked(text)
    paste(text, "")
    return self
  end

  ---What is on the screen, without blank lines at the end; with `colours` as escape sequences.
  function term.screen(_, colours)
    return (run("capture-pane -p" .. (colours and " -e" or "")):gsub("[ \n]+$", ""))
  end

  -- Looks at the screen each time that something has happened, until f likes it. If it never does, returns nil and what
  -- was there at last.
  local function wait_for(f)
    local is_over = patience.limit(PATIENCE)
    while true do
      local screen = term:screen()
      if f(screen) then return screen end
      if is_over() then return nil, screen end
      repeat local line = next_line() until line:find "^%%[%a-]+"
    end
  end

  ---Waits until the screen matches the pattern, and returns it.
  ---@param pattern string
  function term.expect(_, pattern)
    local screen, last = wait_for(function(screen) return screen:find(pattern) end)
    return screen or error(("nothing on the screen matches %q:\n%s"):format(pattern, last), 2)
  end

  ---Waits until the screen matches the pattern, and another pattern only once, and returns it. It may be seen while it
  ---is being drawn.
  ---@param pattern string
  ---@param once string
  function term.expect_once(_, pattern, once)
    local n
    local screen, last = wait_for(function(screen)
      n = select(2, screen:gsub(once, ""))
      return n == 1 and screen:find(pattern)
    end)
    return screen or error(("nothing on the screen matches %q, and %d times %q:\n%s"):format(pattern, n, once, last), 2)
  end

  ---Changes the size; given several widths, through all of them, as somebody does who drags the edge of a window.
  ---@param widths integer|integer[]
  ---@param new_rows integer
  function term.resize(_, widths, new_rows)
    for n, width in ipairs(type(widths) == "table" and widths or { widths }) do
      if n > 1 then run "run-shell 'sleep 0.01'" end
      run(("resize-window -x %d -y %d"):format(width, new_rows))
    end
  end

  ---Tells the program another size than the terminal has, as it is while the terminal has not told the new one.
  function term.set_size_of_program(_, width, rows_of_program)
    local tty = run "display-message -p '#{pane_tty}'"
    assert(os.execute(("stty -F %s columns %d rows %d"):format(tty, width, rows_of_program)))
  end

  ---The process that runs in it.
  function term.pid() return capture("pgrep -P " .. run "display-message -p '#{pane_pid}'"):match "%d+" end

  ---Closes the terminal.
  function term.close()
    if io.type(to_tmux) ~= "file" then return end
    to_tmux:write "kill-server\n"
    to_tmux:close()
    from_tmux:close()
    os.remove(socket)
  end

  return term
end

---Starts runnel in a directory, where its history is, too, and waits for its prompt.
---@param dir table of process.directory
---@param arguments? string the options, as typed in a shell
---@param opts? { columns?: integer, rows?: integer, environment?: string } `environment`: variables, as in a shell
function terminal.runnel(dir, arguments, opts)
  local term = terminal.open(("cd %s && XDG_STATE_HOME=. LC_ALL=C.UTF-8 %s %s %s"):format(dir.path,
    opts and opts.environment or "", process.runnel, arguments or ""), opts)
  term:expect "> *$"
  return term
end

return terminal
