-- The script of frames.c: a lamp that blinks by time, a ball that moves by frames, and a computation that takes longer
-- than a frame. `frames` gives the number of each frame; the program draws what is put on `drawings`.
local rn = require "runnel"
local frames, drawings = ...

rn.go(function()
  local on = true
  while true do
    drawings:put(on and "the lamp is on" or "the lamp is off")
    on = not on
    rn.sleep(250)
  end
end)

rn.go(function()
  local function is_prime(n)
    for i = 2, math.floor(n ^ 0.5) do
      if n % i == 0 then return false end
    end
    return true
  end
  local count = 0
  for n = 2, math.huge do
    if is_prime(n) then
      count = count + 1
      if count % 10000 == 0 then drawings:put(("prime number %d is %d"):format(count, n)) end
    end
    if n % 50 == 0 then rn.yield() end -- a long computation must let others run
  end
end)

local x, step = 0, 1
for frame in frames do
  x = x + step
  if x == 0 or x == 20 then step = -step end
  if frame % 10 == 0 then drawings:put(("frame %4d: %so"):format(frame, (" "):rep(x))) end
end
