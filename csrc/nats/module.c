/* module.c: runnel.nats.core, the C module under lua/runnel/nats.lua: connections of libnats, whose messages and events
   come through ports. Its functions check little: the Lua module does. */
#include <stdio.h>
#include <unistd.h>

#include "nats/conn.h"

/* A new subject is shorter; a host's name is cut. */
enum { INBOX_SIZE = 64, HOST_SIZE = 256 };

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

/* process() -> the machine's name, the number of this process */
static int module_process(lua_State *L) {
  char host[HOST_SIZE];
  if (gethostname(host, sizeof host) != 0) (void)snprintf(host, sizeof host, "?"); /* uncovered: it has one */
  host[sizeof host - 1] = 0;
  lua_pushstring(L, host);
  lua_pushinteger(L, (lua_Integer)getpid());
  return 2;
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
                                       {"process", module_process},
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
