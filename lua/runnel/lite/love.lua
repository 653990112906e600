---runnel.lite in LÖVE: go blocks run in love.update.
---
---    local host = require "runnel.lite.love"
---    local rn = host.rn
---    function love.update(dt) host.update(dt) end

local love = love -- luacheck: ignore 113
local rn = require "runnel.lite"

rn.host { now = function() return love.timer.getTime() * 1000 end }

local M = { rn = rn }

local frame = rn.promise_chan() -- of the next frame
local heard = {} -- by the name of a callback: what is called in its place, and the channels that get its calls
local pumps = {} -- functions that bring what has come to love.thread's channels

---Call it in love.update: runs go blocks for at most `ms` (4 by default), and goes on in the next frame.
---@param dt number seconds since the last frame
---@param ms? number
function M.update(dt, ms)
  local this = frame
  frame = rn.promise_chan()
  this:offer(dt)
  for i = #pumps, 1, -1 do
    if not pumps[i]() then table.remove(pumps, i) end
  end
  local till = love.timer.getTime() * 1000 + (ms or 4)
  repeat
    local left = rn.step(math.max(0, till - love.timer.getTime() * 1000))
  until left ~= 0 or love.timer.getTime() * 1000 >= till
end

---A channel that gives the dt of the next frame.
---@return runnel.Channel<number>
function M.next_frame() return frame end

---The calls of a callback of LÖVE, as "keypressed", each a list of its arguments. What the callback did before, it
---still does. Closing the channel ends it.
---@param name string
---@param ch? runnel.Channel<any> by default one that keeps the last 64
---@return runnel.Channel<table>
function M.events(name, ch)
  ch = ch or rn.chan(rn.sliding_buffer(64))
  local chans = heard[name]
  if not chans or love[name] ~= chans.callback then -- the program may have set another one
    chans = {}
    local before = love[name]
    function chans.callback(...)
      for i = #chans, 1, -1 do chans[i]:offer { ... } end
      if before then return before(...) end
    end
    heard[name], love[name] = chans, chans.callback
  end
  for i = #chans, 1, -1 do
    if chans[i]:closed() then table.remove(chans, i) end
  end
  chans[#chans + 1] = ch
  return ch
end

---What a thread pushes on a channel of love.thread, looked at once a frame. Closing the returned channel ends it.
---@param from table a channel of love.thread
---@param n? integer how many values are buffered; 16 by default
---@return runnel.Channel<any>
function M.from_thread(from, n)
  local ch = rn.chan(n or 16)
  pumps[#pumps + 1] = function()
    while not ch:closed() and from:peek() ~= nil and ch:offer(from:peek()) do from:pop() end
    return not ch:closed()
  end
  return ch
end

return M
