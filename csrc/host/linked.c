/* linked.c: see linked.h. The Makefile defines RUNNEL_LINKED_X for each module that is linked. */
#include "host/linked.h"

#include <lauxlib.h>

int luaopen_luv(lua_State *L);
int luaopen_runnel_http_core(lua_State *L);
int luaopen_runnel_http_curl(lua_State *L);
int luaopen_runnel_monitor_core(lua_State *L);
int luaopen_runnel_nats_core(lua_State *L);
int luaopen_runnel_sqlite_core(lua_State *L);
int luaopen_runnel_tls_core(lua_State *L);
int luaopen_runnel_websocket_core(lua_State *L);

void linked_preload(lua_State *L) {
  static const luaL_Reg modules[] = {
#ifdef RUNNEL_LINKED_LUV
      {"luv", luaopen_luv},
#endif
#ifdef RUNNEL_LINKED_HTTP
      {"runnel.http.curl", luaopen_runnel_http_curl},
#endif
#ifdef RUNNEL_LINKED_HTTPD
      {"runnel.http.core", luaopen_runnel_http_core},
#endif
#ifdef RUNNEL_LINKED_MONITOR
      {"runnel.monitor.core", luaopen_runnel_monitor_core},
#endif
#ifdef RUNNEL_LINKED_NATS
      {"runnel.nats.core", luaopen_runnel_nats_core},
#endif
#ifdef RUNNEL_LINKED_SQLITE
      {"runnel.sqlite.core", luaopen_runnel_sqlite_core},
#endif
#ifdef RUNNEL_LINKED_TLS
      {"runnel.tls.core", luaopen_runnel_tls_core},
#endif
#ifdef RUNNEL_LINKED_WEBSOCKET
      {"runnel.websocket.core", luaopen_runnel_websocket_core},
#endif
      {NULL, NULL},
  };
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  luaL_setfuncs(L, modules, 0);
  lua_pop(L, 1);
}
