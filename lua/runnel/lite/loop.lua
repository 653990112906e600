---runnel.lite in a program without any loop: rn.run waits in the system's sleep, and not by computing. Needs
---luv, luasocket, or LuaJIT on a POSIX system.
---
---    local rn = require("runnel.lite.loop").rn
---    rn.run(function() rn.sleep(1000) end)

local rn = require "runnel.lite"

local function of_luv(uv)
  return function() return uv.hrtime() / 1e6 end, function(ms) uv.sleep(math.ceil(ms)) end
end

local function of_luasocket(socket)
  return function() return socket.gettime() * 1000 end, function(ms) socket.sleep(ms / 1000) end
end

local function of_ffi(ffi)
  if ffi.os == "Windows" then error "there is no gettimeofday" end
  ffi.cdef [[
    typedef struct { long sec, usec; } runnel_lite_timeval;
    int gettimeofday(runnel_lite_timeval *, void *);
    int poll(void *, unsigned long, int);
  ]]
  local time = ffi.new "runnel_lite_timeval"
  local function now()
    ffi.C.gettimeofday(time, nil)
    return tonumber(time.sec) * 1000 + tonumber(time.usec) / 1000
  end
  return now, function(ms) ffi.C.poll(nil, 0, math.min(math.ceil(ms), 1e9)) end
end

local WAYS = { { "luv", of_luv }, { "socket", of_luasocket }, { "ffi", of_ffi } }

for i = 1, #WAYS do
  local is_there, module = pcall(require, WAYS[i][1])
  if is_there then
    local ok, now, sleep = pcall(WAYS[i][2], module)
    if ok then return { rn = rn.host { now = now, sleep = sleep } } end
  end
end
error "runnel.lite.loop needs luv, luasocket, or LuaJIT on a POSIX system; give your own functions to rn.host"
