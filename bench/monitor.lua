-- What the monitor promises: how soon it answers while a go block computes, how much it sends for 1000 channels that
-- all change, and how long a snapshot of 10,000 go blocks and channels takes.
--
--     lua5.4 bench/monitor.lua        after `make all` and eval "$(make -s env)"; needs bash

local monitored = require "spec.support.monitored"

local REQUESTS, SECONDS = 50, 10

-- ms until the first byte of each answer to a request for the page, sorted. Each has a connection of its own.
local function answer_times(program)
  local script = ([[
    for i in {1..%d}; do
      t=$EPOCHREALTIME
      exec 3<>/dev/tcp/127.0.0.1/%d
      printf "GET /?token=%s HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n" >&3
      read -r line <&3
      echo $((${EPOCHREALTIME/./} - ${t/./}))
      exec 3>&-
    done]]):format(REQUESTS, program.port, program.token, program.port)
  local pipe <close> = assert(io.popen(("LC_ALL=C bash -c '%s'"):format(script)))
  local times = {}
  for us in pipe:lines() do times[#times + 1] = tonumber(us) / 1000 end
  table.sort(times)
  return times
end

local function answers()
  local program = monitored.start [[
    local m = listen(0)
    rn.go(function() while true do end end)
    rn.yield()
  ]]
  local times = answer_times(program)
  program:close()
  print(("answers while Lua computes: median %.1f ms, most %.1f ms, of %d"):format(times[#times // 2], times[#times],
    #times))
end

local function stream()
  local program = monitored.start [[
    local m = listen(0)
    local chs = {}
    for i = 1, 1000 do
      chs[i] = rn.chan(10):name("channel number " .. i)
      rn.go(function() rn.rename("reader " .. i) for _ in chs[i] do end end)
    end
    while true do
      for _, ch in ipairs(chs) do ch:put(true) end
      rn.sleep(20)
    end
  ]]
  local text = program:stream(("timeout %d cat <&3"):format(SECONDS))()
  program:close()
  print(("events for 1000 channels: %.1f KB a second"):format(#text / SECONDS / 1024))
end

local function snapshot()
  local program = monitored.start [[
    local m = listen(0)
    local chs = {}
    for i = 1, 10000 do
      chs[i] = rn.chan()
      rn.go(function() chs[i]:take() end)
    end
    rn.sleep(60000)
  ]]
  local least = math.huge
  for us in program:events(15):gmatch '"taken":(%d+)' do
    if tonumber(us) > 0 then least = math.min(least, tonumber(us)) end
  end
  program:close()
  print(("a snapshot of 10,000 go blocks and channels: %.1f ms"):format(least / 1000))
end

answers()
stream()
snapshot()
