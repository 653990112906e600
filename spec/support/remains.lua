---The remains of a test: go blocks, descriptors and child processes that did not exist at its beginning.

local patience = require "spec.support.patience"
local rn = require "runnel"

local remains = {}

-- The processes that this thread has started and not waited for, as a set; empty where the system does not tell.
local function children()
  local set = {}
  local file <close> = io.open "/proc/thread-self/children"
  for pid in (file and file:read "a" or ""):gmatch "%d+" do set[pid] = true end
  return set
end

-- Luv that scripts/busted.lua has loaded. It reads a directory without a process, and without `require` of a test.
local luv = debug.getregistry()["luv, kept for all specs"]

-- Descriptors that a library opens at first use and keeps: the eventfds by which threads wake each other, epoll and
-- inotify of an event loop, the /dev/null that libuv holds while it listens, and its pipes for signals and children.
local KEPT = { ["anon_inode:[eventfd]"] = true, ["anon_inode:[eventpoll]"] = true, ["anon_inode:inotify"] = true,
  ["anon_inode:[timerfd]"] = true, ["/dev/null"] = true }

-- The open descriptors, except those.
local function descriptors()
  local set = {}
  local list = luv and luv.fs_scandir "/proc/self/fd"
  while list do
    local fd = luv.fs_scandir_next(list)
    if not fd then break end
    local what = luv.fs_readlink("/proc/self/fd/" .. fd) -- none for the directory that was read
    if what and not KEPT[what] and not what:find "^pipe:" then set[fd] = what end
  end
  return set
end

-- The waiting go blocks with ids above a number.
local function go_blocks(mark)
  local set = {}
  for _, entry in ipairs(rn.ps()) do
    if entry.id > mark and entry.state ~= "running" then
      set[entry.id] = ("%s: %s at %s"):format(entry.name, entry.operation or entry.state, entry.where or "?")
    end
  end
  return set
end

-- The pending timers of rn.after.
local function timers()
  local set = {}
  for _, entry in ipairs(rn.timers()) do set[entry.timer] = entry.name end
  return set
end

---The present resources, for a later comparison.
---@return table before
function remains.now()
  return { id = rn.chan():stats().id, children = children(), descriptors = descriptors(), timers = timers() }
end

local function added(list, what, now, before)
  for key, value in pairs(now) do
    if not before[key] then list[#list + 1] = ("%s %s"):format(what, value == true and key or value) end
  end
end

local function list_since(before)
  local list = {}
  added(list, "child process", children(), before.children)
  added(list, "descriptor", descriptors(), before.descriptors)
  added(list, "go block", go_blocks(before.id), {})
  added(list, "timer", timers(), before.timers)
  table.sort(list)
  return list
end

---The new resources since then, as a text; nil without any. First lets garbage be collected and closing ones end, such
---as threads.
---@param before table from remains.now
---@return string?
function remains.since(before)
  local list = list_since(before)
  if #list == 0 then return nil end
  local is_over = patience.limit(2000)
  repeat
    collectgarbage()
    list = list_since(before)
    if #list == 0 then return nil end
    rn.sleep(1)
  until is_over()
  return table.concat(list, "; ", 1, math.min(#list, 5))
end

return remains
