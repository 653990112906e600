---A program in a real terminal, of tmux: what specs type, and what they see.

local terminal = {}

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return text
end

---Whether there is a terminal to be had.
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

  -- What is on the screen in the end can be looked at, until the terminal is closed.
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

  ---Pastes a text, of any length.
  function term:paste(text)
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(text)
    file:close()
    run("load-buffer " .. path)
    run "paste-buffer"
    os.remove(path)
    return self
  end

  ---What is on the screen, without blank lines at the end.
  function term.screen() return (capture(tmux .. "capture-pane -p 2>/dev/null"):gsub("[ \n]+$", "")) end

  ---Waits until the screen matches the pattern, and returns it.
  ---@param pattern string
  ---@param seconds? number
  function term:expect(pattern, seconds)
    local left, pause, screen = seconds or 10, 0.01, nil
    while left > 0 do
      screen = self:screen()
      if screen:find(pattern) then return screen end
      os.execute("sleep " .. pause)
      left, pause = left - pause, math.min(2 * pause, 0.05)
    end
    error(("nothing on the screen matches %q:\n%s"):format(pattern, screen), 2)
  end

  function term.resize(_, new_columns, new_rows) run(("resize-window -x %d -y %d"):format(new_columns, new_rows)) end

  ---The process that runs in it.
  function term.pid()
    local shell = capture(tmux .. "display-message -p '#{pane_pid}'"):match "%d+"
    return capture("pgrep -P " .. shell):match "%d+"
  end

  ---Takes the terminal away.
  function term.close()
    os.execute(tmux .. "kill-server 2>/dev/null")
    os.remove(socket)
  end

  return term
end

return terminal
