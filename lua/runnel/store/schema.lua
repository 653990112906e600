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
  return nil, ("%s: the tables of runnel.store in it have version %d, and this release of runnel knows version %d: "
    .. "use a newer release"):format(db.path, version, schema.VERSION)
end

return schema
