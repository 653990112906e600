/* pack.c: see pack.h. */
#include "states/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compat.h"
#include "base/grow.h"
#include "core/state.h"
#include "shared/shared_chan.h"
#include "states/pack_format.h"

/* One table that is being packed, on the way from the outermost to the innermost. */
typedef struct Level {
  const struct Level *outer; /* the table around it, or NULL */
  const void *table;         /* lua_topointer */
  int key_at;                /* index of the key whose value is being packed */
  uint32_t depth;            /* 1 for the outermost */
} Level;

/* The state of a packing, which all functions below use. */
typedef struct Packing {
  lua_State *L;
  Packer *p;
  const char *name; /* what the message calls the value */
} Packing;

/* Makes room for `n` more bytes; false when memory runs out, or when there are more bytes than a parcel may have: a table
   that contains the same one several times may be far larger than what it takes in Lua. */
static bool reserve_slowly(Packer *p, size_t n) {
  const size_t chans = p->nchans * sizeof(SharedChan *);
  bool may = n <= SIZE_MAX - p->size - chans && budget_has(p->budget, p->size + chans + n);
  char *bytes = may ? (char *)grow(p->bytes, &p->capacity, p->size + n, 1) : NULL;
  if (bytes) p->bytes = bytes;
  return bytes != NULL;
}

static inline bool reserve(Packer *p, size_t n) { return LIKELY(p->capacity - p->size >= n) || reserve_slowly(p, n); }

/* Writes the lowest `n` bytes of a number, the highest first. There must be room. */
static inline void write_number(Packer *p, uint64_t number, int n) {
  char *to = p->bytes + p->size;
  p->size += (size_t)n;
  while (n > 0) *to++ = (char)(number >> (8 * --n) & 0xff);
}

static inline void write_byte(Packer *p, int byte) { p->bytes[p->size++] = (char)byte; }

/* Adds text to the message, at most `most` bytes and as far as there is room. */
static void say(Packer *p, const char *text, size_t most) {
  size_t used = strlen(p->message), room = sizeof p->message - used - 1, n = strlen(text);
  if (n > most) n = most;
  if (n > room) n = room;
  memcpy(p->message + used, text, n);
  p->message[used + n] = '\0';
}

static void say_all(Packer *p, const char *text) { say(p, text, SIZE_MAX); }

/* Adds the way to a level's value to the message. */
static void say_path(const Packing *g, const Level *level) {
  if (!level) {
    say_all(g->p, g->name);
    return;
  }
  say_path(g, level->outer);
  lua_State *L = g->L;
  char number[32];
  if (lua_type(L, level->key_at) == LUA_TSTRING) {
    say_all(g->p, ".");
    say(g->p, lua_tostring(L, level->key_at), 40);
    return;
  }
  const char *key = number;
  if (lua_isinteger(L, level->key_at)) {
    (void)snprintf(number, sizeof number, "%lld", (long long)lua_tointeger(L, level->key_at));
  } else if (lua_isnumber(L, level->key_at)) {
    (void)snprintf(number, sizeof number, "%g", (double)lua_tonumber(L, level->key_at));
  } else if (lua_isboolean(L, level->key_at)) {
    key = lua_toboolean(L, level->key_at) ? "true" : "false";
  } else {
    key = lua_typename(L, lua_type(L, level->key_at));
  }
  say_all(g->p, "[");
  say_all(g->p, key);
  say_all(g->p, "]");
}

/* Leaves a message about the value at `level`: where it is, and why it cannot be packed. */
static bool refuse(const Packing *g, const Level *level, const char *why) {
  g->p->message[0] = '\0';
  say_path(g, level);
  say_all(g->p, ": ");
  say_all(g->p, why);
  return false;
}

static bool out_of_memory(const Packing *g) { return refuse(g, NULL, "not enough memory"); }

static bool pack_integer(const Packing *g, lua_Integer i) {
  Packer *p = g->p;
  if (!reserve(p, 9)) return out_of_memory(g);
  if (i >= -32 && i <= 127) {
    write_byte(p, (int)(i & 0xff));
    return true;
  }
  uint64_t u = (uint64_t)i;
  int log = i >= 0 ? (u > UINT32_MAX   ? 3
                      : u > UINT16_MAX ? 2
                      : u > UINT8_MAX  ? 1
                                       : 0)
                   : (i < INT32_MIN   ? 3
                      : i < INT16_MIN ? 2
                      : i < INT8_MIN  ? 1
                                      : 0);
  write_byte(p, (i >= 0 ? UINT_8 : INT_8) + log);
  write_number(p, u, 1 << log);
  return true;
}

static bool pack_float(const Packing *g, lua_Number number) {
  uint64_t bits;
  double d = (double)number;
  memcpy(&bits, &d, sizeof bits);
  if (!reserve(g->p, 9)) return out_of_memory(g);
  write_byte(g->p, FLOAT_64);
  write_number(g->p, bits, 8);
  return true;
}

/* Whether the bytes are valid UTF-8. */
static bool is_utf8(const char *s, size_t n) {
  const unsigned char *at = (const unsigned char *)s, *end = at + n;
  while (at < end) {
    uint64_t eight;
    if (end - at >= 8 && (memcpy(&eight, at, 8), !(eight & UINT64_C(0x8080808080808080)))) {
      at += 8;
      continue;
    }
    unsigned char c = *at++;
    if (c < 0x80) continue;
    int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
    if (c < 0xc2 || c > 0xf4 || end - at < more) return false;
    unsigned char low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80, high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (*at < low || *at > high) return false; /* overlong, a surrogate, or too large */
    for (at++, more--; more > 0; at++, more--) {
      if ((*at & 0xc0) != 0x80) return false;
    }
  }
  return true;
}

static bool pack_string(const Packing *g, const Level *level, const char *s, size_t n) {
  Packer *p = g->p;
  if (n > UINT32_MAX) return refuse(g, level, "a string of 4 GB or more cannot be sent");
  if (!reserve(p, n + 5)) return out_of_memory(g);
  bool text = is_utf8(s, n);
  int log = n > UINT16_MAX ? 2 : n > UINT8_MAX ? 1 : 0;
  if (text && n < 32) {
    write_byte(p, FIX_STR | (int)n);
  } else {
    write_byte(p, (text ? STR_8 : BIN_8) + log);
    write_number(p, n, 1 << log);
  }
  memcpy(p->bytes + p->size, s, n);
  p->size += n;
  return true;
}

/* Why a userdata cannot be packed. */
static const char *why_not_userdata(const Packing *g, int at) {
  if (!chan_to(g->L, at)) return "a userdata cannot be sent";
  if (!g->p->to_chan) return "a channel cannot be sent to another machine";
  return "only a channel that rn.shared_chan has made can be sent";
}

static bool pack_chan(const Packing *g, const Level *level, int at, SharedChan *chan) {
  Packer *p = g->p;
  if (!chan) return refuse(g, level, why_not_userdata(g, at));
  SharedChan **chans = (SharedChan **)grow((void *)p->chans, &p->chans_capacity, p->nchans + 1, sizeof(SharedChan *));
  if (!chans) return out_of_memory(g);
  p->chans = chans;
  if (!reserve(p, 6)) return out_of_memory(g);
  write_byte(p, FIX_EXT_4);
  write_byte(p, EXT_CHAN);
  write_number(p, p->nchans, 4);
  p->chans[p->nchans++] = chan;
  return true;
}

static bool pack_table(const Packing *g, const Level *outer, int at);

/* Packs the value at `at`, for which `level` stands. */
static bool pack(const Packing *g, const Level *level, int at) {
  lua_State *L = g->L;
  switch (lua_type(L, at)) {
  case LUA_TNIL: /* only as the whole value */
  case LUA_TBOOLEAN:
    if (!reserve(g->p, 1)) return out_of_memory(g);
    write_byte(g->p, lua_isnil(L, at) ? NIL : lua_toboolean(L, at) ? TRUE : FALSE);
    return true;
  case LUA_TNUMBER:
    return lua_isinteger(L, at) ? pack_integer(g, lua_tointeger(L, at)) : pack_float(g, lua_tonumber(L, at));
  case LUA_TSTRING: {
    size_t n;
    const char *s = lua_tolstring(L, at, &n);
    return pack_string(g, level, s, n);
  }
  case LUA_TTABLE:
    return pack_table(g, level, at);
  case LUA_TUSERDATA:
    return pack_chan(g, level, at, g->p->to_chan ? g->p->to_chan(L, at) : NULL);
  case LUA_TFUNCTION:
    return refuse(g, level, "a function cannot be sent");
  case LUA_TTHREAD:
    return refuse(g, level, "a coroutine cannot be sent");
  default: /* uncovered: Lua code has no light userdata */
    return refuse(g, level, "a light userdata cannot be sent");
  }
}

/* Writes the head of a table of `n` at `head`, where one byte was left for it. */
static bool write_head(const Packing *g, size_t head, uint64_t n, bool is_array) {
  Packer *p = g->p;
  if (LIKELY(n < 16)) {
    p->bytes[head] = (char)((is_array ? FIX_ARRAY : FIX_MAP) | (int)n);
    return true;
  }
  int bytes = n > UINT16_MAX ? 4 : 2;
  if (!reserve(p, 4)) return out_of_memory(g);
  memmove(p->bytes + head + 1 + bytes, p->bytes + head + 1, p->size - head - 1);
  size_t end = p->size + (size_t)bytes;
  p->bytes[head] = (char)((is_array ? ARRAY_16 : MAP_16) + (bytes == 4));
  p->size = head + 1;
  write_number(p, n, bytes);
  p->size = end;
  return true;
}

/* Whether the keys of a table are exactly 1 to `n`, n being its length. */
static bool is_list(lua_State *L, int at, lua_Integer n) {
  lua_Integer keys = 0;
  lua_pushnil(L);
  while (lua_next(L, at)) {
    lua_pop(L, 1);
    int is_integer = 0;
    lua_Integer key = lua_isinteger(L, -1) ? lua_tointegerx(L, -1, &is_integer) : 0;
    if (!is_integer || key < 1 || key > n || ++keys > n) {
      lua_pop(L, 1);
      return false;
    }
  }
  return keys == n;
}

/* Whether the keys that lua_next gives are 1, 2, 3 and so on. */
static bool is_in_order(lua_State *L, int at) {
  lua_Integer n = 0;
  lua_pushnil(L);
  while (lua_next(L, at)) {
    lua_pop(L, 1);
    if (lua_isinteger(L, -1) && lua_tointeger(L, -1) == ++n) continue;
    lua_pop(L, 1);
    return false;
  }
  return true;
}

/* Packs the values of an array in one pass: as long as the keys that lua_next gives are 1, 2, 3 and so on, which they
   are where Lua keeps them as an array. Sets `n` to their number; or to -1 where it is not one, or not in that order.
   Looks at all keys before it packs a nested table, so that no table is packed twice: one at a depth of 50 would be
   packed 2^50 times. */
static bool pack_array(const Packing *g, const Level *level, int at, lua_Integer *n) {
  lua_State *L = g->L;
  bool nested = false;
  *n = 0;
  lua_pushnil(L);
  while (lua_next(L, at)) {
    bool is_next = lua_isinteger(L, -2) && lua_tointeger(L, -2) == *n + 1;
    if (is_next && !nested && lua_istable(L, -1)) {
      nested = true;
      is_next = is_in_order(L, at);
    }
    if (!is_next) {
      lua_pop(L, 2);
      *n = -1;
      return true;
    }
    if (!pack(g, level, level->key_at + 1)) return false;
    ++*n;
    lua_pop(L, 1);
  }
  return true;
}

/* Packs keys and values. */
static bool pack_map(const Packing *g, const Level *level, int at, lua_Integer *n) {
  lua_State *L = g->L;
  *n = 0;
  lua_pushnil(L);
  while (lua_next(L, at)) {
    int type = lua_type(L, -2);
    if (type != LUA_TSTRING && type != LUA_TNUMBER && type != LUA_TBOOLEAN) {
      return refuse(g, level, "only booleans, numbers and strings can be sent as keys");
    }
    if (!pack(g, level, level->key_at) || !pack(g, level, level->key_at + 1)) return false;
    ++*n;
    lua_pop(L, 1);
  }
  return true;
}

/* Packs the values of a list of `n` whose keys lua_next gives in another order. */
static bool pack_list(const Packing *g, const Level *level, int at, lua_Integer n) {
  lua_State *L = g->L;
  for (lua_Integer i = 1; i <= n; i++) {
    lua_pushinteger(L, i);
    lua_rawgeti(L, at, i);
    if (!pack(g, level, level->key_at + 1)) return false;
    lua_pop(L, 2);
  }
  return true;
}

static bool is_within(const Level *level, const void *table) {
  for (; level; level = level->outer) {
    if (level->table == table) return true;
  }
  return false;
}

/* Says why a table is nested too deep: most likely because it contains itself; then where. */
static bool refuse_depth(const Packing *g, const Level *level) {
  const Level *repeated = NULL;
  for (; level; level = level->outer) {
    if (is_within(level->outer, level->table)) repeated = level->outer;
  }
  if (repeated) return refuse(g, repeated, "a table that contains itself cannot be sent");
  return refuse(g, NULL, "tables nested more than 100 deep cannot be sent");
}

/* Whether a table has a metatable, which has no meaning in another state. */
static bool has_metatable(lua_State *L, int at) {
  if (!lua_getmetatable(L, at)) return false;
  lua_pop(L, 1);
  return true;
}

static bool pack_table(const Packing *g, const Level *outer, int at) {
  lua_State *L = g->L;
  Packer *p = g->p;
  if (has_metatable(L, at)) return refuse(g, outer, "a table with a metatable cannot be sent");
  Level level = {outer, lua_topointer(L, at), lua_gettop(L) + 1, outer ? outer->depth + 1 : 1};
  if (UNLIKELY(level.depth > PACK_MAX_DEPTH)) return refuse_depth(g, &level);
  if (!lua_checkstack(L, 8) || !reserve(p, 1)) return out_of_memory(g);
  size_t head = p->size++;
  uint32_t nchans = p->nchans;
  lua_Integer n;
  if (!pack_array(g, &level, at, &n)) return false;
  if (n >= 0) return write_head(g, head, (uint64_t)n, true);
  p->size = head + 1;
  p->nchans = nchans;
  n = (lua_Integer)lua_rawlen(L, at);
  if (UNLIKELY(n > 0 && is_list(L, at, n)))
    return pack_list(g, &level, at, n) && write_head(g, head, (uint64_t)n, true);
  return pack_map(g, &level, at, &n) && write_head(g, head, (uint64_t)n, false);
}

void packer_free(Packer *packer) {
  free(packer->bytes);
  free((void *)packer->chans);
  packer->bytes = NULL;
  packer->chans = NULL;
  packer->size = packer->capacity = packer->chans_capacity = 0;
  packer->nchans = 0;
}

/* Memory that a packer keeps for the next time; more is freed. */
enum { KEPT_CAPACITY = 1 << 16 };

bool pack_bytes(lua_State *L, int index, Packer *packer, const char *name) {
  if (packer->capacity > KEPT_CAPACITY) packer_free(packer);
  packer->size = packer->nchans = 0;
  Packing packing = {L, packer, name};
  int top = lua_gettop(L);
  bool ok = pack(&packing, NULL, lua_absindex(L, index));
  lua_settop(L, top);
  return ok;
}

bool pack_value(lua_State *L, int index, Packer *packer, const char *name, SharedValue *value) {
  const Packing packing = {L, packer, name};
  *value = (SharedValue){.kind = SHARED_NIL};
  switch (lua_type(L, index)) {
  case LUA_TBOOLEAN:
    value->kind = lua_toboolean(L, index) ? SHARED_TRUE : SHARED_FALSE;
    return true;
  case LUA_TNUMBER:
    if (lua_isinteger(L, index)) *value = (SharedValue){.kind = SHARED_INTEGER, .as.integer = lua_tointeger(L, index)};
    else *value = (SharedValue){.kind = SHARED_NUMBER, .as.number = lua_tonumber(L, index)};
    return true;
  case LUA_TSTRING: {
    size_t n;
    const char *s = lua_tolstring(L, index, &n);
    if (shared_value_set_string(value, s, n, packer->budget)) return true;
    break;
  }
  case LUA_TUSERDATA: {
    SharedChan *chan = packer->to_chan ? packer->to_chan(L, index) : NULL;
    if (!chan) return refuse(&packing, NULL, why_not_userdata(&packing, index));
    *value = (SharedValue){.kind = SHARED_CHAN, .as.chan = shared_chan_hold(chan)};
    return true;
  }
  default:
    if (!pack_bytes(L, index, packer, name)) return false;
    *value = (SharedValue){.kind = SHARED_PACKED,
                           .as.parcel =
                               parcel_new(packer->bytes, packer->size, packer->chans, packer->nchans, packer->budget)};
    if (value->as.parcel) return true;
  }
  value->kind = SHARED_NIL;
  return out_of_memory(&packing);
}
