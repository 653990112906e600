/* module.c: runnel.nats.core, the C module under lua/runnel/nats.lua: connections of libnats, whose messages and events
   come through ports. Its functions check little: the Lua module does. */

#include <stdio.h>

#include "kit/process.h"
#include "nats/conn.h"

/* A new subject is shorter; a host's name is cut. */
enum { INBOX_SIZE = 64 };

/* inbox() -> a new unique subject */
static int module_inbox(lua_State *L) {
  natsInbox *inbox = NULL;
  natsStatus s = natsInbox_Create(&inbox);
  if (s != NATS_OK) return conn_fail(L, s);
  char text[INBOX_SIZE]; /* lua_pushstring may raise */
  (void)snprintf(text, sizeof text, "%s", inbox);
  natsInbox_Destroy(inbox);
  lua_pushstring(L, text);
  return 1;
}

/* time() -> ms since 1970, by this machine's clock */
static int module_time(lua_State *L) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  lua_pushnumber(L, (lua_Number)now.tv_sec * 1e3 + (lua_Number)now.tv_nsec / 1e6);
  return 1;
}

int luaopen_runnel_nats_core(lua_State *L) {
  static const luaL_Reg functions[] = {{"connect", conn_connect},
                                       {"inbox", module_inbox},
                                       {"process", process_push},
                                       {"time", module_time},
                                       {NULL, NULL}};
  luaL_checkversion(L);
  (void)runnel_get_functions(L);
  if (nats_GetVersionNumber() < NATS_VERSION_REQUIRED_NUMBER) {
    /* uncovered: no older libnats is installed */
    return luaL_error(L, "libnats %s is older than the header with which this module was compiled (%s)",
                      nats_GetVersion(), NATS_VERSION_STRING);
  }
  conn_open(L);
  sub_open(L);
  luaL_newlib(L, functions);
  lua_pushstring(L, nats_GetVersion());
  lua_setfield(L, -2, "libnats");
  return 1;
}
