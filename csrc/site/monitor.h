/* monitor.h: runnel.monitor.core inside a page: there is no server and no thread; each snapshot is sent as a message. */
#ifndef RUNNEL_SITE_MONITOR_H
#define RUNNEL_SITE_MONITOR_H

#include <lua.h>
#include <stdint.h>

/* Opens the module. */
int site_monitor_open(lua_State *L);

/* How long the program may sleep before the next snapshot, in ns; negative if there is no monitor. */
int64_t site_monitor_left(void);

#endif
