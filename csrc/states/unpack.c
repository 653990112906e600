/* unpack.c: see unpack.h. */
#include "states/unpack.h"

#include <math.h>
#include <string.h>

#include "states/pack.h"
#include "states/pack_format.h"

typedef struct Unpacking {
  lua_State *L;
  const unsigned char *at;  /* the next byte */
  const unsigned char *end; /* behind the last */
  size_t values;            /* that the tables may still have which have not begun: each has a byte at least */
  const Unpacker *u;
} Unpacking;

static const char *const CUT_SHORT = "the packed value is cut short";

static inline size_t left(const Unpacking *g) { return (size_t)(g->end - g->at); }

static inline uint64_t read_number(Unpacking *g, int n) {
  uint64_t number = 0;
  while (n-- > 0) number = number << 8 | *g->at++;
  return number;
}

static const char *unpack(Unpacking *g, int depth);

static const char *unpack_string(Unpacking *g, uint64_t n) {
  if (left(g) < n) return CUT_SHORT;
  lua_pushlstring(g->L, (const char *)g->at, (size_t)n);
  g->at += n;
  return NULL;
}

/* Whether a table may have so many values: so nothing large is made for nothing, however the tables are nested. */
static bool may_have(Unpacking *g, uint64_t n) {
  if (n > g->values || n > left(g)) return false;
  g->values -= (size_t)n;
  return true;
}

static const char *unpack_array(Unpacking *g, uint64_t n, int depth) {
  if (!may_have(g, n)) return CUT_SHORT;
  lua_createtable(g->L, (int)(n < 1 << 20 ? n : 1 << 20), 0);
  for (uint64_t i = 1; i <= n; i++) {
    const char *wrong = unpack(g, depth);
    if (wrong) return wrong;
    lua_rawseti(g->L, -2, (lua_Integer)i);
  }
  return NULL;
}

static const char *unpack_map(Unpacking *g, uint64_t n, int depth) {
  if (!may_have(g, 2 * n)) return CUT_SHORT;
  lua_createtable(g->L, 0, (int)(n < 1 << 16 ? n : 1 << 16));
  for (uint64_t i = 0; i < n; i++) {
    const char *wrong = unpack(g, depth);
    if (wrong) return wrong;
    if (lua_isnil(g->L, -1)) return "the packed value has nil as a key";
    if (lua_type(g->L, -1) == LUA_TNUMBER && isnan(lua_tonumber(g->L, -1))) {
      return "the packed value has NaN as a key";
    }
    if ((wrong = unpack(g, depth)) != NULL) return wrong;
    lua_rawset(g->L, -3);
  }
  return NULL;
}

static const char *unpack_ext(Unpacking *g, uint64_t n) {
  if (left(g) < n + 1) return CUT_SHORT;
  int type = *g->at++;
  if (type != EXT_CHAN || n != 4 || !g->u->push_chan) return "the packed value has an extension type that is not known";
  uint64_t number = read_number(g, 4);
  if (number >= g->u->nchans) return "the packed value refers to a channel that did not come with it";
  g->u->push_chan(g->L, g->u->chans[number]);
  return NULL;
}

static void push_float(Unpacking *g, bool is_short) {
  uint64_t bits = read_number(g, is_short ? 4 : 8);
  if (is_short) {
    uint32_t short_bits = (uint32_t)bits;
    float f;
    memcpy(&f, &short_bits, sizeof f);
    lua_pushnumber(g->L, (lua_Number)f);
  } else {
    double d;
    memcpy(&d, &bits, sizeof d);
    lua_pushnumber(g->L, (lua_Number)d);
  }
}

/* Integers that Lua's cannot hold become floats, as in Lua's own reading of numerals. */
static void push_unsigned(lua_State *L, uint64_t u) {
  if (u <= (uint64_t)LUA_MAXINTEGER) lua_pushinteger(L, (lua_Integer)u);
  else lua_pushnumber(L, (lua_Number)u);
}

/* The values that begin with a byte from NIL to MAP_32. */
static const char *unpack_long(Unpacking *g, int first, int depth) {
  static const uint8_t sizes[] = {0, 0, 0, 0, 1, 2, 4, 1, 2, 4, 4, 8, 1, 2, 4, 8,
                                  1, 2, 4, 8, 0, 0, 0, 0, 0, 1, 2, 4, 2, 4, 2, 4}; /* of what follows that byte */
  int size = sizes[first - NIL];
  if (left(g) < (size_t)size) return CUT_SHORT;
  if (first == FLOAT_32 || first == FLOAT_64) {
    push_float(g, first == FLOAT_32);
    return NULL;
  }
  uint64_t number = read_number(g, size);
  switch (first) {
  case NIL:
    lua_pushnil(g->L);
    return NULL;
  case FALSE:
  case TRUE:
    lua_pushboolean(g->L, first == TRUE);
    return NULL;
  case UINT_8:
  case UINT_8 + 1:
  case UINT_8 + 2:
  case UINT_8 + 3:
    push_unsigned(g->L, number);
    return NULL;
  case INT_8:
    lua_pushinteger(g->L, (int8_t)number);
    return NULL;
  case INT_8 + 1:
    lua_pushinteger(g->L, (int16_t)number);
    return NULL;
  case INT_8 + 2:
    lua_pushinteger(g->L, (int32_t)number);
    return NULL;
  case INT_8 + 3:
    lua_pushinteger(g->L, (lua_Integer)number);
    return NULL;
  case ARRAY_16:
  case ARRAY_32:
    return unpack_array(g, number, depth);
  case MAP_16:
  case MAP_32:
    return unpack_map(g, number, depth);
  default:
    if (first >= EXT_8 && first <= EXT_32) return unpack_ext(g, number);
    if (first >= FIX_EXT_1 && first <= FIX_EXT_16) return unpack_ext(g, UINT64_C(1) << (first - FIX_EXT_1));
    if ((first >= BIN_8 && first <= BIN_32) || (first >= STR_8 && first <= STR_32)) return unpack_string(g, number);
    return "the packed value has a byte (0xc1) that means nothing";
  }
}

/* Pushes the next value; or returns what is wrong, with the stack as it came. */
static const char *unpack(Unpacking *g, int depth) {
  if (left(g) == 0) return CUT_SHORT;
  if (depth > PACK_MAX_DEPTH) return "the packed value is nested more than 100 deep";
  if (!lua_checkstack(g->L, 8)) return "not enough memory to unpack the value";
  int first = *g->at++;
  if (first < FIX_MAP || first >= FIX_NEGATIVE) {
    lua_pushinteger(g->L, (int8_t)first);
    return NULL;
  }
  if (first < FIX_ARRAY) return unpack_map(g, (uint64_t)first & 15, depth + 1);
  if (first < FIX_STR) return unpack_array(g, (uint64_t)first & 15, depth + 1);
  if (first < NIL) return unpack_string(g, (uint64_t)first & 31);
  return unpack_long(g, first, depth + 1);
}

const char *unpack_bytes(lua_State *L, const char *bytes, size_t size, const Unpacker *unpacker) {
  Unpacking g = {L, (const unsigned char *)bytes, (const unsigned char *)bytes + size, size, unpacker};
  int top = lua_gettop(L);
  const char *wrong = unpack(&g, 0);
  if (!wrong && g.at != g.end) wrong = "the packed value is followed by other bytes";
  if (wrong) lua_settop(L, top);
  return wrong;
}

/* Raises: a parcel of this program cannot be wrong otherwise. */
static void unpack_parcel(lua_State *L, const Parcel *parcel,
                          void (*push_chan)(lua_State *L, struct SharedChan *chan)) {
  Unpacker unpacker = {push_chan, parcel->chans, parcel->nchans};
  const char *wrong = unpack_bytes(L, parcel->bytes, parcel->size, &unpacker);
  if (!wrong) return;
  lua_pushstring(L, wrong); /* uncovered: what the core has packed is well-formed */
  lua_error(L);
}

void unpack_value(lua_State *L, const SharedValue *value, void (*push_chan)(lua_State *L, struct SharedChan *chan)) {
  switch ((SharedKind)value->kind) {
  case SHARED_NIL: /* uncovered: nil is never put */
    lua_pushnil(L);
    return;
  case SHARED_FALSE:
  case SHARED_TRUE:
    lua_pushboolean(L, value->kind == SHARED_TRUE);
    return;
  case SHARED_INTEGER:
    lua_pushinteger(L, (lua_Integer)value->as.integer);
    return;
  case SHARED_NUMBER:
    lua_pushnumber(L, (lua_Number)value->as.number);
    return;
  case SHARED_SHORT:
    lua_pushlstring(L, value->as.text, value->size);
    return;
  case SHARED_LONG:
    lua_pushlstring(L, value->as.parcel->bytes, value->as.parcel->size);
    return;
  case SHARED_PACKED:
    unpack_parcel(L, value->as.parcel, push_chan);
    return;
  case SHARED_CHAN:
    push_chan(L, value->as.chan);
    return;
  }
}
