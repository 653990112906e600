---Limits of waits in specs. A limit is meant for an idle machine; if more programs are ready than there are processors,
---each gets a part of one, and the limit grows with their number. So a limit ends hanging specs, and no slow one.
---scripts/watchdog does the same.

local rn = require "runnel"

local patience = {}

---How long a spec waits for what must happen, in ms of an idle machine: much longer than anything takes that works, and
---less than the watchdog allows a spec.
patience.most = 60000

local processors

local function count_processors()
  local file <close> = io.open "/proc/cpuinfo"
  local n = 0
  for line in file and file:lines() or function() end do
    if line:find "^processor%s*:" then n = n + 1 end
  end
  return math.max(1, n)
end

---Whether the specs run under valgrind.
patience.is_under_valgrind = (os.getenv "UNDER" or "") ~= ""

-- How much slower specs run then.
local SLOWER <const> = patience.is_under_valgrind and 10 or 1

---How much longer things may take than on an idle machine: the number of programs that share a processor, according to
---the load of the last minute; at least 1. Under valgrind, 10 times that.
---@return number
function patience.factor()
  processors = processors or count_processors()
  local file <close> = io.open "/proc/loadavg"
  return SLOWER * math.max(1, (file and file:read "n" or 0) / processors)
end

---The seconds that a command may take now, for `timeout`.
---@param seconds number on an idle machine
---@return integer
function patience.seconds(seconds) return math.ceil(seconds * patience.factor()) end

---A function that tells whether a limit that begins now has passed.
---@param ms number on an idle machine
---@return fun(): boolean
function patience.limit(ms)
  local start = rn.now()
  return function()
    local passed = rn.now() - start
    return passed > ms and passed > ms * patience.factor()
  end
end

---Waits until f returns a true value, and returns it; after the limit, returns f's last results.
---@param f fun(): any
---@param ms? number the limit, if f need not become true; default `most`
---@return any
function patience.wait_until(f, ms)
  local is_over, pause = patience.limit(ms or patience.most), 1
  repeat
    local value = f()
    if value then return value end
    rn.sleep(pause)
    pause = math.min(1.5 * pause, 25) -- what is quick is seen soon, and what takes long costs little
  until is_over()
  return f()
end

---The same, but raises an error after the limit, at the caller's line, with f's second result.
---@param f fun(): any, any
---@return any
function patience.wait_for(f)
  local value, why = patience.wait_until(f)
  if value then return value end
  error("it has not happened" .. (why ~= nil and ": " .. tostring(why) or ""), 2)
end

---The same, but lets no go block run meanwhile, as if the program computed.
---@param f fun(): any
function patience.compute_until(f)
  local is_over = patience.limit(patience.most)
  while not f() do
    if is_over() then error("it has not happened", 2) end
  end
end

return patience
