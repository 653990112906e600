/* lua_sigterm.c: core.internal's functions for SIGTERM, which lua/runnel/internal/sigterm.lua uses. */
#include "port/sigterm.h"

#include "errors/origin.h"
#include "lua/check.h"
#include "lua/module.h"
#include "port/pump.h"

#define SIGTERM_TNAME "runnel.term"

/* sigterm_unwatch(watch): ends a watch, and closes its channel; also its finalizer. */
static int internal_sigterm_unwatch(lua_State *L) {
  SigtermWatch *watch = (SigtermWatch *)luaL_checkudata(L, 1, SIGTERM_TNAME);
  if (!watch->port) return 0;
  sigterm_unwatch(watch);
  port_close(watch->port);
  port_release(watch->port);
  watch->port = NULL;
  return 0;
}

/* Opens a port that closes the channel at an index, and does not keep the program waiting. */
static Port *open_port(lua_State *L, int at) {
  Port *port = pump_open(L, sched_self(L), at, 1, PUMP_CLOSES | PUMP_QUIET);
  if (!port) luaL_error(L, "not enough memory");
  return port;
}

/* sigterm_watch(ch, patience) -> watch | nil: makes the first SIGTERM close the channel instead of ending the program; at
   once if the signal has already arrived. Nil if the program handles the signal, or if there are no resources. The watch
   does not keep the program waiting. `patience`: see port/sigterm.h. */
static int internal_sigterm_watch(lua_State *L) {
  check_chan(L, 1, "sigterm_watch", "sigterm_watch(ch, patience)");
  int patience = (int)luaL_checkinteger(L, 2);
  SigtermWatch *watch = (SigtermWatch *)lua_newuserdatauv(L, sizeof *watch, 0);
  *watch = (SigtermWatch){0};
  luaL_setmetatable(L, SIGTERM_TNAME);
  Port *port = open_port(L, 1);
  if (sigterm_watch(watch, port, patience)) return 1;
  port_close(port);
  port_release(port);
  return 0;
}

static SigtermWatch *check_watch(lua_State *L) {
  SigtermWatch *watch = (SigtermWatch *)luaL_checkudata(L, 1, SIGTERM_TNAME);
  luaL_argcheck(L, watch->port, 1, "a watch that has not ended expected");
  return watch;
}

/* sigterm_begin(watch, ch): the state has begun to drain. Closes the channel if the program has not ended when it
   should. */
static int internal_sigterm_begin(lua_State *L) {
  SigtermWatch *watch = check_watch(L);
  check_chan(L, 2, "sigterm_begin", "sigterm_begin(watch, ch)");
  sigterm_begin(watch, open_port(L, 2));
  return 0;
}

/* sigterm_drained(watch, stays) -> whether the caller must end the program: see sigterm_drained. */
static int internal_sigterm_drained(lua_State *L) {
  bool stays = lua_toboolean(L, 2);
  lua_pushboolean(L, sigterm_drained(check_watch(L), stays ? SIGTERM_STAYS : SIGTERM_DRAINED));
  return 1;
}

/* takers(ch) -> the ids of the go blocks that wait in a take or an alts on the channel; whether the main program does */
static int internal_takers(lua_State *L) {
  const Chan *ch = check_looked(L, 1, "takers", "takers(ch)", LOOK_CHANNEL);
  const Sched *S = sched_self(L);
  bool main_waits = false;
  lua_Integer room = ch->waiting[TAKES], n = 0;
  lua_createtable(L, (int)room, 0); /* after this nothing is allocated, which could run finalizers that take */
  for (Link *link = ch->queues[TAKES].first; link; link = list_next(&ch->queues[TAKES], link)) {
    Waiter *w = CONTAINER_OF(link, Waiter, link);
    if (w->alt == &S->outside) {
      main_waits = true;
    } else if (n < room) {
      lua_pushinteger(L, (lua_Integer)sched_go(w->alt)->chan.id);
      lua_rawseti(L, -2, ++n);
    }
  }
  lua_pushboolean(L, main_waits);
  return 2;
}

/* main_is_idle() -> whether the main program waits on no channel: it has ended, or runs go blocks */
static int internal_main_is_idle(lua_State *L) {
  lua_pushboolean(L, sched_self(L)->outside.count == 0);
  return 1;
}

/* main_line() -> the line of the program (file:line) at which the main program is, or nil */
static int internal_main_line(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua_State *co = lua_tothread(L, -1);
  lua_Debug ar;
  for (int level = 0; lua_getstack(co, level, &ar); level++) {
    lua_getinfo(co, "Sl", &ar);
    if (ar.currentline <= 0 || origin_is_library(L, &ar)) continue;
    lua_pushfstring(L, "%s:%d", ar.short_src, ar.currentline);
    return 1;
  }
  return 0;
}

void lua_sigterm_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"main_is_idle", internal_main_is_idle},
                                       {"main_line", internal_main_line},
                                       {"sigterm_unwatch", internal_sigterm_unwatch},
                                       {"sigterm_watch", internal_sigterm_watch},
                                       {"takers", internal_takers},
                                       {"sigterm_begin", internal_sigterm_begin},
                                       {"sigterm_drained", internal_sigterm_drained},
                                       {NULL, NULL}};
  module_register(L, functions);
  luaL_newmetatable(L, SIGTERM_TNAME);
  lua_pushcfunction(L, internal_sigterm_unwatch);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}
