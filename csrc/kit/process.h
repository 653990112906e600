/* process.h: the name of the machine and of the process. */
#ifndef RUNNEL_KIT_PROCESS_H
#define RUNNEL_KIT_PROCESS_H

#include <lua.h>
#include <stdio.h>
#include <unistd.h>

/* The room for the name of a host. */
enum { PROCESS_HOST = 256 };

/* process() -> the name of this host, and the id of this process */
static inline int process_push(lua_State *L) {
  char host[PROCESS_HOST];
  if (gethostname(host, sizeof host) != 0) (void)snprintf(host, sizeof host, "?"); /* uncovered: it has one */
  host[sizeof host - 1] = 0;
  lua_pushstring(L, host);
  lua_pushinteger(L, (lua_Integer)getpid());
  return 2;
}

#endif
