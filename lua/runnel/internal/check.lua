---Argument checks for the functions written in Lua. A failed check raises an error at the program's line.

local core = require "runnel.core"
local sign = require "runnel.internal.sign"
local raise = core.internal.raise

core.internal.library "internal/check.lua" -- also in a program that requires one of the modules only, such as runnel.uv

local check = { raise = raise } -- also for modules that use nothing of core.internal

-- The largest file descriptor, an int in C; and the largest mode of a file: the system would drop further bits.
check.MOST_DESCRIPTOR, check.MOST_MODE = 0x7fffffff, tonumber("7777", 8)

-- How to call the functions whose arguments are easily confused.
local USAGE = {
  batch = "batch(ch, n, ms)", debounce = "debounce(ch, ms)", throttle = "throttle(ch, ms)",
  sample = "sample(ch, ms)", latest = "latest(ch)", frontier = "frontier(n, f, list)",
  into = "into(list, ch)", map = "map(f, { ch, ... })",
  merge = "merge { ch, ... }", mult = "mult(ch)", onto_chan = "onto_chan(ch, list)", pipe = "pipe(from, to)",
  pipeline = "pipeline(n, to, xf, from)", pipeline_async = "pipeline_async(n, to, af, from)",
  pipeline_async_unordered = "pipeline_async_unordered(n, to, af, from)",
  pipeline_blocking = "pipeline_blocking(n, to, xf, from)", pmap = "pmap(n, f, from)",
  pmap_unordered = "pmap_unordered(n, f, from)", pub = "pub(ch, topic_of)", rate = "rate(ch, n, ms)",
  reduce = "reduce(f, init, ch)", retry = "retry(f, { tries = n }, ...)", scope = "scope(function(s) ... end)",
  shield = "shield(f, { grace = ms }, ...)", supervise = 'supervise { { "name", f }, ... }',
  thread = "thread(f, ...)", split = "split(pred, ch)", take = "take(n, ch)", threads = "threads(k, f)",
  transduce = "transduce(xf, f, init, ch)",
}

---What was passed, for a message: "a string", "a channel", "nothing".
---@return string
function check.article(value)
  if value == nil then return "nothing" end
  return core.is_chan(value) and "a channel" or sign.of_module(value) or "a " .. type(value)
end

-- The same of methods, whose message names their object.
local METHODS = { ["scope:go"] = "to call f(...) in a go block, write s:go(f, ...)" }

-- How to call the function with whose name `what` begins; nil if nothing is known about it.
local function usage_of(what)
  local usage = USAGE[what:match "^[%w_]+"]
  return METHODS[what:match "^[%w_]+:[%w_]+"] or usage and "call it as rn." .. usage
end

-- Like check.article; for a probably misplaced argument it adds how to call the function.
local function article(value, what)
  local module, usage = sign.of_module(value, what:match "^[%w_]+"), usage_of(what)
  if module then return module end
  local is_other = usage and (type(value) == "function" or type(value) == "table" or core.is_chan(value))
  return check.article(value) .. (is_other and "; " .. usage or "")
end

-- What functions return, if a call was passed in place of its function, as in go(f()).
local RESULTS = { ["nil"] = true, number = true, string = true, boolean = true }

-- What was passed in place of a function, and what to do.
local function not_callable(value, what)
  local cure = not what:find "handler$" and not sign.of_module(value)
    and (usage_of(what) or RESULTS[type(value)] and "pass the function itself: f, not f()")
  return ("%s: a function expected, got %s%s"):format(what, check.article(value), cure and "; " .. cure or "")
end

---A value as text for a message, strings in quotes.
---@return string
function check.describe(value)
  if value == nil then return "nothing" end
  return type(value) == "string" and ("%q"):format(value) or sign.of_module(value) or tostring(value)
end

---A channel.
---@param what string the function and argument, as in "pipe: from"
function check.chan(value, what)
  if not core.is_chan(value) then raise(what .. ": a channel expected, got " .. article(value, what)) end
end

---Whether a value is a function, or an object with `__call`.
---@return boolean
function check.is_callable(value)
  if type(value) == "function" then return true end
  local meta = getmetatable(value)
  return type(meta) == "table" and meta.__call ~= nil
end

local is_callable = check.is_callable

---A function, or an object with `__call` other than a channel.
function check.callable(value, what)
  if type(value) ~= "function" and (not is_callable(value) or core.is_chan(value)) then
    raise(not_callable(value, what))
  end
end

---A function, an object with `__call`, or nil.
function check.callable_or_nil(value, what)
  if value ~= nil and not is_callable(value) then
    raise(what .. ": a function or nil expected, got " .. article(value, what))
  end
end

---True, false or nil.
function check.boolean_or_nil(value, what)
  if value ~= nil and type(value) ~= "boolean" then
    raise(what .. ": true or false expected, got " .. check.article(value))
  end
end

---One of the values of a list, or nil.
---@param list any[] strings or booleans
function check.one_of(value, list, what)
  if value == nil then return end
  local names = {}
  for i, one in ipairs(list) do
    if value == one then return end
    names[i] = check.describe(one)
  end
  local last = table.remove(names)
  local others = names[1] and table.concat(names, ", ") .. " or " or ""
  raise(("%s: %s%s expected, got %s"):format(what, others, last, check.describe(value)))
end

---A string.
---@param expected string what the message calls it, as in "a path"
function check.string(value, expected, what)
  if type(value) ~= "string" then raise(("%s: %s expected, got %s"):format(what, expected, check.article(value))) end
end

---A string without a zero byte: the system, and libraries in C, would end it there, and use another one.
---@param value string
---@param what string the function and the string, as in "read: the path"
function check.no_zero(value, what)
  if value:find("\0", 1, true) then raise(what .. " has a zero byte") end
end

---A path: a string without a zero byte.
---@param expected string what the message calls it, as in "a path"
function check.path(value, expected, what)
  check.string(value, expected, what)
  check.no_zero(value, what .. ": the path")
end

---The path of a database's file. For SQLite the empty one is a database without a name, which is lost at its end.
---@param what string the function
function check.database(value, what)
  check.path(value, "the path of a file", what)
  if value == "" then raise(what .. ": the path of a file expected, got an empty string (in memory: \":memory:\")") end
end

---An integer of at least `least`.
function check.integer(value, least, what)
  if type(value) ~= "number" or not math.tointeger(value) or value < least then
    local is_short = type(value) == "number" or type(value) == "string"
    local got = is_short and check.describe(value) or article(value, what)
    raise(("%s: an integer of at least %d expected, got %s"):format(what, least, got))
  end
end

---A finite number of milliseconds of at least `least`.
function check.ms(value, least, what)
  if type(value) ~= "number" or not (value >= least and value < math.huge) then
    raise(("%s: a number of milliseconds, at least %d, expected, got %s"):format(what, least, check.describe(value)))
  end
end

---A table.
function check.table(value, what)
  if type(value) ~= "table" then raise(what .. ": a table expected, got " .. article(value, what)) end
end

---The number of the first element that is nil although the list goes on, if there is one. A list with a metatable may
---be computed.
---@param list table
---@return integer?
function check.hole_of(list)
  if getmetatable(list) ~= nil then return nil end
  local n = 0
  while list[n + 1] ~= nil do n = n + 1 end
  -- In a list without a hole nothing follows the last element, unless the table was not filled in order.
  for key in next, list, n > 0 and n or nil do
    if math.type(key) == "integer" and key > n then return n + 1 end
  end
  return nil
end

---Whether a table has other keys, and no values 1, 2 and so on. table.pack() has an `n`, which does not count.
---@param value table
---@return boolean
function check.has_only_keys(value)
  return value[1] == nil and next(value, next(value) == "n" and "n" or nil) ~= nil
end

---A list: a table without holes, that has not only other keys. One with a metatable may be computed, and table.pack()
---has an `n`.
---@param value table
function check.list(value, what)
  if getmetatable(value) ~= nil then return end
  local hole = check.hole_of(value)
  if hole then raise(("%s: element %d is nil, although the list goes on"):format(what, hole)) end
  if check.has_only_keys(value) then
    raise(what .. ": a list expected, got a table with keys but no values 1, 2, ...")
  end
end

---A list whose elements are channels.
function check.chans(value, what)
  if type(value) ~= "table" then raise(what .. ": a list of channels expected, got " .. article(value, what)) end
  for i = 1, #value do
    if not core.is_chan(value[i]) then
      raise(("%s: element %d is not a channel but %s"):format(what, i, check.article(value[i])))
    end
  end
  check.list(value, what)
end

---The check of an option's value, which is not nil: raises an error that begins with `what`. `true`: all values
---are right, or the caller checks them.
---@alias runnel.internal.Kind true|fun(value: any, what: string)

---Kinds of options, for check.options.
local kinds = { callable = check.callable, table = check.table }
check.kinds = kinds

---An integer of at least `least`, and at most `most`.
---@param least integer
---@param most? integer
function kinds.integer(least, most)
  return function(value, what)
    check.integer(value, least, what)
    if most and value > most then
      raise(("%s: an integer from %d to %d expected, got %d"):format(what, least, most, value))
    end
  end
end

---A finite number of milliseconds of at least `least`.
function kinds.ms(least)
  return function(value, what) check.ms(value, least, what) end
end

---One of the values of a list.
---@param list any[]
function kinds.one_of(list)
  return function(value, what) check.one_of(value, list, what) end
end

---True or false.
function kinds.boolean(value, what)
  if type(value) ~= "boolean" then check.one_of(value, { true, false }, what) end
end

---A table of options, or nil.
---@param known table<string, runnel.internal.Kind> the valid names, each with the check of its value
function check.options(value, known, what)
  if value == nil then return end
  if type(value) ~= "table" then raise(what .. ": a table of options expected, got " .. check.article(value)) end
  for key, option in pairs(value) do
    local kind = known[key]
    if not kind then raise(("%s: %s"):format(what, check.unknown(key, known))) end
    if kind ~= true then kind(option, what .. ": " .. key) end
  end
end

---What follows the table of a command: nothing.
---@param more any
function check.alone(more, what)
  if type(more) == "table" then
    raise(('%s: the options go into the table of the command, as in uv.%s { "sort", cwd = "/tmp" }; got a second table')
      :format(what, what))
  end
end

---Says that an option is unknown, and lists those that are known.
---@param key any
---@param known table<string, any> the valid names
---@return string
function check.unknown(key, known)
  local names = {}
  for name in pairs(known) do names[#names + 1] = name end
  table.sort(names)
  return ("unknown option %q; known: %s"):format(tostring(key), table.concat(names, ", "))
end

---Anything but nil.
function check.value(value, what)
  if value == nil then raise(what .. ": a value other than nil expected") end
end

---A value that can be a key of a table.
function check.key(value, what)
  if value == nil then raise(what .. ": a value other than nil expected") end
  if value ~= value then raise(what .. ": nan cannot be used, because it is not equal to itself") end
end

---An object of the library, the first argument of a function of rn that is a method of the object, too, as rn.tap and
---m:tap. (Methods that are not functions of rn check their object by sign.own.)
---@param class table its metatable
---@param kind string what the message calls it, as in "a mult"
function check.object(value, class, kind, what)
  if getmetatable(value) ~= class then
    raise(("%s: %s expected, got %s; call it as %s:%s(...)")
      :format(what, kind, check.article(value), class.__sign, what))
  end
end

---Makes a channel with a buffer that the user passed, which may be invalid.
---@param buf? runnel.BufferLike as for rn.chan
---@return runnel.Channel<any> ch
function check.new_chan(buf, what)
  local ok, ch = pcall(core.chan, buf)
  if not ok then raise(what .. ": " .. tostring(ch):gsub("^chan: ", "")) end
  return ch
end

-- The method of channels: what rn.into gives, in the running go block. Declared in meta.lua. It is here because each
-- module of the library loads this one, and so has every channel, also in a program that does not require "runnel".
function core.methods.list(ch)
  if not core.is_chan(ch) then
    raise("list: a channel expected, got " .. check.article(ch) .. "; call it as ch:list()")
  end
  local list, n = {}, 0
  while true do
    local value, err = ch:take()
    if value == nil then
      if err ~= nil then return nil, err end
      return list
    end
    n = n + 1
    list[n] = value
  end
end

return check
