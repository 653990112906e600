---What merges and mixes do: move the values of many channels, the inputs, to one. Each input has a go block of its own;
---they take turns, so that one of them at a time has a value, and a message costs the same for any number of inputs.

local core = require "runnel.core"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"

local internal = core.internal
local gather, release, new_turn = internal.gathering.gather, internal.gathering.release, internal.gathering.turn
local is_closed = core.methods.closed

---@class runnel.internal.Gathering
---@field [1] runnel.Channel<any> the output, for guard.close
---@field turn runnel.Channel<any> what the go blocks take turns by
---@field what string what it is, for the error handler
---@field put fun(out: runnel.Channel<any>, value: any): boolean
---@field ways? table<runnel.Channel<any>, "put"|"drop"|nil> what happens to the values of an input; nil: they are not
---taken. Without this table: all are put

local gathering = {}

---@param out runnel.Channel<any>
---@param what string as in "a merge"
---@param ways? table<runnel.Channel<any>, "put"|"drop"|nil>
---@return runnel.internal.Gathering
function gathering.new(out, what, ways)
  return { out, turn = new_turn(), what = what, put = ends.sink(out, what), ways = ways }
end

-- Moves values until the input or the output closes, or the input is not to be taken from. Returns whether the input has
-- closed, and its error.
local function move(g, ch)
  local gather, out, turn, put, ways = gather, g[1], g.turn, g.put, g.ways -- luacheck: ignore 431
  local done, goes_on = false, not ways or ways[ch]
  while goes_on do
    local value, is_over, err = gather(ch, turn, out, done)
    if value == nil then
      if is_over then return true, err end
      done = false
      goes_on = not is_closed(out)
    elseif ways and ways[ch] == "drop" then
      done = true
    else -- also if it is not to be taken any more: it was, and must not be lost
      done = true
      goes_on = put(out, value)
    end
    if ways and not ways[ch] then goes_on = false end
  end
  release(turn)
  return false
end

local function run(g, ch, ended)
  local ok, is_over, err = guard.call(g.what, move, g, ch)
  if ok then return ended(g, ch, is_over, err) end
  release(g.turn)
  ends.close(g[1], is_over) -- the input has raised
end

---Starts the go block of an input.
---@param g runnel.internal.Gathering
---@param ch runnel.Channel<any> the input
---@param ended fun(g: runnel.internal.Gathering, ch: runnel.Channel<any>, is_over: boolean, err: any) is called at the end:
---`is_over` if the input has closed, with the error `err` or nil; else the go block was stopped, or the output has closed
---@return runnel.Channel<any> block
function gathering.start(g, ch, ended) return guard.go(guard.close, g, run, g, ch, ended) end

---Makes the go block of an input look again whether to go on; if it waits, it takes nothing before.
---@param g runnel.internal.Gathering
---@param block runnel.Channel<any>
---@param ch runnel.Channel<any> its input
function gathering.nudge(g, block, ch)
  if not internal.withdraw_take(block, ch) then internal.withdraw_take(block, g.turn) end
end

return gathering
