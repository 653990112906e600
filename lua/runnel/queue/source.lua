---The arguments of sources, and of the consumers that named sources and stages have.

local check = require "runnel.internal.check"
local names = require "runnel.queue.names"

local integer, one_of = check.kinds.integer, check.kinds.one_of

local source = {}

---@class runnel.queue.SourceOptions
---@field name? string of the consumer, which remembers what was acknowledged. Sources with the same name, here or in
---other processes, share the messages
---@field subject? string only messages with this subject, which may be a pattern
---@field from? "all"|"new"|"last"|integer where a new consumer begins: the first message (the default), the next one
---that is stored, the last one, or a sequence number
---@field ack? "explicit"|"taken" acknowledged by the program (the default), or by the source when a message is taken
---@field max_ack_pending? integer how many messages may be unacknowledged in all processes together (1000)
---@field ack_wait? number ms from the take after which a message that is not acknowledged is delivered again (30000)
---@field tries? integer how often a message is delivered at most; without end by default
---@field buffer? integer how many messages may wait in this process for a taker (64)
---@field encoding? "raw"|"msgpack"|"json" of the values; by default the connection's

local OPTIONS <const> = {
  name = true, subject = true, from = true, ack = one_of { "explicit", "taken" }, max_ack_pending = true,
  ack_wait = true, tries = true, buffer = integer(1), encoding = true,
}
local NEED_NAME <const> = { "ack", "max_ack_pending", "ack_wait", "tries" }
local FROM <const> = { all = true, new = true, last = true }

---Checks the options of a consumer: subject, from; with a name also max_ack_pending, ack_wait and tries.
---@param opts table
---@param what string the function that the program has called
---@param level integer of the program's line, as the caller of this function would give it to `error`
function source.check_consumer(opts, what, level)
  local function fail(format, ...) error(what .. ": " .. format:format(...), level + 2) end
  for _, option in ipairs { "max_ack_pending", "tries" } do
    if opts[option] ~= nil then check.integer(opts[option], 1, what .. ": " .. option, level + 2) end
  end
  if opts.ack_wait ~= nil then check.ms(opts.ack_wait, 10, what .. ": ack_wait", level + 2) end
  local subject = opts.subject
  if subject ~= nil and (type(subject) ~= "string" or subject == "" or subject:find "%s") then
    fail("subject: a subject without spaces expected, got %s", check.describe(subject))
  end
  local from = opts.from
  if from ~= nil and not FROM[from] and not (math.type(from) == "integer" and from >= 1) then
    fail('from: "all", "new", "last" or a sequence number expected, got %s', check.describe(from))
  end
end

---Checks the arguments of conn:source and store:source, but for the encoding. An error is at the line that has called
---the caller.
---@param stream any
---@param opts any
---@return table opts
function source.check(stream, opts)
  names.check(stream, "source: stream", 4)
  check.options(opts, OPTIONS, "source", 4)
  opts = opts or {}
  if opts.name ~= nil then
    names.check(opts.name, "source: name", 4)
  else
    for _, option in ipairs(NEED_NAME) do
      if opts[option] ~= nil then
        error(("source: %s: only a source with a name acknowledges; give it a name"):format(option), 3)
      end
    end
  end
  source.check_consumer(opts, "source", 3)
  return opts
end

return source
