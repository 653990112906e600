---rn.counter, rn.gauge, rn.histogram: numbers of the program's own, in rn.metrics beside those of the library.
---
---An instrument has a series for each combination of values of its labels. They count from the first call, whether
---rn.metrics is on or not.

local check = require "runnel.internal.check"
local core = require "runnel.core"
local classes = require "runnel.internal.class"
local current = require "runnel.internal.world"
local decimal = require "runnel.internal.decimal"
local short = require "runnel.internal.short"
local sign = require "runnel.internal.sign"
local raise = core.internal.raise

---@class runnel.instruments
local instruments = {}

-- The number of series of an instrument, unless it says another; those of further values of labels are one under OTHER.
local SERIES <const>, OTHER <const> = 200, "other"

-- Upper bounds of a histogram that names none: good for times in seconds.
local BUCKETS <const> = { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10 }
local MOST_BUCKETS <const> = 100

-- Prometheus' base units, with the names that OpenTelemetry has for them (UCUM).
local UNITS <const> = { amperes = "A", bytes = "By", celsius = "Cel", grams = "g", joules = "J", meters = "m",
  ratio = "1", seconds = "s", volts = "V" }

---@class runnel.InstrumentOptions
---@field labels? string[] names of labels; each call then gives a value for each
---@field unit? "amperes"|"bytes"|"celsius"|"grams"|"joules"|"meters"|"ratio"|"seconds"|"volts" ends the name
---@field series? integer how many combinations of values of the labels are told apart; default 200

---@class runnel.HistogramOptions: runnel.InstrumentOptions
---@field buckets? number[] their upper bounds, in ascending order; default 0.005 to 10

---@class runnel.Series
---@field labels table<string, string>
---@field value? number of a counter or a gauge
---@field sum? number of a histogram: of all values
---@field count? integer of a histogram: how many values
---@field times? number[][] of a histogram: { bound, how many values were at most that }; the last with math.huge

---What rn.metrics has of an instrument.
---@class runnel.OwnMetric
---@field kind "counter"|"gauge"|"histogram"
---@field help string
---@field unit? string
---@field series runnel.Series[] in the order of the values of the labels

---@class runnel.internal.Series
---@field values string[] of the labels, in the order of the instrument
---@field value number of a counter or a gauge; of a histogram the sum
---@field counts? integer[] of a histogram: how many values are in each bucket; the last has those above all bounds

---@class runnel.internal.Instrument
---@field name string
---@field kind "counter"|"gauge"|"histogram"
---@field help string
---@field unit? string
---@field labels string[]
---@field known table<string, true> the same as a set
---@field most integer how many series may exist
---@field bounds? number[] of a histogram
---@field series table<string, runnel.internal.Series> by the values of the labels
---@field count integer of these

-- ---- where they are ----

-- The instruments of this state; and those of each host of a simulated world, since each is a program of its own.
local own, of_worlds = {}, setmetatable({}, { __mode = "k" })

local function registry()
  local world = current.world
  if not world then return own end
  local hosts, host = of_worlds[world] or {}, core.internal.host()
  of_worlds[world], hosts[host] = hosts, hosts[host] or {}
  return hosts[host]
end

-- ---- series ----

local function wrong_labels(self, labels, what)
  local list = table.concat(self.labels, ", ")
  if type(labels) ~= "table" then
    raise(("%s: labels: %s expected, got %s"):format(what,
      list == "" and "nothing" or "a table with values for " .. list, check.article(labels)))
  end
  for key in pairs(labels) do
    if not self.known[key] then
      raise(("%s: unknown label %s; %s has %s"):format(what, check.describe(key), self.name,
        list == "" and "none" or list))
    end
  end
  for _, key in ipairs(self.labels) do
    local value, kind = labels[key], type(labels[key])
    if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
      raise(("%s: label %s: a string, a number or a boolean expected, got %s"):format(what, key, check.article(value)))
    end
  end
end

-- The values of the labels in their order; nil if something is wrong with them.
local function values_of(self, labels)
  if labels == nil then return #self.labels == 0 and {} or nil end
  if type(labels) ~= "table" then return nil end
  local values, n = {}, 0
  for i, key in ipairs(self.labels) do
    local value = labels[key]
    local kind = type(value)
    if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then return nil end
    values[i] = short.utf8(decimal.exact(value)) -- two series never have the same labels in the text
  end
  for _ in pairs(labels) do n = n + 1 end
  return n == #values and values or nil
end

-- One text for a list of values; no other list has it.
local function key_of(values)
  if #values < 2 then return values[1] or "" end
  local parts = {}
  for i, value in ipairs(values) do parts[i] = #value .. ":" .. value end
  return table.concat(parts)
end

local function new_series(self, key, values)
  local series = { values = values, value = 0 }
  if self.bounds then
    series.counts = {}
    for i = 1, #self.bounds + 1 do series.counts[i] = 0 end
  end
  self.series[key], self.count = series, self.count + 1
  return series
end

local function series_of(self, labels, what)
  local values = values_of(self, labels)
  if not values then wrong_labels(self, labels, what) end
  local key = key_of(values)
  local series = self.series[key]
  if series then return series end
  if self.count < self.most then return new_series(self, key, values) end
  for i = 1, #values do values[i] = OTHER end
  key = key_of(values)
  return self.series[key] or new_series(self, key, values)
end

-- The sum; as a float where it is no integer of Lua any more.
local function plus(a, b)
  local sum = a + b
  return (b >= 0) == (sum >= a) and sum or a + 0.0 + b
end

local function check_number(value, least, what)
  if type(value) ~= "number" or not (value >= least and value > -math.huge and value < math.huge) then
    raise(("%s: a finite number%s expected, got %s"):format(what, least == 0 and " of at least 0" or "",
      check.describe(value)))
  end
end

-- ---- the objects ----

---@class runnel.Counter: runnel.internal.Instrument
local Counter = { __name = "counter", __sign = "c" }

---Counts. Never parks.
---@param n? number of at least 0; default 1
---@param labels? table<string, string|number|boolean> a value for each label of the counter
function Counter:add(n, labels)
  sign.own(self, "c", "add")
  if n == nil then n = 1 end
  check_number(n, 0, "add")
  local series = series_of(self, labels, "add")
  series.value = plus(series.value, n)
end

---@class runnel.Gauge: runnel.internal.Instrument
local Gauge = { __name = "gauge", __sign = "g" }

---The number is this now.
---@param value number
---@param labels? table<string, string|number|boolean>
function Gauge:set(value, labels)
  sign.own(self, "g", "set")
  check_number(value, -math.huge, "set")
  series_of(self, labels, "set").value = value
end

---Changes the number by n; it begins with 0.
---@param n number below 0, too
---@param labels? table<string, string|number|boolean>
function Gauge:add(n, labels)
  sign.own(self, "g", "add")
  check_number(n, -math.huge, "add")
  local series = series_of(self, labels, "add")
  series.value = plus(series.value, n)
end

---Forgets the number of these labels, because what it was about is gone.
---@param labels? table<string, string|number|boolean>
function Gauge:remove(labels)
  sign.own(self, "g", "remove")
  local values = values_of(self, labels)
  if not values then wrong_labels(self, labels, "remove") end
  local key = key_of(values)
  if self.series[key] then self.series[key], self.count = nil, self.count - 1 end
end

---@class runnel.Histogram: runnel.internal.Instrument
local Histogram = { __name = "histogram", __sign = "h" }

-- The number of the bucket of a value: the first whose bound is not less.
local function bucket_of(bounds, value)
  local low, high = 1, #bounds + 1
  while low < high do
    local middle = (low + high) // 2
    if bounds[middle] < value then low = middle + 1 else high = middle end
  end
  return low
end

---Counts a value, such as how long something took.
---@param value number in the unit of the histogram
---@param labels? table<string, string|number|boolean>
function Histogram:observe(value, labels)
  sign.own(self, "h", "observe")
  check_number(value, -math.huge, "observe")
  local series = series_of(self, labels, "observe")
  local i = bucket_of(self.bounds, value)
  series.value, series.counts[i] = plus(series.value, value), series.counts[i] + 1
end

-- ---- making them ----

-- Endings of the names of samples: a gauge x_count could not be told from the count of a histogram x.
local ENDINGS <const> = { "_total", "_bucket", "_count", "_sum" }

local function check_name(name, class, unit)
  local what = class.__name
  if not name:find "^%a[%w_]*$" then
    raise(("%s: a name of letters, digits and _ that begins with a letter expected, got %q"):format(what, name))
  end
  if name:find "^runnel_" or name:find "^process_" then
    raise(("%s: %s: names that begin with runnel_ and process_ are the library's"):format(what, name))
  end
  local stem = name
  if class == Counter then
    stem = name:match "^(.+)_total$"
    if not stem then raise(("%s: the name of a counter ends with _total: %s_total"):format(what, name)) end
  end
  for _, ending in ipairs(ENDINGS) do
    if stem:sub(-#ending) == ending then
      raise(("%s: %s: %s at the end would be mistaken for %s"):format(what, name, ending,
        ending == "_total" and "a counter" or "a part of a histogram"))
    end
  end
  if unit and stem:sub(-#unit - 1) ~= "_" .. unit then
    raise(("%s: a name with its unit expected, %s_%s%s, got %s"):format(what, stem, unit,
      class == Counter and "_total" or "", name))
  end
end

-- A copy of a list, and the same as a set.
local function copy_labels(list, what)
  local labels, known = {}, {}
  for i, label in ipairs(list or {}) do
    if type(label) ~= "string" or not label:find "^%a[%w_]*$" or label == "le" then
      raise(("%s: labels: names of letters, digits and _ that begin with a letter, other than le, expected, got %s")
        :format(what, check.describe(label)))
    end
    if known[label] then raise(("%s: labels: %s stands twice"):format(what, label)) end
    labels[i], known[label] = label, true
  end
  for key in pairs(list or {}) do
    if not labels[key] then
      raise(("%s: labels: a list of names expected, as in labels = { \"shop\" }"):format(what))
    end
  end
  return labels, known
end

local function copy_bounds(list, what)
  local bounds = {}
  for i, bound in ipairs(list or BUCKETS) do
    local is_number = type(bound) == "number" and bound == bound and math.abs(bound) < math.huge
    if not is_number or i > 1 and bound <= bounds[i - 1] then
      raise(("%s: buckets: finite numbers in ascending order expected, got %s at %d"):format(what,
        check.describe(bound), i))
    end
    bounds[i] = bound
  end
  if #bounds == 0 or #bounds > MOST_BUCKETS then
    raise(("%s: buckets: a list of 1 to %d numbers expected, got %d"):format(what, MOST_BUCKETS, #bounds))
  end
  return bounds
end

local function unit_names()
  local list = {}
  for name in pairs(UNITS) do list[#list + 1] = name end
  table.sort(list)
  return list
end

local kinds = check.kinds
local OPTIONS <const> = { labels = kinds.table, unit = kinds.one_of(unit_names()), series = kinds.integer(1) }
local HISTOGRAM_OPTIONS <const> = { labels = OPTIONS.labels, unit = OPTIONS.unit, series = OPTIONS.series,
  buckets = kinds.table }

-- Whether two lists are the same; nil is one without elements.
local function are_same(a, b)
  return table.concat(a or {}, " ") == table.concat(b or {}, " ")
end

-- Makes an instrument, or finds the one that was made with the same arguments.
local function make(class, name, help, opts)
  local what = class.__name
  check.string(name, "a name", what)
  check.string(help, "a text that says what is counted", what .. ": help")
  check.options(opts, class == Histogram and HISTOGRAM_OPTIONS or OPTIONS, what)
  opts = opts or {}
  check_name(name, class, opts.unit)
  if help == "" then raise(what .. ': help: a text that says what is counted expected, got ""') end
  local labels, known = copy_labels(opts.labels, what)
  local bounds = class == Histogram and copy_bounds(opts.buckets, what) or nil
  local all, most = registry(), opts.series or SERIES
  local old = all[name]
  if old then
    if getmetatable(old) == class and old.help == help and old.unit == opts.unit and old.most == most
      and are_same(old.labels, labels) and are_same(old.bounds, bounds) then
      return old
    end
    raise(("%s: there is a %s with the name %s already, with another help text or options"):format(what, old.kind,
      name))
  end
  local instrument = setmetatable({ name = name, kind = what, help = help, unit = opts.unit, labels = labels,
    known = known, most = most, bounds = bounds, series = {}, count = 0 }, class)
  if #labels == 0 then new_series(instrument, "", {}) end -- is there from the beginning, as 0
  all[name] = instrument
  return instrument
end

---Makes a counter, a number that only grows; or returns the one that was made with the same arguments.
---@param name string as in "orders_total"
---@param help string what is counted
---@param opts? runnel.InstrumentOptions
---@return runnel.Counter
function instruments.counter(name, help, opts)
  local counter = make(Counter, name, help, opts)
  return counter -- no tail call: sign.of_module finds the function on the stack
end

---Makes a gauge, a number that rises and falls; or returns the one that was made with the same arguments.
---@param name string as in "room_temperature_celsius"
---@param help string what it is
---@param opts? runnel.InstrumentOptions
---@return runnel.Gauge
function instruments.gauge(name, help, opts)
  local gauge = make(Gauge, name, help, opts)
  return gauge
end

---Makes a histogram, which counts values by their size; or returns the one that was made with the same arguments.
---@param name string as in "order_duration_seconds"
---@param help string what the values are
---@param opts? runnel.HistogramOptions
---@return runnel.Histogram
function instruments.histogram(name, help, opts)
  local histogram = make(Histogram, name, help, opts)
  return histogram
end

-- ---- reading them ----

local function is_before(a, b)
  for i, value in ipairs(a.values) do
    if value ~= b.values[i] then return value < b.values[i] end
  end
  return false
end

local function read_series(self, series)
  local labels = {}
  for i, key in ipairs(self.labels) do labels[key] = series.values[i] end
  if not self.bounds then return { labels = labels, value = series.value } end
  local times, count = {}, 0
  for i, n in ipairs(series.counts) do
    count = count + n
    times[i] = { self.bounds[i] or math.huge, count }
  end
  return { labels = labels, sum = series.value, count = count, times = times }
end

---The numbers of all instruments, for rn.metrics.
---@return table<string, runnel.OwnMetric>
function instruments.read()
  local found = {}
  for name, one in pairs(registry()) do
    local sorted, list = {}, {}
    for _, series in pairs(one.series) do sorted[#sorted + 1] = series end
    table.sort(sorted, is_before)
    for i, series in ipairs(sorted) do list[i] = read_series(one, series) end
    found[name] = { kind = one.kind, help = one.help, unit = one.unit, series = list }
  end
  return found
end

---What OpenTelemetry calls a unit.
---@type table<string, string>
instruments.units = UNITS

classes.finish(Counter)
classes.finish(Gauge)
classes.finish(Histogram)

return instruments
