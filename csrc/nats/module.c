/* module.c: runnel.nats.core, the C module under lua/runnel/nats.lua: connections of libnats, whose messages and events
   come through ports. Its functions check little: the Lua module does. */
#include <stdio.h>

#include "nats/conn.h"

/* A new subject is shorter. */
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

int luaopen_runnel_nats_core(lua_State *L) {
  static const luaL_Reg functions[] = {{"connect", conn_connect},
                                       {"inbox", module_inbox},
                                       {"on_term", signal_on_term},
                                       {"off_term", signal_off_term},
                                       {NULL, NULL}};
  luaL_checkversion(L);
  const runnel_functions *rn = runnel_get_functions(L);
  if (nats_GetVersionNumber() < NATS_VERSION_REQUIRED_NUMBER) {
    /* uncovered: no older libnats is installed */
    return luaL_error(L, "libnats %s is older than the header with which this module was compiled (%s)",
                      nats_GetVersion(), NATS_VERSION_STRING);
  }
  conn_open(L);
  sub_open(L);
  signal_open(L);
  luaL_newlibtable(L, functions);
  lua_pushlightuserdata(L, (void *)(uintptr_t)rn); /* only ever read through a const pointer */
  luaL_setfuncs(L, functions, 1);
  lua_pushstring(L, nats_GetVersion());
  lua_setfield(L, -2, "libnats");
  return 1;
}
