---Programs that serve remote stages over a real server, for specs.

local rn = require "runnel"
local nats_server = require "spec.support.queue.nats_server"

local nats, missing = nats_server.library()

---@field missing? string why there is no server, and specs are pending
local remote_workers = { missing = missing }

local LUA = os.getenv "LUA" or "lua5.4"

-- A worker program: url, name of the stage and of the module, n, the directory of the module, ack_wait.
local WORKER = [[
local nats = require "runnel.nats"
package.path = arg[5] .. "/?.lua;" .. package.path
local conn = assert(nats.connect(arg[1], { reconnect_wait = 50 }))
local worker = conn:serve(arg[2], math.tointeger(arg[4]), arg[3], { ack_wait = tonumber(arg[6]) })
print "serves"
worker:wait()
local stats = worker:stats()
print(("ended: %d done, %d failed"):format(stats.done, stats.failed))
conn:drain()
]]

-- The modules for workers. Each works here, in threads, and elsewhere.
local MODULES = {
  square = [[
    local rn = require "runnel"
    return function(v, out)
      rn.sleep(v % 3)
      if v % 10 == 7 then error("no " .. v, 0) end
      if not out then return v * v end
      out:put(v * v)
      out:put(-v)
      out:close()
    end
  ]],
  -- Kills its worker for some values; not at once, so that jobs that have begun with it can end.
  poison = [[
    local rn = require "runnel"
    return function(v)
      if v % 50 == 0 then
        rn.sleep(250)
        os.execute "kill -KILL $PPID"
      end
      rn.sleep(5)
      return v
    end
  ]],
  -- Says on stdout when a job begins and ends.
  slow = [[
    local rn = require "runnel"
    return function(v)
      print("begins " .. v)
      io.stdout:flush()
      rn.sleep(v)
      print("ends " .. v)
      io.stdout:flush()
      return v
    end
  ]],
  -- Says when a job begins, and waits for a file. A job is { number, path of the file }.
  gated = [[
    local rn = require "runnel"
    return function(v)
      io.write("begins ", v[1], "\\n")
      io.stdout:flush()
      repeat
        rn.sleep(20)
        local file <close> = io.open(v[2])
      until file
      return v[1]
    end
  ]],
  -- Computes for so many ms, without letting any other go block run.
  busy = [[
    local rn = require "runnel"
    return function(v)
      print("begins " .. v)
      io.stdout:flush()
      local start = rn.now()
      os.execute(("sleep %g"):format(v / 1000)) -- as if it computed
      return v
    end
  ]],
  -- How many run at a time, as it sees it; and what process it is.
  peak = [[
    local rn = require "runnel"
    local running = 0
    local file <close> = io.open "/proc/self/stat"
    local pid = file and file:read "n" or 0
    return function(v)
      running = running + 1
      local now = running
      rn.sleep(10)
      running = running - 1
      return { v, now, pid }
    end
  ]],
  large = [[
    return function(v) return ("x"):rep(v) end
  ]],
}

---A test with a server and a connection to it.
---@param f fun(server: table, conn: runnel.nats.Connection)
---@return fun()
function remote_workers.each_test(f)
  return function()
    local server <close> = nats_server.start()
    for name, text in pairs(MODULES) do server.set:write(name .. ".lua", text) end
    server.set:write("worker.lua", WORKER)
    local path = package.path
    package.path = server.set.dir .. "/?.lua;" .. path
    local conn <close> = assert(nats.connect(server.url, { reconnect_wait = 50 }))
    local ok, err = xpcall(f, debug.traceback, server, conn)
    package.path = path
    for name in pairs(MODULES) do package.loaded[name] = nil end
    if not ok then error(err, 0) end
  end
end

---Starts a worker program: of the stage `name`, with n jobs at a time, the module (by default of the same name), and
---ack_wait.
function remote_workers.start_worker(server, name, n, module, ack_wait)
  local command = { LUA, server.set.dir .. "/worker.lua", server.url, name, module or name, n, server.set.dir }
  -- What may be killed, or stall, must come back soon; and yet a busy machine must seldom be taken for that.
  if not ack_wait and (name == "busy" or name == "slow" or name == "gated") then ack_wait = 2000 end
  command[#command + 1] = ack_wait
  return server.set:start(command)
end

---Starts k of them, and waits until they serve.
function remote_workers.start_workers(server, k, name, n, ack_wait)
  local list = {}
  for i = 1, k do list[i] = remote_workers.start_worker(server, name, n, nil, ack_wait) end
  for i = 1, k do assert(list[i]:says("serves"), list[i]:output()) end
  return list
end

---Starts a worker again whenever it has ended, until the result is called.
function remote_workers.keep_up(server, list, name, n)
  local over = false
  local block = rn.go(function()
    while not over do
      for i = 1, #list do
        if list[i]:status() and not over then list[i] = remote_workers.start_worker(server, name, n) end
      end
      rn.sleep(30)
    end
  end)
  return function()
    over = true
    block:take()
  end
end

---The number of messages in a stage's stream.
function remote_workers.jobs_left(conn, name)
  local message = assert(conn:request("$JS.API.STREAM.INFO.runnel-jobs-" .. name, "", { timeout = 5000 }))
  return math.tointeger(tonumber(message.data:match '"messages":(%d+)'))
end

---The numbers from 1 to n.
function remote_workers.range(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

return remote_workers
