/* summary.h: the parts of a message to a page besides the rows: the program's description and its state. */
#ifndef RUNNEL_MONITOR_SUMMARY_H
#define RUNNEL_MONITOR_SUMMARY_H

#include <lua.h>

#include "monitor/text.h"
#include "monitor/view.h"
#include "tracing/watch.h"

/* For how long the same must have been seen, in ms, before it is said to have run. */
enum { RUNNER_SEEN = 80 };

/* What was seen to run while Lua did not serve the scheduler. Begins as zeros. */
typedef struct Runner {
  char name[256];  /* of the first that was seen; "": nothing was */
  uint32_t id;     /* of that go block, the low 32 bits; 0: the main program */
  uint32_t looks;  /* how often the server has looked */
  bool is_mixed;   /* another one was seen, too */
  bool is_blocked; /* it waited in a system call, whenever the server looked */
  int64_t asked;   /* since when the scheduler was asked for something, in ns */
  int64_t since;   /* when the server first looked, in ns */
  int64_t last;    /* when it last did */
} Runner;

/* Adds the data that a page gets once: the program's name, whether the page may send commands that change the program,
   and the process's number, or 0. */
void summary_hello(Text *to, const char *program, bool control, int64_t pid);

/* Adds the clock, how long Lua has not served the scheduler, in ns (`late`, of desk_late), what `runs` then, and the
   numbers of the snapshot that the view shows, if there is one, with the longest `turn` before it, in ns, and what `ran`
   before the scheduler took it. */
void summary_add(Text *to, Watch *watch, const View *view, int64_t now, int64_t late, const Runner *runs, int64_t turn,
                 const Runner *ran);

/* Adds the result of a command as JSON, without brackets: the arguments of result(server, number, ok, lines...) from
   `ok`, which is at index 3, on. Raises if a line is no string, before it adds anything. */
void summary_result(lua_State *L, Text *to);

#endif
