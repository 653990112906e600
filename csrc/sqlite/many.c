/* many.c: packs the rows with which one statement is run many times; see database.h. The Lua thread.

   A row is its number of values, and the values: each the ValueKind, then an integer, a float, or a size and bytes. If
   they have names, the number of the name is in front of each; the names are those of all rows of the job. */
#include <string.h>

#include "sqlite/database.h"

typedef enum Packed { PACKED, WRONG, NO_MEMORY } Packed;

/* A call of job:add returns after about so many bytes, so that others can run. */
enum { ADDED_SIZE = 64 * 1024 };

/* SQLite knows fewer parameters than this. */
enum { MAX_WIDTH = 1000000 };

/* Indices on the stack of `add`, and of what is above them: the row, the last key that was looked at, its value. */
enum { THE_JOB = 1, BLOB, LIST, FROM, TO, NAMES, ROW, KEY, VALUE };

static Packed add_bytes(Bytes *to, const void *data, size_t size) {
  return bytes_add(to, data, size) ? PACKED : NO_MEMORY;
}

/* Adds a kind, and 8 bytes. */
static Packed add_fixed(Bytes *to, ValueKind kind, const void *data) {
  char bytes[1 + 8] = {(char)kind};
  memcpy(bytes + 1, data, 8);
  return add_bytes(to, bytes, sizeof bytes);
}

/* Adds the string on top of the stack. */
static Packed add_string(lua_State *L, Bytes *to, ValueKind kind) {
  size_t size;
  const char *bytes = lua_tolstring(L, -1, &size);
  uint64_t wide = size;
  Packed packed = add_fixed(to, kind, &wide);
  return packed == PACKED ? add_bytes(to, bytes, size) : packed;
}

/* Adds the table on top of the stack, which must be one of sqlite.blob. */
static Packed add_blob(lua_State *L, Bytes *to) {
  bool is_blob = lua_getmetatable(L, -1) && lua_rawequal(L, -1, BLOB);
  lua_settop(L, VALUE);
  Packed packed = is_blob && lua_rawgeti(L, VALUE, 1) == LUA_TSTRING ? add_string(L, to, VALUE_BLOB) : WRONG;
  lua_settop(L, VALUE);
  return packed;
}

/* Adds the value on top of the stack. */
static Packed add_value(lua_State *L, Bytes *to) {
  const char nothing = VALUE_NULL;
  sqlite3_int64 integer;
  double number;
  switch (lua_type(L, -1)) {
  case LUA_TSTRING:
    return add_string(L, to, VALUE_TEXT);
  case LUA_TNUMBER:
    integer = (sqlite3_int64)lua_tointeger(L, -1);
    if (lua_isinteger(L, -1)) return add_fixed(to, VALUE_INTEGER, &integer);
    number = (double)lua_tonumber(L, -1);
    return number == number ? add_fixed(to, VALUE_FLOAT, &number) : WRONG; /* SQLite would make nan NULL */
  case LUA_TBOOLEAN:
    integer = lua_toboolean(L, -1);
    return add_fixed(to, VALUE_INTEGER, &integer);
  case LUA_TTABLE:
    return add_blob(L, to);
  case LUA_TNIL:
    return add_bytes(to, &nothing, 1);
  default:
    return WRONG;
  }
}

/* Removes what was added behind `start`. */
static void cut(Bytes *bytes, size_t start) { bytes->to = bytes->from + start; }

/* Sets the number of values of the row that begins at `start`. */
static void set_width(Bytes *bytes, size_t start, int32_t width) {
  memcpy(bytes->start + bytes->from + start, &width, sizeof width);
}

/* Adds a list with nils in it, or with a field `n`, its length. Its number of values has been added at `start`. */
static Packed add_sparse(lua_State *L, Job *job, size_t start) {
  lua_Integer last = 0, n = -1;
  lua_settop(L, ROW);
  for (lua_pushnil(L); lua_next(L, ROW); lua_settop(L, KEY)) {
    bool is_integer = lua_isinteger(L, KEY), is_n = !is_integer && lua_type(L, KEY) == LUA_TSTRING;
    is_n = is_n && strcmp(lua_tostring(L, KEY), "n") == 0 && lua_isinteger(L, VALUE);
    lua_Integer number = lua_tointeger(L, is_n ? VALUE : KEY);
    if ((!is_integer && !is_n) || number < (is_n ? 0 : 1) || number > MAX_WIDTH) return WRONG;
    if (is_n) n = number;
    else if (number > last) last = number;
  }
  if (n >= 0 && n < last) { /* a value behind the end */
    lua_pushinteger(L, last);
    return WRONG;
  }
  if (n < 0) n = last;
  for (lua_Integer i = 1; i <= n; i++) {
    lua_pushinteger(L, i);
    (void)lua_rawgeti(L, ROW, i);
    Packed packed = add_value(L, &job->many);
    if (packed != PACKED) return packed;
    lua_settop(L, ROW);
  }
  set_width(&job->many, start, (int32_t)n);
  return PACKED;
}

/* Adds a list of values. */
static Packed add_list(lua_State *L, Job *job, size_t start) {
  int32_t width = 0;
  for (lua_pushnil(L); lua_next(L, ROW); lua_settop(L, KEY)) {
    if (!lua_isinteger(L, KEY) || lua_tointeger(L, KEY) != width + 1) {
      cut(&job->many, start + sizeof width);
      return add_sparse(L, job, start);
    }
    Packed packed = add_value(L, &job->many);
    if (packed != PACKED) return packed;
    width++;
  }
  set_width(&job->many, start, width);
  return PACKED;
}

/* Adds the number of the name at KEY, and gives it one if it is new. */
static Packed add_name(lua_State *L, Job *job) {
  lua_pushvalue(L, KEY);
  int32_t number = 0;
  if (lua_rawget(L, NAMES) != LUA_TNIL) {
    number = (int32_t)lua_tointeger(L, -1);
  } else {
    size_t size;
    const char *name = lua_tolstring(L, KEY, &size);
    if (strlen(name) < size || job->nnames == MAX_WIDTH) return WRONG;
    number = job->nnames + 1;
    lua_pushvalue(L, KEY);
    lua_pushinteger(L, number);
    lua_rawset(L, NAMES);
    if (!bytes_add(&job->names, name, size + 1)) return NO_MEMORY;
    job->nnames = number;
  }
  lua_settop(L, VALUE);
  return add_bytes(&job->many, &number, sizeof number);
}

/* Adds a table of named values. */
static Packed add_named(lua_State *L, Job *job, size_t start) {
  int32_t width = 0;
  for (lua_pushnil(L); lua_next(L, ROW); lua_settop(L, KEY)) {
    Packed packed = lua_type(L, KEY) == LUA_TSTRING ? add_name(L, job) : WRONG;
    if (packed == PACKED) packed = add_value(L, &job->many);
    if (packed != PACKED) return packed;
    width++;
  }
  set_width(&job->many, start, width);
  return PACKED;
}

/* Whether the key and the value on the stack are a list's length. */
static bool is_length(lua_State *L) {
  bool is_n = lua_type(L, KEY) == LUA_TSTRING && strcmp(lua_tostring(L, KEY), "n") == 0;
  return is_n && lua_isinteger(L, VALUE) && lua_tointeger(L, VALUE) >= 0;
}

/* Sets the form of the job's rows, by the first one that tells it: they have names unless it has an index. What
   table.pack makes of nils only tells nothing, since it may be a row with the name `n`, as one of a query. Neither does
   an empty table. */
static void set_form(lua_State *L, Job *job) {
  lua_pushnil(L);
  while (job->form != ROWS_LIST && lua_next(L, ROW)) {
    if (lua_type(L, KEY) == LUA_TNUMBER) job->form = ROWS_LIST;
    else if (!is_length(L)) job->form = ROWS_NAMED;
    lua_settop(L, KEY);
  }
  lua_settop(L, ROW);
  if (job->form == ROWS_ANY) job->nopen = job->nrows + 1;
}

/* Adds the row at ROW. If it is wrong, the key with the wrong value is at KEY, unless the top is below. */
static Packed add_row(lua_State *L, Job *job) {
  size_t start = bytes_length(&job->many);
  const int32_t width = 0;
  if (!lua_istable(L, ROW)) return WRONG;
  bool is_blob = lua_getmetatable(L, ROW) && lua_rawequal(L, -1, BLOB);
  lua_settop(L, ROW);
  if (is_blob) return WRONG;
  if (job->form == ROWS_ANY) set_form(L, job);
  if (!bytes_add(&job->many, &width, sizeof width)) return NO_MEMORY;
  return job->form == ROWS_LIST ? add_list(L, job, start) : add_named(L, job, start);
}

int many_add(lua_State *L) {
  Job *job = (Job *)handle_check(L, THE_JOB, JOB_TYPE);
  lua_Integer from = luaL_checkinteger(L, FROM), to = luaL_checkinteger(L, TO);
  luaL_checktype(L, LIST, LUA_TTABLE);
  if (!job->is_told || !job->is_many) return luaL_error(L, "the statement has not ended");
  lua_settop(L, TO);
  (void)lua_getiuservalue(L, THE_JOB, 1);
  size_t before = bytes_length(&job->many);
  while (from <= to && bytes_length(&job->many) - before < ADDED_SIZE) {
    (void)lua_rawgeti(L, LIST, from);
    Packed packed = add_row(L, job);
    if (packed == NO_MEMORY) return luaL_error(L, "not enough memory");
    if (packed == WRONG) {
      bool has_key = lua_gettop(L) >= KEY;
      lua_settop(L, KEY);
      lua_pushnil(L);
      lua_pushinteger(L, from);
      if (has_key) lua_pushvalue(L, KEY);
      else lua_pushnil(L);
      return 3;
    }
    job->nrows++;
    from++;
    lua_settop(L, NAMES);
  }
  lua_pushinteger(L, from);
  lua_pushinteger(L, (lua_Integer)bytes_length(&job->many));
  return 2;
}
