---The tables of a store, which are documented in docs/manual/store.md. Their names begin with runnel_, since a program
---may have tables of its own in the same file.

local schema = {}

-- What may be in a column. Any program can write to the tables, so what would stop the others is refused, by a message
-- that names the column. (What only concerns one message, its value for example, is found when that is read.)
local KINDS <const> = {
  count = { "an integer, at least 0", "typeof(%s) = 'integer' and %s between 0 and 9007199254740992" },
  number = { "an integer, at least 1", "typeof(%s) = 'integer' and %s between 1 and 9007199254740992" },
  size = { "the number of bytes", "typeof(%s) = 'integer' and %s between 0 and 2147483647" },
  time = { "ms since 1970", "typeof(%s) in ('integer', 'real') and abs(%s) <= 9007199254740992" },
  due = { "ms since 1970", "typeof(%s) = 'integer' and %s > -9007199254740992" },
  flag = { "0 or 1", "typeof(%s) = 'integer' and %s in (0, 1)" },
  priority = { "0 to 9", "typeof(%s) = 'integer' and %s between 0 and 9" },
}

-- Statements that make tables, in which COLUMN integer $KIND has the check of that kind.
local function with_checks(sql)
  return (sql:gsub("([%w_]+) (integer[%w ]-) %$(%w+)", function(column, type, kind)
    local text, condition = table.unpack(KINDS[kind])
    return ('%s %s constraint "%s is %s" check (%s is null or %s)'):format(column, type, column, text, column,
      (condition:gsub("%%s", column)))
  end))
end

-- What `once` keeps.
local ONCE <const> = with_checks [[
  create table if not exists runnel_schema(version integer not null);
  create table if not exists runnel_once(
    scope text not null,           -- of a step: the calls that it is a part of; else ''
    name text not null,            -- of the function
    key not null,                  -- of the call
    step integer $number,          -- of a step: its number among those of its call
    failed integer not null $flag, -- 1: the value is the error
    form text not null,            -- how the value is written
    value,
    made integer not null $time,   -- when, in ms since 1970
    expires integer $time,         -- when it is made again, in ms since 1970
    primary key(scope, name, key)) without rowid;
]]

---The index by which results with a `max_age` are found that have expired. A file gets it when the first one is kept;
---it belongs to no version, since programs of all versions go on with it, and without it.
schema.EXPIRES = "create index if not exists runnel_once_expires on runnel_once(expires) "
  .. "where scope = '' and expires is not null"

-- Streams. Triggers keep the counts of a stream, its limits, and the deliveries of messages that are removed. So any
-- program can insert a message.
local STREAMS <const> = with_checks [[
  drop table if exists runnel_queue; -- of a development version
  drop table if exists runnel_ids;
  drop table if exists runnel_dead;
  create table runnel_stream(
    name text primary key,
    subjects text not null,                        -- a JSON list of patterns
    retention text not null,                       -- limits or workqueue
    discard text not null,                         -- old or new
    max_age integer $number,                       -- ms
    max_messages integer $number,
    max_bytes integer $number,
    max_message integer $number,                   -- bytes
    duplicates integer not null $count,            -- ms for which ids are kept
    description text,
    made integer not null $time,                   -- when, in ms since 1970
    last integer not null default 0 $count,        -- the number of the last message
    messages integer not null default 0 $count,    -- how many there are
    bytes integer not null default 0 $count) without rowid;
  create table runnel_message(
    stream text not null,
    seq integer not null $number,                  -- its number in the stream
    subject text not null,
    form text not null,                            -- how the value is written
    value,
    bytes integer not null $size,                  -- of the value
    headers text,                                  -- a JSON object
    priority integer not null default 0 $priority, -- 0 to 9
    made integer not null $time,                   -- when, in ms since 1970
    id text,                                       -- of its put
    primary key(stream, seq)) without rowid;
  create index runnel_message_id on runnel_message(stream, id) where id is not null;
  create table runnel_id(                  -- the ids of recent messages
    stream text not null,
    id text not null,
    seq integer not null $number,                  -- the message
    made integer not null $time,
    primary key(stream, id)) without rowid;
  create index runnel_id_made on runnel_id(stream, made);
  create trigger runnel_id_forgotten before insert on runnel_id begin
    delete from runnel_id where stream = new.stream
      and made < new.made - (select duplicates from runnel_stream where name = new.stream);
  end;
  create table runnel_consumer(            -- what a stage or a named source has of a stream
    stream text not null,
    name text not null,
    subject text,                                -- the pattern of its messages; null: all
    next integer not null $count,                -- the first message that was not delivered
    since integer not null $count,               -- messages after this one that have a priority are delivered by it
    max_pending integer not null $number,        -- how many messages may be held
    ack_wait integer not null $number,           -- ms
    tries integer $number,                       -- deliveries of a message at most
    delivered integer not null default 0 $count, -- how many messages were delivered
    paused integer not null default 0 $flag,     -- 1: nothing starts
    resumes integer $time,                       -- when that ends; null: when somebody says so
    asked integer not null default 0 $count,     -- when reports of its workers were last asked for
    made integer not null $time,
    primary key(stream, name)) without rowid;
  create table runnel_delivery(            -- messages that were delivered, and are not done
    stream text not null,
    seq integer not null $number,                -- the message
    consumer text not null,
    holder text,                                 -- the process that has it; null: it waits
    claim integer $count,                        -- with which it has got the message
    due integer not null $due,                   -- when it is delivered again: 9223372036854775807 for never, below 0
                                                 -- for at once, by its priority
    deliveries integer not null $count,          -- how often it was delivered
    starts text,                                 -- how often it was started, and how that ended: JSON
    changes integer not null default 0 $count,   -- of `starts`
    primary key(stream, seq, consumer)) without rowid;
  create index runnel_delivery_due on runnel_delivery(stream, consumer, due) where due < 9223372036854775807;
  create index runnel_delivery_held on runnel_delivery(stream, consumer, holder, claim) where holder is not null;
  create table runnel_worker(              -- what processes work on
    holder text not null,                   -- the process, and the name of its lock in the file -locks
    id integer not null $number,            -- of a worker in it
    stream text not null,
    consumer text not null,
    report text,                            -- JSON; null: it makes none
    told integer not null default 0 $count, -- runnel_consumer.asked when the report was made
    primary key(holder, id)) without rowid;
  create table runnel_dead(                -- dead letters
    seq integer primary key autoincrement,
    name text not null,                     -- of the stage
    kind text not null,                     -- message or job
    id text not null,
    error text not null,
    traceback text,
    starts integer not null $count,
    raises integer not null $count,
    since integer not null $time,           -- when the message was stored
    made integer not null $time,            -- when it was given up
    worker text,                            -- host and process
    stream text,                            -- of the message
    subject text,
    position integer $number,               -- its number
    form text not null,
    value,
    bytes integer not null $size,
    headers text,
    is_async integer $flag,                 -- 1: of a job for a function that gets a channel
    unique(name, id));
  create index runnel_dead_name on runnel_dead(name);
  create table runnel_rate(                -- the last starts of stages with the option `rate`
    name text not null,
    at integer not null $time);
  create index runnel_rate_at on runnel_rate(name, at);

  create table runnel_result(              -- outcomes of jobs of remote stages
    submitter text not null,                               -- the process, and a number
    number integer not null $number,                       -- of the job, for the submitter
    place integer not null $number,                        -- in the outcome, from 1 on
    count integer not null $number,                        -- how many rows the outcome has
    kind text not null,                                    -- result, error, traceback or nothing
    form text not null,
    value,
    primary key(submitter, number, place)) without rowid;
  create table runnel_bucket(
    name text primary key,
    history integer not null $number,                      -- how many values of a key are kept
    ttl integer $number,                                   -- ms
    max_value integer $number,                             -- bytes
    last integer not null default 0 $count) without rowid; -- the last revision
  create table runnel_value(
    bucket text not null,
    revision integer not null $number,
    key text not null,
    form text,                                             -- null: the value was deleted
    value,
    made integer not null $time,
    primary key(bucket, revision)) without rowid;
  create index runnel_value_key on runnel_value(bucket, key, revision);
  create trigger runnel_value_added after insert on runnel_value begin
    update runnel_bucket set last = new.revision where name = new.bucket;
    delete from runnel_value where bucket = new.bucket and key = new.key and revision <= (
      select revision from runnel_value where bucket = new.bucket and key = new.key order by revision desc
      limit 1 offset (select history from runnel_bucket where name = new.bucket));
    delete from runnel_value where bucket = new.bucket and revision in (
      select revision from runnel_value where bucket = new.bucket order by revision limit 10)
      and made < new.made - (select ttl from runnel_bucket where name = new.bucket);
  end;

  create trigger runnel_message_numbered before insert on runnel_message
  when new.seq - (select last from runnel_stream where name = new.stream) not between 1 and 1000000000
  begin
    select raise(abort, 'seq is the number after the last one of the stream: select last + 1 from runnel_stream');
  end;
  create trigger runnel_message_limits before insert on runnel_message
  when (select coalesce(max_age, max_messages, max_bytes, max_message) from runnel_stream where name = new.stream)
  begin
    select raise(abort, 'message size exceeds maximum allowed') from runnel_stream
      where name = new.stream and new.bytes > max_message;
    select raise(abort, 'maximum messages exceeded') from runnel_stream
      where name = new.stream and discard = 'new' and messages >= max_messages;
    select raise(abort, 'maximum bytes exceeded') from runnel_stream
      where name = new.stream and discard = 'new' and bytes + new.bytes > max_bytes;
    delete from runnel_message where stream = new.stream and seq in (
      select seq from (
        select m.seq, m.made, row_number() over (order by m.seq) as place, sum(m.bytes) over (order by m.seq) as size
        from (select seq, made, bytes from runnel_message where stream = new.stream order by seq limit 100) m) f,
        runnel_stream s
      where s.name = new.stream and (f.made < new.made - s.max_age
        or f.place <= s.messages + 1 - s.max_messages
        or f.size - (s.bytes + new.bytes - s.max_bytes) < (select bytes from runnel_message
          where stream = new.stream and seq = f.seq)));
  end;
  create trigger runnel_message_added after insert on runnel_message begin
    update runnel_stream set last = max(last, new.seq), messages = messages + 1, bytes = bytes + new.bytes
      where name = new.stream;
  end;
  create trigger runnel_message_replaced before update of bytes on runnel_message begin
    select raise(abort, 'message size exceeds maximum allowed') from runnel_stream
      where name = new.stream and new.bytes > max_message;
    select raise(abort, 'maximum bytes exceeded') from runnel_stream
      where name = new.stream and discard = 'new' and bytes + new.bytes - old.bytes > max_bytes;
    update runnel_stream set bytes = max(0, bytes + new.bytes - old.bytes) where name = new.stream;
  end;
  create trigger runnel_message_removed after delete on runnel_message begin
    update runnel_stream set messages = max(0, messages - 1), bytes = max(0, bytes - old.bytes)
      where name = old.stream;
  end;
  create trigger runnel_message_forgotten after delete on runnel_message -- "when", since a "delete" fills a table
  when exists (select 1 from runnel_delivery where stream = old.stream and seq = old.seq and holder is null)
  begin
    delete from runnel_delivery where stream = old.stream and seq = old.seq and holder is null;
  end;
  create trigger runnel_delivery_done after delete on runnel_delivery
  when old.holder is not null
    and (select retention from runnel_stream where name = old.stream) = 'workqueue'
  begin
    delete from runnel_message where stream = old.stream and seq = old.seq;
  end;
]]

-- Runs. Their steps and results are in runnel_once, their deliveries in a stream for each name.
local RUNS <const> = with_checks [[
  alter table runnel_once add column began integer $time; -- of a step of a run: when it was begun
  create table runnel_run(
    name text not null,                -- of the runs, as in runnel_once
    id not null,                       -- of the run, as the key in runnel_once
    seq integer not null $number,      -- its message in the stream runnel-runs-NAME
    form text not null,                -- how the argument is written
    value,                             -- the argument
    made integer not null $time,       -- when it was started, in ms since 1970
    state text not null,               -- ready, sleeping, waiting, retrying, done, failed or cancelled
    since integer not null $time,      -- when the state began
    due integer $time,             -- when it goes on, if no signal comes before
    step text,                         -- the step at which it waits, or has failed
    line text,                         -- where that is in the program
    note text,                         -- what the program says about it
    error text,                        -- of the last failure
    cancelled text,                    -- the reason for which it was cancelled, once it has been raised in it
    priority integer not null default 0 $priority,
    parent text,                       -- the run that has started it: its name, and its id
    parent_id,
    primary key(name, id)) without rowid;
  create index runnel_run_state on runnel_run(name, state, id, due, seq);
  create index runnel_run_parent on runnel_run(parent, parent_id) where parent is not null;
  create table runnel_signal(          -- signals that no run has taken
    seq integer primary key autoincrement,
    name text not null,                -- of the run
    id not null,
    signal text not null,              -- its name; empty: the run is to be cancelled; x'01': a run has ended for whose
                                       -- result it waits; x'02': the run `form`, `value` waits for the result;
                                       -- x'03' and a step: it waits there, for nothing else
    form text not null,
    value,
    made integer not null $time);
  create index runnel_signal_run on runnel_signal(name, id, signal, seq);
  create trigger runnel_signal_heard after delete on runnel_signal when old.signal = char(2) begin
    insert into runnel_signal(name, id, signal, form, made) select name, id, char(1), 'nil', old.made from runnel_run
      where name = old.form and id = old.value and state not in ('done', 'failed', 'cancelled');
    update runnel_delivery set due = old.made where stream = 'runnel-runs-' || old.form and holder is null
      and due > old.made and seq = (select seq from runnel_run
        where name = old.form and id = old.value and state in ('sleeping', 'waiting'));
  end;
  create table runnel_schedule(        -- when runs start
    name text primary key,             -- of the schedule, and of its runs
    cron text,                         -- the five fields
    every integer $number,             -- ms, in place of them
    zone text not null,
    missed text not null,              -- once, all or none
    overlap text not null default 'allow', -- allow, skip or queue
    last integer not null $time,       -- its last start, as it was planned; the next one is after it. Of `cron` by the
                                       -- clock of the machine, of `every` by that of the store
    paused integer $time,              -- until when nothing starts
    made integer not null $time) without rowid;
]]

-- Order per key. In tables of its own version, since it costs what has no keys 1 % of a message.
local KEYS <const> = with_checks [[
  alter table runnel_delivery add column key text;     -- of a consumer with the option `key`
  alter table runnel_delivery add column turn integer $due; -- `due`, once the messages before it of its key have ended
  create index runnel_delivery_key on runnel_delivery(stream, consumer, key, seq) where key is not null;
  create trigger runnel_delivery_next after delete on runnel_delivery when old.key is not null begin
    update runnel_delivery set due = turn, turn = null
      where turn is not null and stream = old.stream and consumer = old.consumer and seq = (
        select min(seq) from runnel_delivery
        where stream = old.stream and consumer = old.consumer and key = old.key);
  end;
]]

-- What makes the tables of each version from those of the one before. One that was released is never changed, and a
-- further one only adds tables, and columns with a default: programs of an older version that have the file open go on.
local STEPS <const> = { ONCE, STREAMS, RUNS, KEYS }

---The versions of the tables: with results only, with streams, with runs and schedules, and with order per key. A file
---with a newer one is refused.
schema.ONCE, schema.STREAMS, schema.RUNS, schema.KEYS = 1, 2, 3, 4

---The version of the tables in a database; 0 if it has none.
---@param db runnel.sqlite.Statements
---@return integer
function schema.version_of(db)
  if not db:one "select 1 from sqlite_schema where name = 'runnel_schema'" then return 0 end
  local row = db:one "select max(version) as version from runnel_schema"
  return row.version or 0
end

-- Brings the tables to a version. Another process may do the same at this moment.
local function migrate(db, needed)
  db:transaction(function(tx)
    for version = schema.version_of(tx) + 1, needed do
      tx:exec(STEPS[version])
      tx:exec("delete from runnel_schema")
      tx:exec("insert into runnel_schema values (?)", version)
    end
  end)
end

---Makes the tables in a database that lacks them. Returns nil and a message if they are newer than this library.
---@param db runnel.sqlite.Database
---@param needed integer schema.ONCE, schema.STREAMS, schema.RUNS or schema.KEYS
---@return true?
---@return string? problem
function schema.prepare(db, needed)
  local version = schema.version_of(db)
  if version < needed then migrate(db, needed) end
  if version <= schema.KEYS then return true end
  return nil, ("%s: its tables of runnel.store have version %d, and this release of runnel supports version %d: "
    .. "use a newer release"):format(db.path, version, schema.KEYS)
end

return schema
