---Neovim's main loop in a simulation, for tests: the functions of `vim` that call back. Time is virtual, and explore
---tries each order in which processes may end.
---
---    vim = require "runnel.lite.fake_vim" {
---      system = function(command, opts) return { code = 0, stdout = "" }, 20 end, -- what it gives, after so many ms
---    }
---
---Has schedule, schedule_wrap, defer_fn, system, notify (into the list messages), uv and loop (new_timer, hrtime, now),
---and the given fields. What it has not is looked up in the `vim` of the Neovim in which the test runs, if it does.

local rn = require "runnel.lite"

local unpack = table.unpack or unpack -- luacheck: ignore 113 143

local timer = {}
timer.__index = timer

function timer:start(ms, every, f)
  self:stop()
  local number = self.number
  rn.go(function()
    rn.sleep(ms)
    while self.number == number do
      f()
      if every == 0 then return end
      rn.sleep(every)
    end
  end)
  return 0
end
function timer:stop() self.number = self.number + 1 end
function timer:close()
  self:stop()
  self.is_closed = true
end
function timer:is_closing() return self.is_closed or false end

-- A process: `answer(command, opts)` returns what it gives, and after how many ms.
local function start_process(answer, command, opts, on_exit)
  local result, ms = answer(command, opts)
  if opts.timeout and opts.timeout < (ms or 0) then
    result, ms = { code = 124, signal = 15, stdout = "", stderr = "" }, opts.timeout
  end
  local killed, ended, results = rn.promise_chan():name "kill", false, rn.promise_chan():name "result"
  rn.go(function()
    local signal, from = rn.alts({ killed, rn.timeout(ms or 0) }, { priority = true })
    ended = true
    if from == killed then result = { code = 0, signal = signal, stdout = "", stderr = "" } end
    results:offer(result)
    if on_exit then on_exit(result) end
  end)
  local process = {}
  function process.kill(_, signal)
    killed:offer(type(signal) == "number" and signal or signal == "sigkill" and 9 or 15)
  end
  function process.is_closing() return ended end
  function process.wait(_, limit)
    local it = rn.alts({ results, limit and rn.timeout(limit) }, { priority = true })
    if it then return it end
    process:kill "sigkill"
    it = results:take()
    return { code = 124, signal = it.signal, stdout = it.stdout, stderr = it.stderr }
  end
  return process
end

---@param fields? table
return function(fields)
  local vim, queue = { messages = {} }, {}
  for key, value in pairs(fields or {}) do vim[key] = value end
  local answer = vim.system
  -- The main loop calls one at a time, in their order.
  function vim.schedule(f)
    queue[#queue + 1] = f
    if queue[2] then return end
    rn.go(function()
      while queue[1] do
        queue[1]()
        table.remove(queue, 1)
      end
    end)
  end
  function vim.schedule_wrap(f)
    return function(...)
      local args, n = { ... }, select("#", ...)
      vim.schedule(function() f(unpack(args, 1, n)) end)
    end
  end
  local function new_timer() return setmetatable({ number = 0 }, timer) end
  function vim.defer_fn(f, ms)
    local it = new_timer()
    it:start(ms, 0, vim.schedule_wrap(f))
    return it
  end
  if answer then
    function vim.system(command, opts, on_exit)
      if type(opts) == "function" then opts, on_exit = {}, opts end
      return start_process(answer, command, opts or {}, on_exit)
    end
  end
  function vim.notify(text) vim.messages[#vim.messages + 1] = text end
  vim.uv = { new_timer = new_timer, hrtime = function() return rn.now() * 1e6 end, now = rn.now }
  vim.loop = vim.uv
  return setmetatable(vim, { __index = rawget(_G, "vim") })
end
