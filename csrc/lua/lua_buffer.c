/* lua/lua_buffer.c: buffer, dropping_buffer, sliding_buffer: they return a description of a buffer, from which each
   channel makes its own. */
#include "lua/check.h"
#include "lua/module.h"

#define BUFFER_TNAME "runnel.buffer"

const Buffer *check_buffer(lua_State *L, int i) {
  const Buffer *b = (const Buffer *)lua_touserdata(L, i);
  if (!b || !lua_getmetatable(L, i)) return NULL;
  lua_getiuservalue(L, SCHED_SELF, SCHED_BUFFER_META);
  bool is = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return is ? b : NULL;
}

static int new_buffer(lua_State *L, BufferKind kind, const char *what) {
  int is_int;
  lua_Integer n = lua_tointegerx(L, 1, &is_int);
  if (lua_type(L, 1) != LUA_TNUMBER || !is_int || n < 1 || n > BUFFER_MAX) {
    check_dot(L);
    return luaL_error(L, "%s: a size from 1 to %d expected, got %s", what, (int)BUFFER_MAX, luaL_tolstring(L, 1, NULL));
  }
  Buffer *b = (Buffer *)lua_newuserdatauv(L, sizeof(Buffer), 0);
  *b = (Buffer){.kind = (uint8_t)kind, .limit = (uint32_t)n};
  lua_getiuservalue(L, SCHED_SELF, SCHED_BUFFER_META);
  lua_setmetatable(L, -2);
  return 1;
}

/* buffer(n) -> buffer */
static int core_buffer(lua_State *L) {
  lua_settop(L, 1);
  return new_buffer(L, BUFFER_FIXED, "buffer");
}

/* dropping_buffer(n) -> buffer */
static int core_dropping_buffer(lua_State *L) {
  lua_settop(L, 1);
  return new_buffer(L, BUFFER_DROPPING, "dropping_buffer");
}

/* sliding_buffer(n) -> buffer */
static int core_sliding_buffer(lua_State *L) {
  lua_settop(L, 1);
  return new_buffer(L, BUFFER_SLIDING, "sliding_buffer");
}

/* unblocking_buffer(buffer) -> boolean */
static int core_unblocking_buffer(lua_State *L) {
  const Buffer *b = check_buffer(L, 1);
  if (!b) check_dot(L);
  lua_pushboolean(L, b && buffer_unblocking((BufferKind)b->kind));
  return 1;
}

static int buffer_meta_tostring(lua_State *L) {
  static const char *const names[] = {"", "buffer", "dropping_buffer", "sliding_buffer", "", ""};
  const Buffer *b = check_buffer(L, 1);
  if (!b) return luaL_error(L, "a buffer expected, got %s", luaL_typename(L, 1));
  lua_pushfstring(L, "%s(%d)", names[b->kind], (int)b->limit);
  return 1;
}

void lua_buffer_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"buffer", core_buffer},
      {"dropping_buffer", core_dropping_buffer},
      {"sliding_buffer", core_sliding_buffer},
      {"unblocking_buffer", core_unblocking_buffer},
      {NULL, NULL},
  };
  static const luaL_Reg metamethods[] = {{"__tostring", buffer_meta_tostring}, {NULL, NULL}};
  module_register(L, functions);
  luaL_newmetatable(L, BUFFER_TNAME);
  module_register(L, metamethods);
  lua_setiuservalue(L, SCHED_SELF, SCHED_BUFFER_META);
}
