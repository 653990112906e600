---store:sink: stores values in a stream of a store.

local json = require "runnel.json"
local problems = require "runnel.store.problems"
local sinks = require "runnel.queue.sink"
local streams = require "runnel.store.stream"
local values = require "runnel.store.values"
local waiting = require "runnel.store.waiting"
local raise = require("runnel.core").internal.raise

local sink = {}

local MESSAGE <const> = [[
insert into runnel_message(stream, seq, subject, form, value, bytes, headers, priority, made, id)
  select name, last + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 from runnel_stream where name = ?1]]

-- Stores the id; if it does not, nothing else is done.
local ID <const> = [[
insert or %s into runnel_id(stream, id, seq, made)
  select name, ?2, last + 1, ?3 from runnel_stream where name = ?1 %s;
]] .. MESSAGE .. " and changes() = 1"

-- A put with an id is dropped, and changes nothing, if the id is known; with the option `if_waiting` only if that is
-- "drop" and a message with the id waits.
local WITH_ID <const> = {
  [false] = ID:format("ignore", ""),
  replace = waiting.REMOVE .. ";" .. ID:format("replace", ""),
  drop = ID:format("replace", "and " .. waiting.NONE_FOUND),
}

-- The number of the message, or of the one that is there.
local NUMBER <const> = "; select last as seq from runnel_stream where name = ?"
local NUMBER_OF_ID <const> = "; select seq from runnel_id where stream = ? and id = ?"
local NUMBER_OF_WAITING <const> = ";" .. waiting.FOUND_OR_LAST

---What follows a message with a priority: it is delivered at once, to the consumers that there are, but for those with
---the option `key`.
sink.WITH_PRIORITY = [[;
insert into runnel_delivery(stream, seq, consumer, due, deliveries)
  select s.name, s.last, c.name, ?3, 0 from runnel_stream s, runnel_consumer c
  where s.name = ?1 and c.stream = ?1 and changes() = 1 and c.since < s.last
    and (c.subject is null or runnel_matches(?2, c.subject));
update runnel_consumer set delivered = delivered + 1
  where stream = ?1 and changes() > 0 and since < 9007199254740992
    and (subject is null or runnel_matches(?2, subject))]]

-- The latest time that is different from never.
local LATEST <const> = 1 << 53

---Stores a message. Parks.
---@param store runnel.store.Store
---@param stream string
---@param subject string
---@param form string
---@param data any for a parameter
---@param opts { id?: string, headers?: table<string, string>, priority?: integer, if_waiting?: "replace"|"drop" }
---@param tx? runnel.sqlite.Transaction
---@return integer? sequence
---@return boolean|string is_duplicate or the problem
function sink.append(store, stream, subject, form, data, opts, tx)
  local id, priority, made = opts.id, opts.priority or 0, store:time()
  local headers = opts.headers and assert(json.encode(opts.headers))
  local size = values.size(data)
  data = values.of_column(form, data)
  local statements <const>, rows, changes = tx or store
  if not id and priority == 0 then
    rows, changes = statements:attempt("rows", MESSAGE .. " returning seq", stream, subject, form, data, size, headers,
      0, made, nil)
  else
    local mode = opts.if_waiting or false
    local sql, all = id and WITH_ID[mode] or MESSAGE, { n = 0 }
    local function add(n, ...)
      table.move({ ... }, 1, n, all.n + 1, all)
      all.n = all.n + n
    end
    if mode == "replace" then add(2, stream, id) end
    if id then add(3, stream, id, made) end
    add(9, stream, subject, form, data, size, headers, priority, made, id)
    if priority > 0 then
      sql = sql .. sink.WITH_PRIORITY
      local at = opts.headers and tonumber(opts.headers["Runnel-At"]) or 0
      add(3, stream, subject, at > made and math.floor(math.min(at, LATEST)) or -priority)
      add(2, stream, subject)
    end
    sql = sql .. (mode == "drop" and NUMBER_OF_WAITING or id and NUMBER_OF_ID or NUMBER)
    add(id and 2 or 1, stream, id)
    rows, changes = statements:attempt("last", sql, table.unpack(all, 1, all.n))
  end
  if not rows then return nil, changes end
  if not rows[1] then return nil, problems.no_stream(stream) end
  store:ring(stream)
  return rows[1].seq, changes == 0
end

local Sink = sinks.class(function(self, subject, value, opts)
  if value == nil then raise("put: a value other than nil expected") end
  local form, data = values.encode(value, "value")
  if not form then raise("put: " .. data) end
  local sequence, err = sink.append(self.owner, self.stream, subject, form, data, opts)
  if sequence then return sequence, err end
  return nil, (problems.of_put(err, self.stream))
end, {
  time = function(self) return self.owner:time() end,
  ahead = function(self) return self.owner:ahead() end,
  keeps_json = true,
}, true)

---Returns an object that stores values in a stream. Its put returns true when the message is on the disk.
---@param store runnel.store.Store
---@param name string of the stream
---@param opts? { subject?: string, timeout?: number, encoding?: string } `timeout` and `encoding` have no effect
---@return runnel.Sink? sink, string? err
function sink.sink(store, name, opts)
  sinks.check(name, opts)
  streams.refuse_own(name, "sink: stream")
  opts = opts or {}
  local found, err = streams.open(store, name)
  if not found then return nil, "sink: " .. err end
  return sinks.new(Sink, store, found, opts)
end

return sink
