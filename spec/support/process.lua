---Programs that specs start.

local lfs = require "lfs"

local process = {}

-- Whether the system shows a process's state as a file, which a shell reads without another process.
local stat = io.open "/proc/self/stat"
local has_proc = stat ~= nil
if stat then stat:close() end

---The executable that is under test.
process.runnel = os.getenv "RUNNEL" or "build/bin/runnel"

-- Removes a file, or a directory with all that is in it.
local function remove(path)
  if lfs.symlinkattributes(path, "mode") == "directory" then
    for name in lfs.dir(path) do
      if name ~= "." and name ~= ".." then remove(path .. "/" .. name) end
    end
  end
  os.remove(path)
end

---A new directory for files, with methods write(name, text), read(name) and remove(). A to-be-closed variable removes
---it.
---@return { path: string }
function process.directory()
  local dir = { path = os.tmpname() }
  os.remove(dir.path)
  assert(lfs.mkdir(dir.path))

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

  function dir:remove() remove(self.path) end

  return setmetatable(dir, { __close = dir.remove })
end

---Runs a shell command, and waits until all have ended that write to its stdout; scripts/watchdog kills them if the
---spec hangs. It takes one process more, the shell, whose place the last program takes: most of the time of
---`make test` is what processes cost.
---@param command string
---@return string out what it has written to stdout
---@return integer status as a shell gives it: 128 and its number for a signal
function process.capture(command)
  local pipe = assert(io.popen(command))
  local out = pipe:read "a"
  local _, how, status = pipe:close()
  return out, how == "signal" and 128 + status or status
end

---Runs a shell command in a directory.
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
  local err = path .. "/.stderr"
  local out, status = process.capture(("cd '%s' && exec <'%s' 2>'%s' || exit\n%s"):format(path, stdin, err, command))
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

---A shell command that waits until a process, which has said that it is ready, has computed some more.
---@param pid string as in "$pid"
---@return string command
function process.until_it_computes(pid)
  if not has_proc then return "sleep 0.2" end
  local read_time = ([[read -r _ _ _ _ _ _ _ _ _ _ _ _ _ %%s _ <"/proc/%s/stat"]]):format(pid)
  return ([[%s; %s; while [ "$now" -lt $((before + 3)) ]; do sleep 0.01; %s; done]]):format(read_time:format "before",
    read_time:format "now", read_time:format "now")
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
