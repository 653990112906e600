---mix: puts the values of several channels, its inputs, on one; each input can be muted, paused or soloed at any time.
---
---    local m = rn.mix(out)
---    m:admix(music); m:admix(voice)
---    m:toggle { [music] = { mute = true } }
---
---A muted input is taken from and its values are dropped; a paused one is not taken from. While any input is soloed,
---only the values of soloed inputs are put, even if those are muted or paused as well; the solo mode, "mute" or
---"pause", says what happens to the others.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local class = require "runnel.internal.class"
local ends = require "runnel.internal.ends"
local gathering = require "runnel.workers.gathering"
local guard = require "runnel.internal.guard"
local remove = require "runnel.internal.remove"
local raise = core.internal.raise

local chan = core.chan

---@class runnel.MixState
---@field mute? boolean its values are taken and dropped
---@field pause? boolean nothing is taken from it
---@field solo? boolean only the values of inputs that have this are put

---@class runnel.Mix
---@field out runnel.Channel<any> the channel to put on
---@field inputs table<runnel.Channel<any>, runnel.MixState> by channel
---@field order runnel.Channel<any>[] the inputs in the order in which they were added
---@field mode "mute"|"pause" what happens to inputs that are not soloed while others are
---@field changed boolean inputs, states or mode have changed since the go block last looked
---@field change runnel.Channel<any> wakes the go block after a change
local Mix = {}
Mix.__sign = "m"
Mix.__name = "runnel.mix"

local ATTRIBUTES = { mute = true, pause = true, solo = true }

local function changed(self)
  self.changed = true
  self.change:offer(true)
end

local function add(self, ch)
  self.inputs[ch] = {}
  self.order[#self.order + 1] = ch
end

local function drop(self, ch)
  local state = self.inputs[ch]
  self.inputs[ch] = nil
  remove(self.order, ch)
  return state
end

-- ---- taking and putting ----

local function any_solo(self)
  for _, state in pairs(self.inputs) do
    if state.solo then return true end
  end
  return false
end

-- Returns the channels to take from: the closing of `out`, a change, and each input that is not paused; and the inputs
-- whose values are put.
local function plan(self)
  local chs, through = { self.out:done(), self.change }, {}
  local solo = any_solo(self)
  for _, ch in ipairs(self.order) do
    local state = self.inputs[ch]
    local paused = state.pause or solo and self.mode == "pause"
    if state.solo or not paused then
      chs[#chs + 1] = ch
      through[ch] = state.solo or not solo and not state.mute
    end
  end
  return chs, through
end

-- An input has closed.
local function ended(self, ch, err)
  if self.inputs[ch] then
    local state = drop(self, ch)
    self.changed = self.changed or state.solo or false
  end
  ends.close(nil, err, ch)
end

local function mix_inputs(self)
  local put = ends.sink(self.out, "a mix")
  local chs, through, take, g
  while not self.out:closed() do
    if self.changed then
      self.changed = false
      gathering.close(g)
      chs, through = plan(self)
      take, g = gathering.open(chs, self.out)
    end
    local value, ch, err = take(chs, g)
    if through[ch] and value ~= nil then
      put(self.out, value)
    elseif value == nil and ch then
      ended(self, ch, err)
    elseif not ch then
      return
    end
  end
end

-- The go block of a mix. If an input raises, the mix ends, because take does not say which input it was.
local function run(self)
  local ok, err = guard.call("a mix", mix_inputs, self)
  if not ok then ends.close(self.out, err) end
end

-- ---- the public functions ----

---@class runnel.mix
local mix = {}

---Makes a mix: an object with the methods admix, unmix, unmix_all, toggle and solo_mode. It closes `out` only if it
---dies of an error. When `out` closes, the mix ends and takes nothing more. Source: core.async's mix, which takes, and
---loses, values until it next tries to put one.
---@param out runnel.Channel<any> the channel to put on
---@return runnel.Mix
function mix.mix(out)
  check.chan(out, "mix: channel")
  local self = setmetatable({
    out = out, inputs = {}, order = {}, mode = "mute", changed = true, change = chan(core.sliding_buffer(1)),
  }, Mix)
  guard.started(guard.go(guard.close, out, run, self), "mix")
  return self
end

---Adds an input. It is removed when it closes. Source: core.async's admix.
---@param m runnel.Mix
---@param ch runnel.Channel<any> the channel; if it is an input already, its state is reset
function mix.admix(m, ch)
  check.object(m, Mix, "a mix", "admix")
  check.chan(ch, "admix: channel")
  if ch == m.out then raise("admix: the mix would take what it puts on its own channel; admix another channel") end
  if m.inputs[ch] then m.inputs[ch] = {} else add(m, ch) end
  changed(m)
end

---Removes an input. Source: core.async's unmix.
---@param m runnel.Mix
---@param ch runnel.Channel<any> the channel; if it is not an input, nothing happens
function mix.unmix(m, ch)
  check.object(m, Mix, "a mix", "unmix")
  check.chan(ch, "unmix: channel")
  if not m.inputs[ch] then return end
  drop(m, ch)
  changed(m)
end

---Removes all inputs. Source: core.async's unmix-all.
---@param m runnel.Mix
function mix.unmix_all(m)
  check.object(m, Mix, "a mix", "unmix_all")
  m.inputs, m.order = {}, {}
  changed(m)
end

local function check_states(self, states)
  for ch, state in pairs(states) do
    if not core.is_chan(ch) then
      raise(("toggle: a table of states by channel expected; a key is a %s"):format(type(ch)))
    end
    if ch == self.out then raise("toggle: the mix would take what it puts on its own channel") end
    if type(state) ~= "table" then
      raise(("toggle: the state of %s is a %s; write { mute =, pause =, solo = }"):format(ch, type(state)))
    end
    for key, value in pairs(state) do
      if not ATTRIBUTES[key] then
        raise(("toggle: %s: unknown state %q; the states are mute, pause and solo"):format(ch, tostring(key)))
      end
      if type(value) ~= "boolean" then
        raise(("toggle: %s: %s: true or false expected, got a %s"):format(ch, key, type(value)))
      end
    end
  end
end

-- The channels in `states` that are not inputs yet, in the order in which they were made: the order of `pairs` would
-- differ from run to run, and a simulation could not be replayed.
local function new_inputs(self, states)
  local list, id = {}, {}
  for ch in pairs(states) do
    if not self.inputs[ch] then
      list[#list + 1] = ch
      id[ch] = ch:stats().id
    end
  end
  table.sort(list, function(a, b) return id[a] < id[b] end)
  return list
end

---Changes the states of several inputs at once. Fields missing in a state stay as they are. A channel that is not an
---input is added. Source: core.async's toggle.
---@param m runnel.Mix
---@param states table<runnel.Channel<any>, runnel.MixState> the changes, by channel
function mix.toggle(m, states)
  check.object(m, Mix, "a mix", "toggle")
  check.table(states, "toggle: states")
  check_states(m, states)
  for _, ch in ipairs(new_inputs(m, states)) do add(m, ch) end
  for ch, state in pairs(states) do
    for key, value in pairs(state) do m.inputs[ch][key] = value end
  end
  changed(m)
end

---Sets what happens to inputs that are not soloed while others are. Source: core.async's solo-mode. Unlike there, but
---as its documentation says, soloed inputs are taken from in both modes, even if they are paused.
---@param m runnel.Mix
---@param mode "mute"|"pause" a new mix has "mute"
function mix.solo_mode(m, mode)
  check.object(m, Mix, "a mix", "solo_mode")
  if mode ~= "mute" and mode ~= "pause" then
    raise(('solo_mode: "mute" or "pause" expected, got %s'):format(tostring(mode)))
  end
  m.mode = mode
  changed(m)
end

for _, name in ipairs { "admix", "unmix", "unmix_all", "toggle", "solo_mode" } do Mix[name] = mix[name] end

class.finish(Mix)

return mix
