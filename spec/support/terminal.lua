---Runs a program in a terminal of tmux, so that specs can type and see the screen.

local process = require "spec.support.process"
local rn = require "runnel"

local terminal = {}

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return text
end

---Whether terminals are available.
terminal.available = os.execute "command -v tmux >/dev/null 2>&1" == true

---Starts a command in a terminal of its own.
---@param command string
---@param opts? { columns?: integer, rows?: integer }
function terminal.open(command, opts)
  local columns, rows = opts and opts.columns or 80, opts and opts.rows or 24
  local socket = os.tmpname()
  local tmux = "tmux -u -f /dev/null -S " .. socket .. " "
  local term = {}

  local function run(arguments) assert(os.execute(tmux .. arguments .. " 2>/dev/null")) end

  -- Keeps the screen after the program has ended, until the terminal is closed.
  local script = command .. "; echo \"[ended $?]\"; exec sleep 600"
  run(("new-session -d -x %d -y %d %s"):format(columns, rows, quote(script)))

  ---Types a text, as it is.
  function term:type(text)
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

  ---Types bytes.
  function term:bytes(bytes)
    run("send-keys -H " .. bytes:gsub(".", function(c) return ("%02x "):format(c:byte()) end))
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
    return (capture(tmux .. "capture-pane -p " .. (colours and "-e" or "") .. " 2>/dev/null"):gsub("[ \n]+$", ""))
  end

  ---Waits until the screen matches the pattern, and returns it.
  ---@param pattern string
  ---@param seconds? number
  function term:expect(pattern, seconds)
    local deadline = rn.now() + (seconds or 60) * 1000
    local screen
    repeat
      screen = self:screen()
      if screen:find(pattern) then return screen end
      rn.sleep(5)
    until rn.now() > deadline
    error(("nothing on the screen matches %q:\n%s"):format(pattern, screen), 2)
  end

  ---Waits until the screen matches the pattern, and another pattern only once, and returns it. It may be seen while it
  ---is being drawn.
  ---@param pattern string
  ---@param once string
  function term:expect_once(pattern, once)
    local deadline = rn.now() + 60000
    local screen, n
    repeat
      screen = self:screen()
      n = select(2, screen:gsub(once, ""))
      if n == 1 and screen:find(pattern) then return screen end
      rn.sleep(5)
    until rn.now() > deadline
    error(("nothing on the screen matches %q, and %d times %q:\n%s"):format(pattern, n, once, screen), 2)
  end

  ---Changes the size; given several widths, through all of them, as somebody does who drags the edge of a window.
  ---@param widths integer|integer[]
  ---@param new_rows integer
  function term.resize(_, widths, new_rows)
    local commands = {}
    for n, width in ipairs(type(widths) == "table" and widths or { widths }) do
      commands[n] = ("resize-window -x %d -y %d"):format(width, new_rows)
    end
    run(table.concat(commands, " ';' run-shell 'sleep 0.01' ';' "))
  end

  ---The process that runs in it.
  function term.pid()
    local shell = capture(tmux .. "display-message -p '#{pane_pid}'"):match "%d+"
    return capture("pgrep -P " .. shell):match "%d+"
  end

  ---Closes the terminal.
  function term.close()
    os.execute(tmux .. "kill-server 2>/dev/null")
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
