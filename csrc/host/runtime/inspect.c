/* inspect.c: see inspect.h. */
#include "host/runtime/inspect.h"

#include <lauxlib.h>

#include "blocks/driver.h"
#include "blocks/timer.h"
#include "errors/inspect.h"
#include "host/runtime/core.h"
#include "states/shared_wait.h"

/* Protected, with the scheduler: () -> whether the driver itself has pending events. */
static int inspect_alive(lua_State *L) {
  lua_pushboolean(L, driver_has_events(L));
  return 1;
}

/* Protected, with the scheduler: () -> whether another state may complete an operation. */
static int inspect_shared(lua_State *L) {
  lua_pushboolean(L, shared_wait_is_alive(L, sched_self(L)));
  return 1;
}

/* Sets a field of the table on top of the stack to what a protected function returns, or leaves it out. */
static void set_protected(lua_State *L, const char *key, lua_CFunction f) {
  core_push_function(L, f);
  if (lua_pcall(L, 0, 1, 0) != LUA_OK) lua_pop(L, 1);
  else lua_setfield(L, -2, key);
}

static void set_ms(lua_State *L, const char *key, int64_t ns) {
  lua_pushnumber(L, (lua_Number)ns / (lua_Number)CLOCK_MS);
  lua_setfield(L, -2, key);
}

/* Sets `due` to the ms until the first timer that has an effect, if there is one. */
static void set_due(lua_State *L, const World *w) {
  int64_t first = INT64_MAX;
  for (uint32_t i = 0; i < w->heap.count; i++) {
    if (w->heap.entries[i].deadline < first && timer_wakes(&w->heap, i)) first = w->heap.entries[i].deadline;
  }
  if (first != INT64_MAX) set_ms(L, "due", first - clock_now(&w->clock));
}

/* world() -> a table of what can still wake go blocks: `ready` (a number of go blocks), `due` (ms to the first timer
   that has an effect, or nil), `driver`, `ports` and `shared` (whether the driver, a port or another state may do so);
   and the main program's wait: `main` ("take", "put", "alts" or nil), `channels` */
static int inspect_world(lua_State *L) {
  Sched *S = core_sched();
  lua_newtable(L);
  if (!S) return 1;
  set_protected(L, "driver", inspect_alive);
  lua_pushinteger(L, S->world.nready);
  lua_setfield(L, -2, "ready");
  set_due(L, &S->world);
  lua_pushboolean(L, driver_has_ports(S));
  lua_setfield(L, -2, "ports");
  set_protected(L, "shared", inspect_shared);
  const Alt *alt = &S->outside;
  if (alt->count == 0) return 1;
  lua_pushstring(L, alt->flags & ALT_SELECT ? "alts" : alt_waiters(alt)->is_put ? "put" : "take");
  lua_setfield(L, -2, "main");
  (void)inspect_push_channels(L, alt);
  lua_setfield(L, -2, "channels");
  return 1;
}

int inspect_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"world", inspect_world}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
