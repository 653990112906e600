---Simulated signals: luv's handles that wait for them.

local handles = require "runnel.sim.handle"
local remove = require "runnel.internal.remove"
local term = require "runnel.internal.sigterm"

local NUMBERS = { sighup = 1, sigint = 2, sigquit = 3, sigkill = 9, sigusr1 = 10, sigusr2 = 12, sigterm = 15 }

local signals = {}

---The number of a signal, or nil.
---@param signal any as "term", "sigterm", or a number
---@return integer?
function signals.number_of(signal)
  if math.type(signal) == "integer" then return signal end
  if type(signal) ~= "string" then return nil end
  local name = signal:lower()
  return NUMBERS[name] or NUMBERS["sig" .. name]
end

---@class runnel.sim.Signal: runnel.sim.Handle
---@field number? integer
---@field name? string as it was given
---@field on_signal? fun(name: string)
local Signal = handles.class "runnel.sim.signal"

function signals.new_signal() return handles.new(Signal) end

function Signal:start(signal, on_signal)
  local number = signals.number_of(signal)
  if not number then return handles.fail "EINVAL" end
  self:stop()
  self.number, self.on_signal, self.name = number, on_signal, signal
  table.insert(self.host.signals, self)
  return 0
end

function Signal:stop()
  remove(self.host.signals, self)
  return 0
end

function Signal:stopped() self:stop() end

---Tells those of a host that wait for a signal, or else what SIGTERM ends in good order. Returns whether one does.
---@param host runnel.sim.Host
---@param number integer
---@return boolean
function signals.tell(host, number)
  local heard = false
  for _, signal in ipairs(host.signals) do
    if signal.number == number and number ~= NUMBERS.sigkill then
      heard = true
      signal:later(0, signal.on_signal, signal.name)
    end
  end
  return heard or number == NUMBERS.sigterm and term.tell(host)
end

return signals
