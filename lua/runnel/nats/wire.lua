---The format of messages between submitters (runnel.nats.remote) and workers (runnel.nats.serve).
---
---Each message is a line of words, a newline, and the bytes of values. The first word is the version of this format.
---The second, in every version, is the subject for answers, or "-". Workers can be written in other languages.
---
---    job, to the stream              1 REPLY NUMBER ENCODING FLAGS\n value
---    result, to REPLY                1 - result NUMBER ACK SIZES\n values
---    question, to REPLY              1 ANSWER may-start NUMBER ACK WORKER BESIDE AGAIN\n
---    back at the server, to REPLY    1 - returned NUMBER ACK COUNTED\n
---    refusal, to REPLY               1 - refused NUMBER VERSION WORKER\n
---    answer, to ANSWER               1 - run | 1 - alone | 1 - done
---    cancellation, to all workers    1 - cancel REPLY NUMBER
---
---NUMBER identifies the job among those of REPLY. ENCODING is msgpack, json or raw. FLAGS are letters, or "-": `a`, the
---job's function gets a channel for its results; `r`, the job may have been started before. ACK is the subject for the
---acknowledgement of the delivery. SIZES are the sizes in bytes of the values that follow, separated by commas, or "-":
---`v` a result, `e` an error, `t` its traceback, as in "v12,v5,e40,t300". BESIDE is `alone` if the worker runs no other
---job, and otherwise `beside`; a worker that gets the answer `alone` asks again when it runs no other job. AGAIN is
---`perhaps` if this may be the first delivery, and otherwise `again`. COUNTED is `asked` if the worker has asked about
---the job, and `first` if it has not, since this is the first delivery, or may be.

local core = require "runnel.core"
local internal = core.internal
local encodings = require("runnel.nats.values").encodings

local wire = {}

---The version of the format.
wire.VERSION = "1"

-- Most messages are jobs and results, so these use few string operations. For a long word, a plain find costs less than
-- a pattern.
local VERSION <const> = "1"
local RESULT <const> = VERSION .. " - result "
local BEGINNING <const> = VERSION .. " "
local AFTER_REPLY <const> = "^(%-?%d+) (%S+) ([^\n]+)\n()"
local BEFORE_ACK <const> = "^" .. VERSION .. " %- result (%S+) ()"
local find, match, sub = string.find, string.match, string.sub

-- ---- jobs ----

---A job as a message. `again`: it may have been started before.
---@param reply string
---@param number string
---@param encoding string
---@param is_async boolean
---@param again boolean
---@param bytes string
---@return string
function wire.job(reply, number, encoding, is_async, again, bytes)
  local flags = is_async and (again and "ar" or "a") or again and "r" or "-"
  return VERSION .. " " .. reply .. " " .. number .. " " .. encoding .. " " .. flags .. "\n" .. bytes
end

---@class runnel.JobMessage
---@field reply string
---@field number string
---@field encoding string
---@field is_async boolean
---@field again boolean
---@field bytes string

-- The result of parse_job for an unreadable job. `encoding`: the job's, if its first line has the right form.
local function unreadable(data, encoding)
  local version, reply = match(data, "^(%d+) ([^%s]+)")
  if version ~= VERSION then return nil, version, reply, not version and "it is not a job" or nil end
  if encoding and not encodings[encoding] then return nil, version, reply end
  return nil, version, reply, "its first line makes no sense"
end

---Parses a job. Returns nil for one that this version cannot read, with its version and the subject for answers as far
---as they are known. If no version can read it, `problem` says why; otherwise it has another version or encoding.
---@param data string
---@return runnel.JobMessage? job
---@return string? version
---@return string? reply
---@return string? problem
function wire.parse_job(data)
  local space = sub(data, 1, #BEGINNING) == BEGINNING and find(data, " ", #BEGINNING + 1, true)
  local number, encoding, flags, at = match(data, AFTER_REPLY, (space or #data) + 1)
  local reply = number and sub(data, #BEGINNING + 1, space - 1)
  if not encodings[encoding or ""] or reply == "" then return unreadable(data, reply ~= "" and encoding) end
  local is_async, again = false, false
  if flags ~= "-" then is_async, again = find(flags, "a", 1, true) ~= nil, find(flags, "r", 1, true) ~= nil end
  return {
    reply = reply, number = number, encoding = encoding, is_async = is_async, again = again, bytes = sub(data, at),
  }
end

-- ---- results ----

---The outcome of a job.
---@class runnel.Outcome
---@field n integer how many results
---@field [integer] any the results
---@field failed boolean
---@field err any the error, if it has failed
---@field traceback? string the worker's

-- Packs the error, or else its text.
local function pack_error(codec, err)
  if err == nil then err = "nil" end
  return codec.encode(err, "error") or codec.encode(internal.error_text(err), "error") or "an error that cannot be sent"
end

---Packs an outcome; nil and the reason if a result cannot be packed.
---@param job runnel.JobMessage
---@param ack string
---@param outcome runnel.Outcome
---@return string? message
---@return string? why
function wire.result(job, ack, outcome)
  local codec = encodings[job.encoding]
  if outcome.n == 1 and not outcome.failed then
    local bytes, why = codec.encode(outcome[1], "result")
    if not bytes then return nil, why end
    return RESULT .. job.number .. " " .. ack .. " v" .. #bytes .. "\n" .. bytes
  end
  local sizes, parts = {}, { "" }
  local function add(kind, bytes)
    sizes[#sizes + 1] = kind .. #bytes
    parts[#parts + 1] = bytes
  end
  for i = 1, outcome.n do
    local bytes, why = codec.encode(outcome[i], "result")
    if not bytes then return nil, why end
    add("v", bytes)
  end
  if outcome.failed then
    add("e", pack_error(codec, outcome.err))
    if outcome.traceback then add("t", outcome.traceback) end
  end
  local list = #sizes > 0 and table.concat(sizes, ",") or "-"
  parts[1] = RESULT .. job.number .. " " .. ack .. " " .. list .. "\n"
  return table.concat(parts)
end

---Parses the line of a result.
---@param data string
---@return string? number nil if it is not a result
---@return string ack
---@return string sizes
---@return integer at where its values begin
function wire.parse_result(data)
  local number, ack_at = match(data, BEFORE_ACK)
  local space = number and find(data, " ", ack_at, true)
  local ending = space and find(data, "\n", space + 1, true)
  if not ending or ending < space + 2 then return nil, "", "", 0 end
  return number, sub(data, ack_at, space - 1), sub(data, space + 1, ending - 1), ending + 1
end

local function unpack_results(codec, data, at, sizes)
  local only = match(sizes, "^v(%d+)$")
  if only and tonumber(only) == #data - at + 1 then
    local value, why = codec.decode(sub(data, at))
    if why ~= nil then return nil, why end
    return { n = 1, failed = false, value }
  end
  local outcome = { n = 0, failed = false }
  for kind, size in sizes:gmatch "([vet])(%d+)" do
    local after = at + tonumber(size)
    if after > #data + 1 then return nil, "it is cut short" end
    local bytes = data:sub(at, after - 1)
    at = after
    if kind == "t" then
      outcome.traceback = bytes
    else
      local value, why = codec.decode(bytes)
      if why ~= nil then return nil, why end
      if kind == "v" then
        outcome.n = outcome.n + 1
        outcome[outcome.n] = value
      else
        outcome.failed, outcome.err = true, value
      end
    end
  end
  return outcome
end

---The outcome in a result's message; a failed one if the message is malformed.
---@param data string
---@param at integer where its values begin
---@param sizes string
---@param encoding string
---@return runnel.Outcome
function wire.outcome(data, at, sizes, encoding)
  local outcome, why = unpack_results(encodings[encoding], data, at, sizes)
  return outcome or { n = 0, failed = true, err = "the worker's result cannot be read: " .. why }
end

-- ---- the rest ----

---Parses the messages of workers and submitters other than jobs: returns the words after the version, and where the
---values begin; nil and the version if this version cannot read the message.
---@param data string
---@return string[]? words
---@return integer|string at
function wire.parse(data)
  local line, at = data:match "^([^\n]*)\n?()"
  local words = {}
  for word in line:gmatch "%S+" do words[#words + 1] = word end
  if words[1] ~= wire.VERSION or #words < 3 then return nil, words[1] or "?" end
  return words, at
end

---Makes a message without values.
---@param ... string|integer its words after the version
---@return string
function wire.line(...) return table.concat({ wire.VERSION, ... }, " ") .. "\n" end

---The delivery's data in the subject for the acknowledgement.
---@param ack string
---@return integer deliveries how often the server says it has delivered the job; 1 is the first time
---@return integer sequence the job's number in the stream
---@return integer order the consumer's number of the delivery
function wire.delivery(ack)
  local words = {}
  for word in ack:gmatch "[^.]+" do words[#words + 1] = word end
  -- $JS.ACK.stream.consumer.deliveries. ..., or $JS.ACK.domain.account.stream.consumer.deliveries. ...
  local at = #words >= 11 and 7 or 5
  local function number(i) return math.tointeger(tonumber(words[i])) or 1 end
  return number(at), number(at + 1), number(at + 2)
end

return wire
