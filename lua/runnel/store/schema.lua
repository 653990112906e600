---The tables of a store, which are documented in docs/manual/store.md. Their names begin with runnel_, since a program
---may have tables of its own in the same file.

local schema = {}

---The version of the tables. A file with a newer one is refused.
schema.VERSION = 1

local TABLES = [[
  create table if not exists runnel_schema(version integer not null);
  create table if not exists runnel_once(
    scope text not null,     -- of a step: the calls that it is a part of; else ''
    name text not null,      -- of the function
    key not null,            -- of the call
    step integer,            -- of a step: its number among those of its call
    failed integer not null, -- 1: the value is the error
    form text not null,      -- how the value is written
    value,
    made integer not null,   -- when, in ms since 1970
    expires integer,         -- when it is made again, in ms since 1970
    primary key(scope, name, key)) without rowid;
]]

-- Those of queues (runnel.store.keeper), made when the first one is used.
local QUEUES = [[
  create table if not exists runnel_queue(
    seq integer primary key autoincrement,
    queue text not null,           -- its name
    id text,                       -- of the message; at most one of a queue has it
    form text not null,            -- how the value is written
    value,
    headers text,                  -- JSON
    made integer not null,         -- when, in ms since 1970
    due integer not null,          -- when it may be delivered
    deliveries integer not null default 0,
    holder text,                   -- of which keeper it is; null: it waits
    starts text,                   -- how often it was started, and with which end: JSON
    changes integer not null default 0); -- of `starts`
  create index if not exists runnel_queue_waiting on runnel_queue(queue, due, seq) where holder is null;
  create index if not exists runnel_queue_held on runnel_queue(queue, holder) where holder is not null;
  create table if not exists runnel_ids(
    queue text not null, id text not null, made integer not null, primary key(queue, id)) without rowid;
  create trigger if not exists runnel_queue_ids before insert on runnel_queue when new.id is not null begin
    select raise(ignore) where exists (select 1 from runnel_ids where queue = new.queue and id = new.id);
    insert into runnel_ids values (new.queue, new.id, new.made);
  end;
  create table if not exists runnel_dead(
    name text not null, id text not null, letter text not null, made integer not null,
    primary key(name, id)) without rowid;
]]

-- The version of the tables in a database; nil if it has none.
local function version_of(db)
  if not db:one "select 1 from sqlite_schema where name = 'runnel_schema'" then return nil end
  local row = db:one "select max(version) as version from runnel_schema"
  return row.version
end

---Makes the tables in a database that has none. Returns nil and a message if they are newer than this library.
---@param db runnel.sqlite.Database
---@return true?
---@return string? problem
function schema.prepare(db)
  local version = version_of(db)
  if not version then
    db:transaction(function(tx)
      tx:exec(TABLES)
      tx:exec("insert into runnel_schema select ? where not exists (select * from runnel_schema)", schema.VERSION)
    end)
    version = version_of(db)
  end
  if version <= schema.VERSION then return true end
  return nil, ("%s: its tables of runnel.store have version %d, and this release of runnel supports version %d: "
    .. "use a newer release"):format(db.path, version, schema.VERSION)
end

---Makes the tables of queues, unless they are there. Returns nil and a message if that fails.
---@param db runnel.sqlite.Database
---@return integer?
---@return string? problem
function schema.prepare_queues(db) return db:attempt("exec", QUEUES) end

return schema
