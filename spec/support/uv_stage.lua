---What the specs of runnel.uv share: real processes, files and sockets, of which nothing may be left behind.

local rn = require "runnel"
local stage = require "spec.support.stage"

local uv_stage = {}

local files, descriptors
local warm = false

-- The process's open descriptors, but for the one that lists them.
local function count_descriptors()
  local pipe = assert(io.popen "ls /proc/$PPID/fd | wc -l")
  local n = tonumber(pipe:read "a")
  pipe:close()
  return n
end

---Whether descriptors can be counted here.
uv_stage.can_count = io.open "/proc/self/status" ~= nil

---For before_each, where luv is installed.
function uv_stage.open()
  stage.open()
  rn.driver(require "runnel.driver.luv")
  files = {}
  if not warm then -- so that what the loop itself needs is open
    require("runnel.uv").spawn { "true" }
    require("runnel.uv").watch("/"):close()
    rn.run()
    warm = true
  end
  descriptors = uv_stage.can_count and count_descriptors()
end

-- ms that a test may leave something alive, at most.
local PATIENCE = 20000

-- Runs until nothing is alive; false if that takes too long.
local function settle()
  local driver, give_up = require "runnel.driver.luv", rn.now() + PATIENCE
  while true do
    local ms = rn.step()
    if not ms then return true end
    if rn.now() > give_up then return false end
    driver:wait(math.min(ms, 100))
  end
end

-- Lets go of all that is alive: a test that has failed halfway must not hold up the others for ever. Returns what that
-- was.
local function let_go()
  local names = {}
  for _, entry in ipairs(rn.ps()) do
    rn.cancel(entry.result)
    names[#names + 1] = "a go block at " .. tostring(entry.where)
  end
  require("luv").walk(function(handle)
    if handle:is_closing() or not handle:is_active() or not handle:has_ref() then return end
    names[#names + 1] = tostring(handle)
    handle:unref() -- whoever has it may still close it
  end)
  settle()
  return table.concat(names, ", ")
end

---For after_each: waits until nothing is alive, and fails if that takes too long, or a descriptor was left open.
function uv_stage.close()
  local alive = not settle() and let_go()
  for _, path in ipairs(files) do os.remove(path) end
  local left = uv_stage.can_count and count_descriptors() - descriptors
  for _ = 1, 5 do
    if not left or left <= 0 then break end
    collectgarbage() -- what a test has abandoned is closed once it is collected
    rn.run()
    left = count_descriptors() - descriptors
  end
  stage.close()
  if alive then error("still alive after the test: " .. alive, 0) end
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

return uv_stage
