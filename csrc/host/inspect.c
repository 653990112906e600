/* inspect.c: see inspect.h. */
#include "host/inspect.h"

#include <lauxlib.h>

#include "core/driver.h"
#include "core/shared_wait.h"
#include "host/core.h"
#include "lua/check.h"

/* Registry keys: of a weak table id -> channel; of the function that gets the values put on the traced channel. */
#define CHANS_KEY "runnel.host.chans"
#define TRACE_KEY "runnel.host.trace"

/* The functions of the core that are replaced. */
enum { MAKE_CHAN, MAKE_PROMISE, PUT, OFFER, PUT_ASYNC, REPLACED };
static lua_CFunction original[REPLACED];

static const Chan *traced; /* the channel that is traced, or NULL */

/* Each replacement calls the original directly. The original finds its own upvalue, and blames the same caller for
   errors. */

static int made(lua_State *L, int which) {
  int n = original[which](L);
  const Chan *ch = chan_to(L, -1);
  if (ch && lua_getfield(L, LUA_REGISTRYINDEX, CHANS_KEY) == LUA_TTABLE) {
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, (lua_Integer)ch->id);
  }
  if (ch) lua_pop(L, 1);
  return n;
}

/* Reports the value at index 2, if the channel at index 1 is traced and open. `ahead`: it has not been put yet. */
static void report(lua_State *L, bool ahead) {
  const Chan *ch = (const Chan *)lua_touserdata(L, 1);
  if (!ch || ch != traced || lua_isnoneornil(L, 2) || ch->flags & CHAN_CLOSED) return;
  lua_getfield(L, LUA_REGISTRYINDEX, TRACE_KEY);
  lua_pushvalue(L, 2);
  lua_pushboolean(L, ahead);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) lua_pop(L, 1);
}

/* put and put_async may park, and then do not return here. So the value is reported first. */
static int put(lua_State *L, int which) {
  report(L, true);
  return original[which](L);
}

static int offer(lua_State *L) {
  int n = original[OFFER](L);
  if (lua_toboolean(L, -1)) report(L, false);
  return n;
}

static int make_chan(lua_State *L) { return made(L, MAKE_CHAN); }
static int make_promise(lua_State *L) { return made(L, MAKE_PROMISE); }
static int put_put(lua_State *L) { return put(L, PUT); }
static int put_put_async(lua_State *L) { return put(L, PUT_ASYNC); }

/* Replaces a function in the table on top of L. */
static void replace(lua_State *L, const char *name, int which, lua_CFunction replacement) {
  lua_getfield(L, -1, name);
  original[which] = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  core_push_function(L, replacement);
  lua_setfield(L, -2, name);
}

void inspect_replace(lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_setfield(L, LUA_REGISTRYINDEX, CHANS_KEY);
  replace(L, "chan", MAKE_CHAN, make_chan);
  replace(L, "promise_chan", MAKE_PROMISE, make_promise);
  lua_getfield(L, -1, "methods");
  replace(L, "put", PUT, put_put);
  replace(L, "offer", OFFER, offer);
  replace(L, "put_async", PUT_ASYNC, put_put_async);
  lua_pop(L, 1);
}

/* chans() -> list of all channels */
static int inspect_chans(lua_State *L) {
  lua_newtable(L);
  lua_Integer n = 0;
  if (lua_getfield(L, LUA_REGISTRYINDEX, CHANS_KEY) != LUA_TTABLE) return luaL_error(L, "chans: only at the prompt");
  for (lua_pushnil(L); lua_next(L, -2);) lua_rawseti(L, -4, ++n);
  lua_pop(L, 1);
  return 1;
}

/* trace(ch or nil, f): from now on f(v, ahead) is called for each value put on the channel, before or after the put. */
static int inspect_trace(lua_State *L) {
  traced = NULL;
  lua_settop(L, 2);
  lua_setfield(L, LUA_REGISTRYINDEX, TRACE_KEY);
  if (!lua_isnil(L, 1)) traced = check_chan(L, 1, "trace", "trace(ch, f)");
  return 0;
}

/* Protected, with the scheduler: () -> whether the driver itself has pending events. */
static int inspect_alive(lua_State *L) {
  lua_pushboolean(L, driver_has_events(L));
  return 1;
}

static void set_ms(lua_State *L, const char *key, int64_t ns) {
  lua_pushnumber(L, (lua_Number)ns / (lua_Number)CLOCK_MS);
  lua_setfield(L, -2, key);
}

/* world() -> a table of what can still wake go blocks: `ready` (a number of go blocks), `due` (ms to the next
   deadline, or nil), `driver`, `ports` and `shared` (whether the driver, a port or another state may do so); and of what
   the main program waits for: `main` ("take", "put", "alts" or nil), `channels` */
static int inspect_world(lua_State *L) {
  Sched *S = core_sched();
  lua_newtable(L);
  if (!S) return 1;
  core_push_function(L, inspect_alive);
  if (lua_pcall(L, 0, 1, 0) != LUA_OK) lua_pop(L, 1);
  else lua_setfield(L, -2, "driver");
  lua_pushinteger(L, S->world.nready);
  lua_setfield(L, -2, "ready");
  const Timer *first = heap_first(&S->world.heap);
  if (first) set_ms(L, "due", first->deadline - clock_now(&S->world.clock));
  lua_pushboolean(L, driver_has_ports(S));
  lua_setfield(L, -2, "ports");
  lua_pushboolean(L, shared_wait_is_alive(S));
  lua_setfield(L, -2, "shared");
  const Alt *alt = &S->outside;
  if (alt->state != ALT_PARKED || alt->count == 0) return 1;
  lua_pushstring(L, alt->flags & ALT_SELECT ? "alts" : alt->waiters[0].is_put ? "put" : "take");
  lua_setfield(L, -2, "main");
  lua_createtable(L, (int)alt->count, 0);
  for (uint32_t i = 0; i < alt->count; i++) {
    lua_pushvalue(alt->co, alt->waiters[i].at);
    lua_xmove(alt->co, L, 1);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "channels");
  return 1;
}

int inspect_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"chans", inspect_chans}, {"trace", inspect_trace}, {"world", inspect_world}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
