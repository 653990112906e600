---Dead letters: given-up jobs of remote stages and messages of durable stages, as a program sees them. Where they are
---stored is the matter of the class.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local names = require "runnel.queue.names"
local sign = require "runnel.internal.sign"

local dead = {}

---A dead letter.
---@class runnel.DeadLetter
---@field sequence integer its number
---@field name string of the stage
---@field kind "job"|"message" a job of a remote stage, or a message of a durable stage
---@field error string
---@field traceback? string
---@field starts integer how often it was started
---@field raises integer how many of these starts ended with an error
---@field errors? runnel.queue.TryError[] the errors of the last tries, one for each; only from `get`
---@field since number when it was submitted or stored, in ms since 1970
---@field time number when it was given up
---@field worker? string host and process id of the worker that had it last, as far as it is known
---@field encoding string of the value
---@field bytes integer how many the value has
---@field is_async boolean it is a job for a function that gets a channel for its results
---@field left_out boolean the value was too large for a letter
---@field from? string the stream of the message
---@field subject? string of the message
---@field position? integer the number of the message in its stream
---@field priority? integer of the message; of a store only, and only from `get`
---@field value any only from `get`
---@field data? string the bytes of the value; only from `get`
---@field headers? table<string, string> of the message; only from `get`
---@field id? string one letter with an id is stored

---The dead letters of a stage. Stages of one name on several streams share a store's table or a server's stream of
---letters, so those of a queue are told apart by what each letter says.
---@class runnel.DeadLetters
---@field name string of the stage
---@field from? string only of messages of this stream
---@field kind? "job"|"message" only of this kind
---@field protected owner any the connection or the store
---@field count fun(self): integer?, string? the number of letters, or nil and the reason
---@field protected read fun(self, after: integer, limit: integer): runnel.DeadLetter[]?, string?
---@field protected find fun(self, sequence: integer): runnel.DeadLetter?, string? nil: there is none
---@field protected remove fun(self, sequence: integer?): integer?, string? removes one, or all; returns how many
---@field protected store_again fun(self, letter: runnel.DeadLetter): integer?, string? puts a message into its stream
---again, for the same stage only, at most once, and removes its letter; 0: that was gone
local Dead = {}

local function name_of(self) return self.from and self.from .. "/" .. self.name or self.name end

function Dead:__tostring() return ("dead letters: %s.dead"):format(name_of(self)) end

local LIST_OPTIONS <const> = { after = check.kinds.integer(0), limit = check.kinds.integer(1) }

---Lists dead letters, the oldest first, without their values.
---@param opts? { after?: integer, limit?: integer } `after`: only those with larger sequence numbers; `limit`: at most
---that many (100)
---@return runnel.DeadLetter[]? letters, string? err
function Dead:list(opts)
  sign.own(self, "dead", "list")
  check.options(opts, LIST_OPTIONS, "list")
  opts = opts or {}
  local letters, err = self:read(opts.after or 0, opts.limit or 100)
  return letters, err
end

local function missing(self, sequence) return ("there is no dead letter %d of %s"):format(sequence, name_of(self)) end

---One dead letter, with its value.
---@param sequence integer
---@return runnel.DeadLetter? letter, string? err
function Dead:get(sequence)
  sign.own(self, "dead", "get")
  check.integer(sequence, 1, "get: sequence")
  local letter, err = self:find(sequence)
  if letter or err then return letter, err end
  return nil, missing(self, sequence)
end

---Deletes one dead letter, or all. Returns how many.
---@param sequence? integer
---@return integer? count, string? err
function Dead:drop(sequence)
  sign.own(self, "dead", "drop")
  if sequence ~= nil then check.integer(sequence, 1, "drop: sequence") end
  local count, err = self:remove(sequence)
  if count == 0 and sequence then return nil, missing(self, sequence) end
  return count, err
end

-- Runs a job again, and returns true and its results, or nil and its error.
local function run_again(self, letter)
  local remote <close> = self.owner:remote(self.name, { encoding = letter.encoding, dead = false })
  local function run()
    if not letter.is_async then return remote(letter.value) end
    local out, list = core.chan(16), {}
    remote(letter.value, out)
    while true do
      local value, err = out:take()
      if err ~= nil then error(err, 0) end
      if value == nil then return table.unpack(list) end
      list[#list + 1] = value
    end
  end
  local results = table.pack(guard.try(run))
  if results[1] then return results end
  guard.raise_cancelled(results[2])
  return nil, results[2]
end

---Runs a given-up job or message again, and deletes its dead letter. A job of a remote stage runs in a worker, and this
---waits for its end, forever if there is no worker: returns true and its results; or nil and its error, and keeps the
---letter. A message of a durable stage is put into its stream again, for this stage only; other readers of the stream
---get it too.
---@param sequence integer
---@return boolean? done, any ... the results, or the error
function Dead:replay(sequence)
  sign.own(self, "dead", "replay")
  local letter, err = self:get(sequence)
  if not letter then return nil, err end
  if letter.left_out then return nil, "the value was too large for a dead letter, and is not in it" end
  if letter.kind ~= "job" then
    local count, problem = self:store_again(letter)
    if count == 0 then return nil, missing(self, sequence) end -- another program was first
    if not count then return nil, problem end
    return true
  end
  local results, why = run_again(self, letter)
  if not results then return nil, why end
  local count, problem = self:remove(sequence)
  if not count then return nil, "the job has been done, but its dead letter is still there: " .. problem end
  return table.unpack(results, 1, results.n)
end

---A class of dead letters.
---@param methods { count: function, read: function, find: function, remove: function, store_again: function }
---@return table class
function dead.class(methods)
  local class = { __name = "dead letters", __sign = "dead", __tostring = Dead.__tostring }
  for name, method in pairs(Dead) do class[name] = method end
  for name, method in pairs(methods) do class[name] = method end
  class.__index = class
  return class
end

---The dead letters of a stage.
---@param class table of dead.class
---@param owner any the connection or the store
---@param name any NAME of the stage, or STREAM/NAME
---@return runnel.DeadLetters
function dead.new(class, owner, name)
  local from, stage
  if type(name) == "string" then from, stage = name:match "^([^/]*)/(.*)$" end
  if from then names.check(from, "dead: name") else stage = name end
  names.check(stage, "dead: name")
  return setmetatable({ owner = owner, name = stage, from = from, kind = from and "message" }, class)
end

return dead
