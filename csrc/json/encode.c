/* json/encode.c: a value becomes a text. Names are sorted by their bytes, so that the same value is always the same text.
   Metamethods of the program's tables, and finalizers, may do anything meanwhile, but not wait. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json/json.h"

/* What is at fixed indices of the stack: the value, `indent`, and the userdata that the text is in once it is longer. */
enum { VALUE = 1, INDENT, BOX };

/* A call of encode. */
typedef struct Encoder {
  lua_State *L;
  char *text; /* in `some`, then in the userdata */
  size_t n, capacity;
  const void *null, *array; /* what stands for null, and the metatable of arrays */
  int indent;               /* the spaces of a level; -1: all in one line */
  char some[512];
} Encoder;

/* A table around the present value. */
typedef struct Level {
  const struct Level *up; /* the table around this one, or NULL */
  const void *table;
  int depth;         /* the outermost one's is 1 */
  int key;           /* the index of the present key; 0: */
  lua_Integer index; /* the present element */
} Level;

/* The name of a field, key i of its table. The string is alive, since the key is on the stack, or in a table there. */
typedef struct Name {
  const char *text;
  size_t size, i;
} Name;

/* So many keys of a table are on the stack. */
enum { FEW = 8 };

/* ---- the text ---- */

/* Makes room for `n` more bytes. */
static inline void need(Encoder *e, size_t n) {
  if (n <= e->capacity - e->n) return;
  size_t capacity = (e->n + n) * 2;
  if (capacity / 2 != e->n + n) luaL_error(e->L, "not enough memory");
  char *text = lua_newuserdatauv(e->L, capacity, 0);
  e->text = memcpy(text, e->text, e->n);
  e->capacity = capacity;
  lua_replace(e->L, BOX);
}

static inline void add(Encoder *e, const char *text, size_t n) {
  need(e, n);
  memcpy(e->text + e->n, text, n);
  e->n += n;
}

/* Adds a string; returns false if it is not UTF-8. */
static bool add_string(Encoder *e, const char *text, size_t n) {
  static const char hex[] = "0123456789abcdef", escaped[] = "\"\\\n\r\t", names[] = "\"\\nrt";
  const char *begin = text, *end = text + n;
  unsigned all = 0; /* the bits of all its bytes */
  need(e, n + 2);
  e->text[e->n++] = '"';
  for (;; text++) {
    char *to = e->text + e->n;
    unsigned char c = 0;
    for (; text < end; text++) {
      c = (unsigned char)*text;
      if (c < 32 || c == '"' || c == '\\' || c == 127) break;
      *to++ = *text;
      all |= c;
    }
    e->n = (size_t)(to - e->text);
    if (text == end) break;
    const char *known = c ? strchr(escaped, c) : NULL;
    char escape[] = {'\\', (char)(known ? names[known - escaped] : 'u'), '0', '0', hex[c >> 4], hex[c & 15]};
    add(e, escape, known ? 2 : 6);
    need(e, (size_t)(end - text));
  }
  e->text[e->n++] = '"';
  return all < 0x80 || !json_not_utf8(begin, n);
}

static void add_integer(Encoder *e, lua_Integer value) {
  char text[JSON_NUMBER_SIZE], *end = text + sizeof text, *p = end;
  uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  do *--p = (char)('0' + rest % 10);
  while (rest /= 10);
  if (value < 0) *--p = '-';
  add(e, p, (size_t)(end - p));
}

/* Begins the line of an element, or of the end of a table. */
static inline void add_line(Encoder *e, int depth) {
  if (e->indent < 0) return;
  size_t n = (size_t)e->indent * (size_t)depth;
  add(e, "\n", 1);
  need(e, n);
  memset(e->text + e->n, ' ', n);
  e->n += n;
}

/* ---- tables ---- */

/* Pushes what encode returns of a problem. Returns false, as does each function below then. */
static bool fail(lua_State *L, const Level *level, const char *problem) {
  luaL_checkstack(L, 4, "JSON");
  lua_pushnil(L);
  lua_pushstring(L, problem);
  lua_newtable(L);
  for (; level; level = level->up) {
    if (level->key) lua_pushvalue(L, level->key);
    else lua_pushinteger(L, level->index);
    lua_rawseti(L, -2, level->depth);
  }
  return false;
}

static bool add_value(Encoder *e, const Level *up);

/* Adds an array. */
static bool add_elements(Encoder *e, int t, Level *level, lua_Integer n) {
  int top = lua_gettop(e->L);
  add(e, "[", 1);
  for (level->index = 1; level->index <= n; level->index++) {
    if (level->index > 1) add(e, ",", 1);
    add_line(e, level->depth);
    lua_geti(e->L, t, level->index);
    if (!add_value(e, level)) return false;
    lua_settop(e->L, top);
  }
  if (n > 0) add_line(e, level->depth - 1);
  add(e, "]", 1);
  return true;
}

/* Replaces the key on top of the table at `t` by the next one, as pairs does, whose function is below it, or nil. Returns
   whether there is one; at the end nothing of this is left. */
static bool next_key(lua_State *L, int t) {
  if (lua_isnil(L, -3)) {
    if (lua_next(L, t)) {
      lua_pop(L, 1);
      return true;
    }
    lua_pop(L, 2);
    return false;
  }
  lua_pushvalue(L, -3);
  lua_insert(L, -2);
  lua_pushvalue(L, -3);
  lua_insert(L, -2);
  lua_call(L, 2, 1);
  if (!lua_isnil(L, -1)) return true;
  lua_pop(L, 3);
  return false;
}

/* Pushes what next_key needs. */
static void first_key(lua_State *L, int t) {
  if (luaL_getmetafield(L, t, "__pairs") == LUA_TNIL) {
    lua_settop(L, lua_gettop(L) + 3);
    return;
  }
  lua_pushvalue(L, t);
  lua_call(L, 1, 3);
}

static Name name_of(lua_State *L, int index, size_t i) {
  Name name = {.i = i};
  name.text = lua_tolstring(L, index, &name.size);
  return name;
}

static int compare(const void *first, const void *second) {
  const Name *a = first, *b = second;
  int order = memcmp(a->text, b->text, a->size < b->size ? a->size : b->size);
  return order ? order : (a->size > b->size) - (a->size < b->size);
}

static void sort(Name *names, size_t n) {
  if (n > FEW) qsort(names, n, sizeof *names, compare);
  else
    for (size_t i = 1; i < n; i++) {
      Name name = names[i];
      size_t to = i;
      for (; to > 0 && compare(&names[to - 1], &name) > 0; to--) names[to] = names[to - 1];
      names[to] = name;
    }
}

/* The index of key i of a table: FEW are at indices from `first`; the others are in the table behind them, and pushed. */
static int index_of(lua_State *L, int first, size_t i) {
  if (i < FEW) return first + (int)i;
  lua_rawgeti(L, first + FEW, (lua_Integer)(i - FEW) + 1);
  return lua_gettop(L);
}

/* Adds an object with these names. */
static bool add_fields(Encoder *e, int t, Level *level, int first, Name *names, size_t n) {
  lua_State *L = e->L;
  int top = lua_gettop(L);
  sort(names, n);
  add(e, "{", 1);
  for (size_t i = 0; i < n; i++) {
    if (i > 0) add(e, ",", 1);
    add_line(e, level->depth);
    level->key = index_of(L, first, names[i].i);
    if (!add_string(e, names[i].text, names[i].size)) return fail(L, level, "in JSON, keys are UTF-8");
    add(e, ":", 1);
    if (e->indent >= 0) add(e, " ", 1);
    lua_pushvalue(L, level->key);
    lua_gettable(L, t);
    if (!add_value(e, level)) return false;
    lua_settop(L, top);
  }
  if (n > 0) add_line(e, level->depth - 1);
  add(e, "}", 1);
  return true;
}

/* Adds the table on top. */
static bool add_table(Encoder *e, const Level *up) {
  lua_State *L = e->L;
  int t = lua_gettop(L), first = t + 1;
  Level level = {.up = up, .table = lua_topointer(L, t), .depth = up ? up->depth + 1 : 1};
  if (level.table == e->null) return add(e, "null", 4), true;
  for (const Level *around = up; around; around = around->up)
    if (around->table == level.table) return fail(L, up, "a table that contains itself cannot be sent");
  if (level.depth > JSON_DEEPEST) return fail(L, up, "more than 100 nested tables");
  luaL_checkstack(L, FEW + 12, "JSON");
  bool has_metatable = lua_getmetatable(L, t);
  if (has_metatable) {
    if (lua_topointer(L, -1) == e->array) return add_elements(e, t, &level, (lua_Integer)lua_rawlen(L, t));
    lua_pop(L, 1);
  }
  Name few[FEW], *names = few;
  size_t n = 0, nnames = 0;
  lua_settop(L, first + FEW);
  for (first_key(L, t); next_key(L, t); n++) {
    bool is_name = lua_type(L, -1) == LUA_TSTRING, is_first = !is_name && nnames == n;
    if (n < FEW) {
      lua_copy(L, -1, first + (int)n);
      if (is_name) few[n] = name_of(L, -1, n);
    } else if (is_name || is_first) { /* but not all keys of a long array */
      if (lua_isnil(L, first + FEW)) lua_newtable(L), lua_replace(L, first + FEW);
      lua_pushvalue(L, -1);
      lua_rawseti(L, first + FEW, (lua_Integer)(n - FEW) + 1);
    }
    nnames += is_name;
  }
  if ((nnames < n || (n > 0 && has_metatable)) && (lua_Integer)n == luaL_len(L, t))
    return add_elements(e, t, &level, (lua_Integer)n);
  if (n > FEW) names = lua_newuserdatauv(L, n * sizeof *names, 0);
  for (size_t i = n > nnames || n > FEW ? 0 : n; i < n; i++) {
    level.key = index_of(L, first, i);
    if (lua_type(L, level.key) != LUA_TSTRING)
      return fail(L, &level, "in JSON, keys are strings, and lists have no gaps");
    names[i] = name_of(L, level.key, i);
    if (i >= FEW) lua_pop(L, 1);
  }
  return add_fields(e, t, &level, first, names, n);
}

/* Adds the value on top, and may leave more there. */
static bool add_value(Encoder *e, const Level *up) {
  lua_State *L = e->L;
  int type = lua_type(L, -1);
  size_t n;
  if (type == LUA_TSTRING) {
    const char *text = lua_tolstring(L, -1, &n);
    return add_string(e, text, n) || fail(L, up, "in JSON, strings are UTF-8");
  }
  if (type == LUA_TTABLE) return add_table(e, up);
  if (type == LUA_TBOOLEAN) add(e, lua_toboolean(L, -1) ? "true" : "false", lua_toboolean(L, -1) ? 4 : 5);
  else if (type == LUA_TNIL) return fail(L, up, "nil cannot be sent; json.null stands for null");
  else if (type != LUA_TNUMBER) return fail(L, up, lua_pushfstring(L, "a %s cannot be sent", lua_typename(L, type)));
  else if (lua_isinteger(L, -1)) add_integer(e, lua_tointeger(L, -1));
  else {
    if (!isfinite(lua_tonumber(L, -1))) return fail(L, up, "JSON cannot represent this number");
    need(e, JSON_NUMBER_SIZE);
    e->n += json_write_float(e->text + e->n, lua_tonumber(L, -1));
  }
  return true;
}

int json_encode(lua_State *L) {
  Encoder e = {.L = L, .null = lua_topointer(L, JSON_NULL), .array = lua_topointer(L, JSON_ARRAY)};
  e.indent = (int)luaL_optinteger(L, INDENT, -1);
  e.text = e.some;
  e.capacity = sizeof e.some;
  lua_settop(L, BOX);
  lua_pushvalue(L, VALUE);
  if (!add_value(&e, NULL)) return 3;
  lua_pushlstring(L, e.text, e.n);
  return 1;
}
