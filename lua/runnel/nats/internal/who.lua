---Lets operators inspect and pause queues: the workers and stages of a connection answer requests (runnel.nats.queues)
---with their state, and receive pauses.
---
---A request on the subject runnel.who goes to all programs; each answers with a JSON object:
---
---    { "host": "a", "pid": 7, "program": "worker.lua", "members": [ {
---        "queue": "resize", "n": 8, "busy": 1, "waiting": 0, "done": 120, "failed": 1, "redelivered": 0,
---        "paused": false, "running": [ { "value": "\"a.png\"", "ms": 1200, "deliveries": 1 } ] } ] }
---
---The queue is NAME for a remote stage, and STREAM/CONSUMER for a stage between streams. Without requests nothing is
---sent. The message { "queue": QUEUE, "paused": true } pauses a queue, and false resumes it; the members of the queue
---answer it as they answer a request. The server keeps that state in the description of the queue's consumer, where a
---program looks when it starts and after a reconnect.
---
---While readers of a program hear nothing (runnel.nats.internal.silence), its answer to a request for all queues has a
---list of them, also of sources without a name, which belong to no queue:
---
---    "silent": [ { "what": "source", "stream": "orders", "ms": 7000, "why": "..." } ]

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local jetstream = require "runnel.nats.internal.jetstream"
local json = require "runnel.json"
local keepers = require "runnel.queue.keeper"
local lib = require "runnel.nats.internal.lib"
local queues = require "runnel.queue.queues"
local remove = require "runnel.internal.remove"


local who = {}

---The subject of requests.
who.SUBJECT = "runnel.who"

---The description of a paused queue's consumer.
who.PAUSED = "paused"

---A worker or a stage.
---@class runnel.nats.Member
---@field queue string the name of its queue, as in conn:queues()
---@field stream string
---@field consumer string
---@field report fun(): table what it does: n, busy, running, waiting, done, failed, redelivered, paused
---@field pause fun(is_paused: boolean)

local function reports(members, queue)
  local list = json.array {}
  for _, member in ipairs(members) do
    if queue == nil or member.queue == queue then
      local report = member.report()
      report.queue = member.queue
      list[#list + 1] = report
    end
  end
  return list
end

-- The silent readers of a connection.
local function silent_ones(conn)
  local list = json.array {}
  for entry in pairs(conn.silences or {}) do
    list[#list + 1] = { what = entry.what, stream = entry.stream, consumer = entry.consumer, why = entry.why,
      ms = (core.now() - entry.since) // 1 | 0 }
  end
  return list
end

-- Handles a request. Must not park.
local function answer(conn, members, data, reply)
  local question = data ~= "" and json.decode(data) or {}
  if type(question) ~= "table" then return end
  if question.paused ~= nil then
    for _, member in ipairs(members) do
      if member.queue == question.queue then member.pause(question.paused == true) end
    end
  end
  local list, silent = reports(members, question.queue), question.queue == nil and silent_ones(conn) or {}
  if not reply or #list + #silent == 0 then return end
  local host, pid = lib.process()
  conn.core:publish(reply, assert(json.encode {
    host = host, pid = pid, program = queues.program(), members = list, silent = #silent > 0 and silent or nil,
  }))
end

---Whether the description of a consumer marks its queue as paused.
---@param config table of the consumer
---@return boolean
function who.is_paused(config) return config.description == who.PAUSED end

-- Checks whether a queue was paused or resumed while the connection was lost.
local function look(conn, member)
  local info = jetstream.request(conn, ("CONSUMER.INFO.%s.%s"):format(member.stream, member.consumer))
  if info then member.pause(who.is_paused(info.config)) end
end

-- Subscribes; called for the first member of a connection, or the first silent reader.
local function listen(conn)
  local members = {}
  local ch = conn:subscribe(who.SUBJECT, { encoding = "raw" }, function(data, reply)
    answer(conn, members, data, reply)
  end)
  local forget = conn:on_event(function(event)
    if event.event ~= "reconnected" then return end
    for _, member in ipairs(members) do guard.started(guard.go(guard.nothing, nil, look, conn, member), who.SUBJECT) end
  end)
  conn.who = { members = members, close = function()
    forget()
    if ch then ch:close() end
    conn.who = nil
  end }
  return conn.who
end

-- Ends the subscription if nobody needs it.
local function close_unused(conn)
  local all = conn.who
  if all and #all.members == 0 and not next(conn.silences or {}) then all.close() end
end

---Adds a member, until it ends.
---@param conn runnel.nats.Connection
---@param member runnel.nats.Member
---@param ended runnel.Channel<any> closes when it has ended
function who.add(conn, member, ended)
  local all = conn.who or listen(conn)
  local members = all.members
  members[#members + 1] = member
  keepers.on_close(ended, function()
    remove(members, member)
    close_unused(conn)
  end)
end

---Shows a silent reader, until `remove_silence`.
---@param conn runnel.nats.Connection
---@param entry { what: string, stream: string, consumer?: string, since: number, why: string }
function who.add_silence(conn, entry)
  conn.silences = conn.silences or {}
  conn.silences[entry] = true
  if not conn.who and not conn.has_ended then listen(conn) end
end

---@param conn runnel.nats.Connection
---@param entry table
function who.remove_silence(conn, entry)
  if not conn.silences then return end
  conn.silences[entry] = nil
  close_unused(conn)
end

return who
