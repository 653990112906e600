/* lua/core.c: runnel.core, the Lua module of the C core: it opens one scheduler for each lua_State. Also the checks of
   arguments that the other files share. */
#include <math.h>
#include <stdint.h>
#include <time.h>

#include "core/origin.h"
#include "core/unhandled.h"
#include "lua/face.h"

/* Registry key of the module: if it is required again under another name, the scheduler is the same. */
#define MODULE_KEY "runnel.core"

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int luaopen_runnel_core(lua_State *L);

int face_not_a_chan(lua_State *L, int i, const char *what, const char *usage) {
  const char *type = lua_isnone(L, i) ? "nothing" : luaL_typename(L, i);
  return luaL_error(L, "%s: a channel expected, got %s; call it as %s", what, type, usage);
}

int64_t face_check_ms(lua_State *L, int i, const char *what) {
  int is_number;
  lua_Number ms = lua_tonumberx(L, i, &is_number);
  if (UNLIKELY(!is_number || lua_type(L, i) != LUA_TNUMBER)) {
    const char *type = lua_isnone(L, i) ? "nothing" : luaL_typename(L, i);
    luaL_error(L, "%s: a number of milliseconds expected, got %s", what, type);
  }
  if (UNLIKELY(!(ms >= 0))) luaL_error(L, "%s: a time of 0 ms or more expected, got %f", what, (LUAI_UACNUMBER)ms);
  if (UNLIKELY(ms == (lua_Number)HUGE_VAL)) {
    luaL_error(L, "%s: a finite time expected, got infinity; to wait for ever, take from a channel that stays open",
               what);
  }
  lua_Number ns = ms * (lua_Number)CLOCK_MS;
  /* A time too long for the clock is for ever. */
  return ns < (lua_Number)(INT64_MAX / 2) ? (int64_t)ns : INT64_MAX;
}

void face_push_ms(lua_State *L, int64_t ns) {
  if (ns % CLOCK_MS == 0) lua_pushinteger(L, (lua_Integer)(ns / CLOCK_MS));
  else lua_pushnumber(L, (lua_Number)ns / (lua_Number)CLOCK_MS);
}

void face_check_callable(lua_State *L, int i, const char *what) {
  if (LIKELY(lua_isfunction(L, i))) return;
  if (luaL_getmetafield(L, i, "__call") != LUA_TNIL) {
    lua_pop(L, 1);
    return;
  }
  luaL_error(L, "%s: a function expected, got %s", what, lua_isnone(L, i) ? "nothing" : luaL_typename(L, i));
}

void face_register(lua_State *L, const luaL_Reg *functions) {
  lua_pushvalue(L, SCHED_SELF);
  luaL_setfuncs(L, functions, 1);
}

/* Sets up the scheduler, which is its upvalue, and fills the module: (module) -> module */
static int fill(lua_State *L) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  uint64_t seed = (uint64_t)now.tv_nsec * UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)now.tv_sec ^ (uint64_t)(uintptr_t)L;
  sched_open(L, seed);
  lua_chan_open(L);
  lua_buffer_open(L);
  lua_alts_open(L);
  lua_go_open(L);
  lua_run_open(L);
  lua_internal_open(L);
  unhandled_open(L);
  origin_open(L);
  return 1;
}

bool face_push_sched(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &chan_tag) == LUA_TUSERDATA) return true;
  lua_pop(L, 1);
  return false;
}

bool face_is_ours(lua_State *L) {
  bool is_open = lua_getfield(L, LUA_REGISTRYINDEX, MODULE_KEY) == LUA_TTABLE;
  bool has_sched = face_push_sched(L);
  lua_pop(L, has_sched ? 2 : 1);
  return has_sched || !is_open;
}

int luaopen_runnel_core(lua_State *L) {
  luaL_checkversion(L);
  if (lua_getfield(L, LUA_REGISTRYINDEX, MODULE_KEY) == LUA_TTABLE) return 1;
  lua_newuserdatauv(L, sizeof(Sched), SCHED_NUSER);
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, fill, 1);
  lua_newtable(L);
  lua_call(L, 1, 1);
  lua_insert(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &chan_tag); /* its address differs in another copy of the core */
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, MODULE_KEY);
  return 1;
}
