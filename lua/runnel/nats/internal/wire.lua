---The format of messages between submitters (runnel.nats.remote) and workers (runnel.nats.internal.serve).
---
---Each message is a line of words, a newline, and the bytes of values. The first word is the version of this format.
---The second, in every version, is the subject for answers, or "-". Workers can be written in other languages.
---
---    job, to the stream              2 REPLY NUMBER ENCODING FLAGS STARTS TRIES RETRY\n value
---    result, to REPLY                2 - result NUMBER ACK SIZES\n values
---    refusal, to REPLY               VERSION - refused NUMBER VERSION WORKER\n
---    cancellation, to all workers    2 - cancel REPLY NUMBER
---
---NUMBER identifies the job among those of REPLY. ENCODING is msgpack, json or raw. FLAGS are letters, or "-": `a`, the
---job's function gets a channel for its results; `r`, the job was sent before; `n`, it does not become a dead letter;
---`p`, the submitter answers probes: messages "{}" to REPLY, which it answers by an empty one.
---STARTS is how often it is started if its process ends each time, TRIES how often it is tried if its function raises,
---and RETRY the ms until the second try. ACK is the subject for the acknowledgement of the delivery. SIZES are the
---sizes in bytes of the values that follow, separated by commas, or "-": `v` a result, `e` an error, `t` its traceback,
---as in "v12,v5,e40,t300". A worker that cannot read a job publishes a refusal: first the version of the job, whose
---sender reads that, then its own.

local keepers = require "runnel.queue.keeper"
local timed_out = require "runnel.internal.timed_out"
local encodings = require("runnel.queue.encodings").encodings

local wire = {}

---The version of the format.
wire.VERSION = "2"

-- Most messages are jobs and results, so these use few string operations. For a long word, a plain find costs less than
-- a pattern.
local VERSION <const> = "2"
local RESULT <const> = VERSION .. " - result "
local BEGINNING <const> = VERSION .. " "
local AFTER_REPLY <const> = "^(%-?%d+) (%S+) ([^\n]+)\n()"
local BEFORE_ACK <const> = "^" .. VERSION .. " %- result (%S+) ()"
local find, match, sub = string.find, string.match, string.sub

-- ---- jobs ----

---What the first line of a job says about its function and its end.
---@class runnel.nats.JobTerms: runnel.queue.Limits
---@field is_async boolean its function gets a channel for its results
---@field again boolean it was sent before
---@field has_letters boolean it may become a dead letter
---@field answers? boolean its submitter answers probes; only of parsed ones

---The terms of a job, for its first line.
---@param terms runnel.nats.JobTerms
---@return string
function wire.terms(terms)
  local flags = (terms.is_async and "a" or "") .. (terms.again and "r" or "") .. (terms.has_letters and "" or "n")
  return ("%sp %d %d %.0f"):format(flags, terms.starts, terms.tries, terms.retry)
end

---A job as a message.
---@param reply string
---@param number string
---@param encoding string
---@param terms string of wire.terms
---@param bytes string
---@return string
function wire.job(reply, number, encoding, terms, bytes)
  return VERSION .. " " .. reply .. " " .. number .. " " .. encoding .. " " .. terms .. "\n" .. bytes
end

---@class runnel.JobMessage
---@field reply string
---@field number string
---@field encoding string
---@field limits runnel.nats.JobTerms
---@field bytes string

-- Most jobs have the terms of the one before.
local last_terms, last_text

local function parse_terms(text)
  if text == last_text then return last_terms end
  local flags, starts, tries, retry = match(text, "^(%S+) (%d+) (%d+) (%d+)$")
  starts, tries = math.tointeger(tonumber(starts)), math.tointeger(tonumber(tries))
  if not starts or not tries or starts < 1 or tries < 1 then return nil end
  last_text, last_terms = text, {
    starts = starts, tries = tries, retry = tonumber(retry), is_async = find(flags, "a", 1, true) ~= nil,
    again = find(flags, "r", 1, true) ~= nil, has_letters = not find(flags, "n", 1, true),
    answers = find(flags, "p", 1, true) ~= nil,
  }
  return last_terms
end

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
  local number, encoding, text, at = match(data, AFTER_REPLY, (space or #data) + 1)
  local reply = number and sub(data, #BEGINNING + 1, space - 1)
  if not encodings[encoding or ""] or reply == "" then return unreadable(data, reply ~= "" and encoding) end
  local limits = parse_terms(text)
  if not limits then return unreadable(data) end
  return { reply = reply, number = number, encoding = encoding, limits = limits, bytes = sub(data, at) }
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
  return codec.encode(timed_out.plain(err) or err, "error") or codec.encode(keepers.error_text(err), "error")
    or "an error that cannot be sent"
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
        outcome.failed, outcome.err = true, timed_out.of_plain(value)
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

---A refusal of a job of a version, which the sender of that version reads.
---@param version string of the job
---@param number string of the job, or 0
---@param worker string identifies the worker
---@return string
function wire.refusal(version, number, worker)
  return ("%s - refused %s %s %s\n"):format(version, number, wire.VERSION, worker)
end

---The version and the worker of a refusal, in any version; nil if it is not one.
---@param data string
---@return string? version
---@return string worker
function wire.parse_refusal(data) return match(data, "^%d+ %- refused %S+ (%S+) (%S+)") end

---A cancellation.
---@param reply string
---@param number string
---@return string
function wire.cancel(reply, number) return ("%s - cancel %s %s\n"):format(VERSION, reply, number) end

---The job of a cancellation; nil if it is not one.
---@param data string
---@return string? reply
---@return string number
function wire.parse_cancel(data) return match(data, "^" .. VERSION .. " %- cancel (%S+) (%S+)") end

return wire
