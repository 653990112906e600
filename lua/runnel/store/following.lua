---Channels that a go block fills from the file until they are closed: sources without a name, and watches of buckets.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local looking = require "runnel.store.looking"

local internal = core.internal

local following = {}

-- ---- what was deleted ----

-- The names of streams and buckets that were deleted are values of a bucket without a name, for a day: they may be made
-- again before others look, and then count from 1.
local NOTE <const> = [[
insert or ignore into runnel_bucket(name, history, ttl) values ('', 1, 86400000);
insert into runnel_value(bucket, revision, key, made)
  select '', last + 1, ?1, ?2 from runnel_bucket where name = '' and exists (%s);
]]

---The statements that note that a stream, or a bucket, is deleted, if there is one. Their values: what others read of
---it, as for store:ring, the time, and the name.
following.NOTE_STREAM = NOTE:format "select 1 from runnel_stream where name = ?3"
following.NOTE_BUCKET = NOTE:format "select 1 from runnel_bucket where name = ?3"

---The number of the last such note.
following.NOTES = "coalesce((select last from runnel_bucket where name = ''), 0)"

---A condition: what is read as ?%d was not deleted after the note with the number ?%d.
following.IS_THERE = "not exists (select 1 from runnel_value where bucket = '' and key = ?%d and revision > ?%d)"

-- ---- a channel ----

-- How often it looks for what other processes have stored, in ms.
local LOOKS_AGAIN <const> = 100

-- Called when the go block has died.
local function died(out, reason, block)
  internal.excuse(block, reason)
  guard.close(out, reason)
end

---Starts to fill a channel. `self` is added to the readers of the store until the channel is closed.
---@param self { store: runnel.store.Store, bell?: runnel.Channel<boolean>, hear?: fun() }
---@param reads string what it reads, as for store:ring
---@param what string the function that the program has called
---@param out runnel.Channel<any>
---@param f fun(self: table, out: runnel.Channel<any>, ...: any) fills the channel; calls `following.wait`
function following.start(self, reads, what, out, f, ...)
  local store, bell = self.store, core.chan(core.sliding_buffer(1))
  self.bell = bell
  function self.hear() bell:put(true) end
  self.looking = looking.new(store, bell)
  store:add_reader(reads, self)
  internal.on_close(out, function()
    store:forget_reader(self)
    self.looking:close()
    self.hear()
  end)
  guard.started(guard.go(died, out, f, self, out, ...), what)
end

---Waits until there may be something new, or the channel is closed.
---@param self { looking: runnel.store.Looking }
function following.wait(self) self.looking:wait(LOOKS_AGAIN) end

return following
