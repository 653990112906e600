---The common part of the specs of runnel.uv, which use real processes, files and sockets and must leave none behind.

local assert = require "luassert"
local rn = require "runnel"
local stage = require "spec.support.stage"

local uv_stage = {}

local files, descriptors
local warm = false

-- The process's open descriptors.
local function count_descriptors()
  local luv = require "luv"
  local n, list = 0, assert(luv.fs_scandir "/proc/self/fd")
  while luv.fs_scandir_next(list) do n = n + 1 end
  return n
end

---Whether descriptors can be counted here.
uv_stage.can_count = io.open "/proc/self/status" ~= nil

---For before_each, where luv is installed.
function uv_stage.open()
  stage.open()
  rn.driver(require "runnel.driver.luv")
  files = {}
  if not warm then -- opens the descriptors that the loop and the scheduler need
    local core = require "runnel.core"
    core.wakeup_fd()
    local watch = core.internal.sigterm_watch(core.chan(), 1000) -- the first server would do that
    if watch then core.internal.sigterm_unwatch(watch) end
    require("runnel.uv").spawn { "true" }
    require("runnel.uv").watch("/"):close()
    rn.run()
    warm = true
  end
  descriptors = uv_stage.can_count and count_descriptors()
end

---Serves each connection to a port by a function, in a go block of its own, and closes it then.
---@param serve fun(conn: table)
---@return table conns the channel of connections
---@return integer port
function uv_stage.serve(serve)
  local conns, port = assert(require("runnel.uv").listen("127.0.0.1", 0))
  rn.go(function()
    for conn in conns do
      rn.go(function()
        local closing <close> = conn
        serve(closing)
      end)
    end
  end)
  return conns, port
end

-- Runs until no handle is alive, or until a time (of luv.hrtime), since a test that failed half way may have left a
-- server open. Returns the names of those that are still alive then.
local function settle(deadline)
  local luv = require "luv"
  while rn.step() do
    if luv.hrtime() > deadline then break end
    luv.sleep(1)
  end
  local left = {}
  luv.walk(function(handle)
    if handle:is_active() and handle:has_ref() and not handle:is_closing() then
      left[#left + 1] = luv.handle_get_type(handle)
      handle:unref()
    end
  end)
  return left
end

---For after_each: waits until no handle is alive, and fails for remaining handles or descriptors.
function uv_stage.close()
  local deadline = require("luv").hrtime() + 30e9
  local alive = settle(deadline)
  for _, path in ipairs(files) do os.remove(path) end
  local left = uv_stage.can_count and count_descriptors() - descriptors
  for _ = 1, 200 do
    if not left or left <= 0 then break end
    collectgarbage() -- closes the test's garbage
    settle(deadline)
    require("luv").sleep(20)
    left = count_descriptors() - descriptors
  end
  stage.rest() -- files close in luv's threads, and only its loop learns that
  stage.close()
  if #alive > 0 then error("still open after 30 s: " .. table.concat(alive, ", "), 0) end
  if left and left > 0 then error(("%d descriptors are still open"):format(left), 0) end
end

---A path that is removed after the test; of a file, if a text is given.
---@param text? string
---@return string
function uv_stage.path(text)
  local path = os.tmpname()
  files[#files + 1] = path
  if not text then
    os.remove(path)
    return path
  end
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  return path
end

---The contents of a file.
function uv_stage.contents(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

---By how many KB the memory grows in some time.
---@param ms number
---@return number
function uv_stage.growth(ms)
  collectgarbage()
  local before = collectgarbage "count"
  rn.sleep(ms)
  collectgarbage()
  return collectgarbage "count" - before
end

-- ---- tests of connections with TLS and without: each gets the two ends, and closes them ----

---A writer waits until the other end reads.
function uv_stage.park_the_writer(a, b)
  local written = 0
  rn.go(function()
    while a:write(("x"):rep(65536)) do written = written + 65536 end
  end)
  local at_first
  repeat -- until it does not go on
    at_first = written
    rn.sleep(20)
    assert.is_true(written < 1e9)
  until written == at_first and written > 0
  local got = 0
  while got < at_first + 1000000 do got = got + #b:read():take() end
  assert.is_true(written > at_first)
  a:close()
  b:close()
end

---An end reads no more while nothing is taken from it.
function uv_stage.read_no_more(a, b)
  local input = b:read()
  local writer = rn.go(function() a:write(("x"):rep(16 * 1024 * 1024)) end)
  rn.sleep(10)
  assert.is_true(uv_stage.growth(20) < 1000)
  a:close()
  writer:take()
  assert.matches("^x+$", input:take())
  b:close()
end

return uv_stage
