/* profile.h: where the program's time goes: time in which Lua code runs, and time for which go blocks wait.

   Both become trees of calls: tables of Lua, in which a call has its callees under their names, at PROFILE_RAN the ns
   that it has run, and at PROFILE_WAITED the ns that go blocks have waited there (profile_tree.h).

   Running time is sampled: the kernel sends a signal each time this thread has used some processor time
   (profile_timer.h). The signal's handler sets a debug hook on the coroutine that runs, which Lua calls before the next
   instruction, or when the C function that runs returns: there the hook reads the stack.

   Time in which the thread is blocked has no samples; how it is found: profile_blocked.h.

   Waiting time is measured whenever a go block is woken, by the loop's clock, and added up; each time the sum has grown
   by one step, the wait that has just ended is recorded as that long. A wait is recorded in proportion to its length so,
   and the cost does not depend on the number of waits. The step grows with the number of go blocks.

   While there is no profile, nothing is different. While there is one, it observes the core, beside the trace. */
#ifndef RUNNEL_PROFILE_H
#define RUNNEL_PROFILE_H

#include "core/observe.h"

/* Begins a profile. At index `namers` is a table: path of a file of the library below its folder -> a function (co,
   level) that names what such a function of that file waits for, or returns nil. Raises if there is a profile already,
   or no timer. */
void profile_start(lua_State *L, Sched *S, int namers);

/* Ends the profile and pushes a table: running, waiting: the trees; names: "file:line" of functions -> their names;
   ran, loop, blocked, waited, elapsed: ns that Lua code has run, that the scheduler has run, that Lua code has blocked
   the thread, that go blocks have waited, and that have passed. Nil without a profile. */
void profile_stop(lua_State *L, Sched *S);

/* How long there has been a profile, in ns; -1: there is none. */
int64_t profile_passed(const Sched *S);

#endif
