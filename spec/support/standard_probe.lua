-- A program for spec/uv/standard_spec.lua: uses its standard streams by runnel.uv in all ways, and looks after each
-- whether print, io, os.execute, io.popen and children find them as they were. Arguments: a directory with the named
-- pipes "ask" and "answer", in which "result" is written; the kind of the streams; and how many lines are much output.
--
-- A line that is written to "ask" makes the spec write a line to standard input, and then one to "answer".

local dir, kind, many = arg[1], arg[2], tonumber(arg[3])
local rn, uv = require "runnel", require "runnel.uv"

local result = assert(io.open(dir .. "/result", "w"))
local ask, answer
if kind ~= "closed" then ask, answer = assert(io.open(dir .. "/ask", "w")), assert(io.open(dir .. "/answer")) end

local where = "at first"
local function check(ok, what, ...)
  if not ok then result:write(("%s: %s: %s\n"):format(where, what, table.concat({ ... }, ", "))) end
end

-- ---- how the streams are ----

-- The mode and the target of each standard descriptor.
local function state()
  local list = {}
  for fd = 0, 2 do
    local info = io.open("/proc/self/fdinfo/" .. fd)
    list[#list + 1] = info and info:read "a":match "flags:%s*(%d+)" or "none"
    if info then info:close() end
    list[#list + 1] = require "luv".fs_readlink("/proc/self/fd/" .. fd) or "none"
  end
  return table.concat(list, " ")
end

local at_first = state()

local n = 0 -- lines of input
local function line_of_input()
  n = n + 1
  ask:write("line ", n, "\n")
  ask:flush()
  answer:read "l"
  return "line " .. n
end

local written = { out = 0, err = 0 }
local pad = (" pad"):rep(20)

local function look(much)
  check(state() == at_first, "changed", state())
  if kind == "closed" then
    local text, err = io.read()
    check(not text and err == "Bad file descriptor", "io.read", tostring(text), tostring(err))
    local ok, why = io.write "x" -- fails at once if the output of the program has no buffer
    if ok then ok, why = ok:flush() end
    check(not ok and why == "Bad file descriptor", "io.write", tostring(ok), tostring(why))
    return
  end
  for i = 1, much and many or 1 do print("OUT", i, pad) end
  check(io.write("OUT by io.write\n"), "io.write")
  check(io.stderr:write("ERR by io.stderr\n"), "io.stderr")
  io.stdout:flush()
  check(os.execute "echo OUT by os.execute; echo ERR by os.execute >&2", "os.execute")
  local cat = io.popen("cat", "w")
  cat:write "OUT by io.popen\n"
  check(cat:close(), "io.popen, w")
  written.out = written.out + (much and many or 1) + 3
  written.err = written.err + 2

  local line, got, err = line_of_input(), io.read()
  check(got == line, "io.read", tostring(got), tostring(err))
  line = line_of_input()
  check(os.execute(('IFS= read -r x && [ "$x" = "%s" ]'):format(line)), "os.execute: read")
  line = line_of_input()
  local head = io.popen "IFS= read -r x && echo \"$x\""
  got = head:read "l"
  check(got == line, "io.popen: read", tostring(got))
  head:close()
end

-- ---- the uses ----

-- Cancels the go blocks of the library.
local function cancel_all()
  for _, entry in ipairs(rn.ps()) do
    if entry.state ~= "running" then rn.cancel(entry.result, "killed") end
  end
end

local is_for = {
  input = { terminal = { true, true, true }, socket = { true, true, true }, pipe = { true }, file = { true },
    closed = {} },
  output = { terminal = { true, true, true }, socket = { true, true, true }, pipe = { [2] = true, [3] = true },
    file = { [2] = true, [3] = true }, closed = {} },
}

local uses = {}

function uses.write(fd)
  local ch = rn.chan()
  local done = uv.write(fd, ch)
  if not is_for.output[kind][fd + 1] then
    ch:put "no\n"
    check(done:take() == nil, "uv.write", "no error")
    return function() end
  end
  ch:put(fd == 2 and "ERR by uv.write\n" or "OUT by uv.write\n")
  ch:put "" -- is taken when the line is written
  written[fd == 2 and "err" or "out"] = written[fd == 2 and "err" or "out"] + 1
  return function()
    ch:close()
    local size, err = done:take()
    check(size == 16, "uv.write", tostring(size), tostring(err))
  end, done
end

local function reader(read)
  return function(fd)
    local ch = read(fd)
    if not is_for.input[kind][fd + 1] then
      local text, err = ch:take()
      check(text == nil and err, "reading", tostring(text))
    elseif fd == 0 then
      local line, text = line_of_input(), ch:take()
      check(text and text:gsub("\r?\n$", "") == line, "reading", tostring(text))
    end
    return function() ch:close() end, ch
  end
end

uses.lines = reader(uv.lines)
uses.read = reader(uv.read)
uses.pieces = reader(function(fd) return uv.lines(fd, { pieces = 1 }) end)

function uses.spawn(fd)
  if kind == "closed" then return function() end end
  local commands = { [0] = "read x", "echo OUT by uv.spawn", "echo ERR by uv.spawn >&2" }
  if fd == 0 then line_of_input() end
  local p = uv.spawn { "sh", "-c", commands[fd] .. "; exec sleep 60", stdin = 0, stdout = 1, stderr = 2 }
  if fd ~= 0 then
    local to = fd == 2 and "err" or "out"
    written[to] = written[to] + 1
  end
  local gone = uv.run { "sh", "-c", ("until [ \"$(cat /proc/%d/comm)\" = sleep ]; do sleep 0.01; done"):format(p.pid) }
  check(gone and gone.code == 0, "uv.run")
  return function() p:stop() end
end

look(true)
for _, use in ipairs { "write", "lines", "read", "pieces", "spawn" } do
  for fd = 0, 2 do
    for _, phase in ipairs { "open", "ended", "cancelled" } do
      where = ("%s of %d, %s"):format(use, fd, phase)
      local finish = uses[use](fd)
      if phase == "ended" then finish() elseif phase == "cancelled" then cancel_all() end
      look(use == "write" or use == "lines" and fd == 0)
      if phase == "open" then finish() elseif phase == "cancelled" and use == "spawn" then finish() end
      rn.yield()
    end
  end
end
result:write(("written: %d %d\n"):format(written.out, written.err))
result:close()
os.exit(0, true)
