/* lua_sigterm.c: core.internal's functions for SIGTERM, which lua/runnel/internal/sigterm.lua uses. */
#include "port/sigterm.h"

#include "lua/check.h"
#include "lua/module.h"
#include "port/pump.h"

#define TERM_TNAME "runnel.term"

/* off_term(watch): ends a watch, and closes its channel; also its finalizer. */
static int internal_off_term(lua_State *L) {
  TermWatch *watch = (TermWatch *)luaL_checkudata(L, 1, TERM_TNAME);
  if (!watch->port) return 0;
  term_unwatch(watch);
  port_close(watch->port);
  port_release(watch->port);
  watch->port = NULL;
  return 0;
}

/* on_term(ch) -> watch | nil: makes the first SIGTERM close the channel instead of ending the program; at once if the
   signal has already arrived. Nil if the program handles the signal, or if there are no resources. The watch does not
   keep the program waiting. */
static int internal_on_term(lua_State *L) {
  check_chan(L, 1, "on_term", "on_term(ch)");
  TermWatch *watch = (TermWatch *)lua_newuserdatauv(L, sizeof *watch, 0);
  *watch = (TermWatch){0};
  luaL_setmetatable(L, TERM_TNAME);
  Port *port = pump_open(L, sched_self(L), 1, 1, PUMP_CLOSES | PUMP_QUIET);
  if (!port) return luaL_error(L, "not enough memory");
  if (term_watch(watch, port)) return 1;
  port_close(port);
  port_release(port);
  return 0;
}

void lua_term_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"off_term", internal_off_term}, {"on_term", internal_on_term}, {NULL, NULL}};
  module_register(L, functions);
  luaL_newmetatable(L, TERM_TNAME);
  lua_pushcfunction(L, internal_off_term);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}
