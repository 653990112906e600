/* summary.h: the parts of a message to a page besides the rows: the program's description and its state. */
#ifndef RUNNEL_MONITOR_SUMMARY_H
#define RUNNEL_MONITOR_SUMMARY_H

#include <lua.h>

#include "monitor/text.h"
#include "monitor/view.h"
#include "tracing/watch.h"

/* Adds the data that a page gets once: the program's name, whether the page may send commands that change the program,
   and the process's number, or 0. */
void summary_hello(Text *to, const char *program, bool control, int64_t pid);

/* Adds the clock, how long Lua has not served the scheduler, in ns (`late`, of desk_late), whether it waits in a system
   call then (`is_blocked`), and the numbers of the snapshot that the view shows, if there is one. */
void summary_add(Text *to, Watch *watch, const View *view, int64_t now, int64_t late, bool is_blocked);

/* Adds the result of a command as JSON, without brackets: the arguments of result(server, number, ok, lines...) from
   `ok`, which is at index 3, on. Raises if a line is no string, before it adds anything. */
void summary_result(lua_State *L, Text *to);

#endif
