---Checks the table that is passed to uv.spawn and uv.run: a command, its arguments and options.

local core = require "runnel.core"
local loop = require "runnel.internal.uv.loop"

local find, math_type = string.find, math.type

local command = {}

local OPTIONS = { stdin = true, stdout = true, stderr = true, cwd = true, env = true, grace = true, detached = true }

local function complain(text, ...) error(text:format(...), 0) end

---A value that was given instead of what was expected, for a message.
---@return string
function command.describe(value)
  if value == nil then return "nothing" end
  return type(value) == "string" and ("%q"):format(value) or tostring(value)
end

---Whether a value may be a file descriptor.
---@return boolean
function command.is_descriptor(value) return math_type(value) == "integer" and value >= 0 end

local describe, is_descriptor = command.describe, command.is_descriptor

-- The command's arguments.
local function words_of(options)
  if type(options) ~= "table" then
    complain('a table with the command and its arguments expected, as in uv.spawn { "ls", "-l" }, got %s',
      describe(options))
  end
  if type(options[1]) ~= "string" or options[1] == "" then
    complain("the name of a command expected in front, got %s", describe(options[1]))
  end
  local args = {}
  for i = 1, #options do
    local word = options[i]
    local kind = type(word)
    if kind == "number" then
      word = tostring(word)
    elseif kind ~= "string" then
      complain("argument %d: a string expected, got %s", i - 1, describe(word))
    elseif find(word, "\0", 1, true) then
      complain("argument %d has a zero byte", i - 1)
    end
    if i > 1 then args[i - 1] = word end
  end
  return args
end

local function check_stdin(value)
  if value ~= nil and type(value) ~= "boolean" and not is_descriptor(value) and not core.is_chan(value) then
    complain("stdin: a channel, true for a new one, false for none, or a file descriptor expected, got %s",
      describe(value))
  end
end

local function check_output(name, value, same)
  if value == nil or value == false or value == "lines" or value == "chunks" or value == same then return end
  if is_descriptor(value) then return end
  complain('%s: "chunks", "lines", %sfalse for none, or a file descriptor expected, got %s', name,
    same and '"stdout" for the same, ' or "", describe(value))
end

-- `args` are what follows the command, so that its keys and the number after them are those of the words.
local function check_options(options, args)
  local n = #args + 1
  for key in next, options do
    if not (OPTIONS[key] or args[key] or key == n) then
      complain("there is no option %s", describe(key))
    end
  end
  check_stdin(options.stdin)
  check_output("stdout", options.stdout)
  check_output("stderr", options.stderr, "stdout")
  if options.cwd ~= nil and type(options.cwd) ~= "string" then
    complain("cwd: a path expected, got %s", describe(options.cwd))
  end
  if options.env ~= nil and type(options.env) ~= "table" then
    complain("env: a table of names and values expected, got %s", describe(options.env))
  end
  if options.detached ~= nil and type(options.detached) ~= "boolean" then
    complain("detached: true or false expected, got %s", describe(options.detached))
  end
  local grace = options.grace
  if grace ~= nil and (type(grace) ~= "number" or grace < 0 or grace ~= grace) then
    complain("grace: a number of ms expected, got %s", describe(grace))
  end
end

-- The environment as luv wants it: ours, with changes.
local function environment(changes)
  local env = loop.uv.os_environ()
  for name, value in pairs(changes) do
    if type(name) ~= "string" or name == "" or name:find("[=\0]") then
      complain("env: the name of a variable expected, got %s", describe(name))
    end
    if value ~= false and type(value) ~= "string" and type(value) ~= "number" then
      complain("env: %s: a string expected, or false to leave it out, got %s", name, describe(value))
    end
    env[name] = value or nil
  end
  local list = {}
  for name, value in pairs(env) do list[#list + 1] = name .. "=" .. value end
  return list
end

---Checks the argument of uv.spawn. Raises an error without a position and without the function's name.
---@param options table
---@return table for_luv
function command.parse(options)
  local args = words_of(options)
  check_options(options, args)
  return {
    args = args, stdio = nil, cwd = options.cwd, detached = options.detached and true or nil,
    env = options.env and environment(options.env),
  }
end

return command
