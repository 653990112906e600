---Programs that specs start.

local patience = require "spec.support.patience"

local process = {}

-- Whether the system shows a process's state as a file, which a shell reads without another process.
local stat = io.open "/proc/self/stat"
local has_proc = stat ~= nil
if stat then stat:close() end

---The executable that is under test.
process.runnel = os.getenv "RUNNEL" or "build/bin/runnel"

---A new directory for files, with methods write(name, text), read(name) and remove(). A to-be-closed variable removes
---it.
---@return { path: string }
function process.directory()
  local pipe = assert(io.popen "mktemp -d")
  local dir = { path = pipe:read "l" }
  pipe:close()

  function dir:write(name, text)
    local file = assert(io.open(self.path .. "/" .. name, "w"))
    file:write(text)
    file:close()
  end

  function dir:read(name)
    local file = io.open(self.path .. "/" .. name)
    if not file then return nil end
    local text = file:read "a"
    file:close()
    return text
  end

  function dir:remove() os.execute(("rm -rf '%s'"):format(self.path)) end

  return setmetatable(dir, { __close = dir.remove })
end

---Runs a shell command in a directory. It is killed before the spec has reached its limit.
---@param path string the directory, where files are written: never the tree
---@param command string
---@param input? string what it reads; nothing by default
---@return { out: string, err: string, status: integer }
function process.run(path, command, input)
  assert(path:find "^/.", "process.run writes files: it needs a directory of its own, as process.directory makes one")
  local stdin = "/dev/null"
  if input then
    stdin = path .. "/.stdin"
    local file = assert(io.open(stdin, "w"))
    file:write(input)
    file:close()
  end
  -- Writes the command to a script, so that it needs no quoting.
  local script = path .. "/.command"
  local file = assert(io.open(script, "w"))
  file:write("cd '", path, "'\n", command, "\n")
  file:close()
  local err = path .. "/.stderr"
  local pipe = assert(io.popen(("%ssh '%s' <'%s' 2>'%s'"):format(patience.timeout(), script, stdin, err)))
  local out = pipe:read "a"
  local _, _, status = pipe:close()
  local err_file = assert(io.open(err))
  local err_text = err_file:read "a"
  err_file:close()
  return { out = out, err = err_text, status = status }
end

---A shell command that waits until a process sleeps, waiting for a timer or an event, or has ended.
---@param pid string as in "$pid"
---@return string command
function process.until_it_sleeps(pid)
  local read_state = has_proc and [[{ read -r _ _ state _ <"/proc/%s/stat"; } 2>/dev/null]]
    or "state=$(ps -o stat= -p %s)"
  return ([[while state=; [ -n "%s" ] && %s; case $state in S* | Z* | '') false ;; esac; do sleep 0.01; done]])
    :format(pid, read_state:format(pid))
end

---A command for a program's os.execute: sends the program SIGINT when it sleeps, or, if it computes, at once after the
---command. The program must not sleep before, except in the command.
---@param when? string a shell command that must first succeed, or "computes"
---@return string command
function process.interrupt(when)
  return ("{ p=$PPID; while kill -0 $$ 2>/dev/null; do sleep 0.01; done; %s; kill -INT $p 2>/dev/null; } &"):format(
    when == "computes" and ":"
    or (when and ("until %s; do sleep 0.01; done; "):format(when) or "") .. process.until_it_sleeps "$p")
end

return process
