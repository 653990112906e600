---The arguments of sources, and of the consumers that named sources and stages have.

local check = require "runnel.internal.check"
local names = require "runnel.queue.names"
local options = require "runnel.queue.options"
local raise = require("runnel.core").internal.raise

local kinds = check.kinds

local source = {}

---@class runnel.queue.SourceOptions
---@field name? string of the consumer, which remembers what was acknowledged. Sources with the same name, here or in
---other processes, share the messages
---@field subject? string only messages with this subject, which may be a pattern
---@field from? "all"|"new"|"last"|integer where a new consumer begins: the first message (the default), the next one
---that is stored, the last one, or a sequence number
---@field ack? "explicit"|"taken" acknowledged by the program (the default), or by the source when a message is taken
---@field max_running? integer how many messages may be unacknowledged in all processes together (1000)
---@field ack_wait? number ms from the take after which a message that is not acknowledged is delivered again (30000)
---@field tries? integer how often a message is delivered at most; without end by default
---@field buffer? integer how many messages may wait in this process for a taker (64)
---@field encoding? "raw"|"msgpack"|"json" of the values; by default the connection's

local FROM <const> = { all = true, new = true, last = true }

local function check_subject(value, what)
  local wrong = names.wrong_subject(value, true)
  if wrong then raise(("%s: %s"):format(what, wrong)) end
end

local function check_from(value, what)
  if not FROM[value] and not (math.type(value) == "integer" and value >= 1) then
    raise(('%s: "all", "new", "last" or a sequence number expected, got %s'):format(what, check.describe(value)))
  end
end

---The options that the consumers of named sources and of stages have, for check.options.
source.CONSUMER = { subject = check_subject, max_running = kinds.integer(1), ack_wait = kinds.ms(10) }

local OPTIONS <const> = {
  name = true, from = check_from, ack = kinds.one_of { "explicit", "taken" }, tries = kinds.integer(1),
  buffer = kinds.integer(1), encoding = options.ENCODING,
}
for name, kind in pairs(source.CONSUMER) do OPTIONS[name] = kind end
local NEED_NAME <const> = { "ack", "max_running", "ack_wait", "tries" }

---Checks the arguments of conn:source and store:source.
---@param stream any
---@param opts any
---@return table opts
function source.check(stream, opts)
  names.check(stream, "source: stream")
  check.options(opts, OPTIONS, "source")
  opts = opts or {}
  if opts.name ~= nil then
    names.check(opts.name, "source: name")
  else
    for _, option in ipairs(NEED_NAME) do
      if opts[option] ~= nil then
        raise(("source: %s: only a source with a name acknowledges; give it a name"):format(option))
      end
    end
  end
  return opts
end

return source
