/* delayed.h: a call that is made after a time, as rn.after makes it: a go block starts when its timer fires. Until then
   there is no go block: most such timers are stopped before they fire.

   The timer is a userdata, whose user values are the function and its arguments; or a plain channel, which is then
   closed, without a go block and without memory. SCHED_DELAYED keeps a pending one alive. A simulation does not replace that table: a timer of an outer world can be stopped or restarted in it. */
#ifndef RUNNEL_DELAYED_H
#define RUNNEL_DELAYED_H

#include "core/state.h"

/* The field of SCHED_DELAYED that has the metatable of timers, once lua/lua_delayed.c has set it. */
#define DELAYED_META "meta"

/* User values of the timer: the function, and from DELAYED_ARGUMENT on its arguments. */
enum { DELAYED_FUNCTION = 1, DELAYED_ARGUMENT };

typedef struct Delayed {
  Timer timer;          /* in the heap of a world while it is pending */
  int ref;              /* its place in SCHED_DELAYED; LUA_NOREF: it is not pending */
  uint32_t origin : 20; /* of the go block that has made it: the new one inherits it (core/go_state.h) */
  uint32_t host : 12;   /* the same */
} Delayed;

/* Pushes a timer that is not pending, with the function, or channel, and its `nargs` arguments on top of L, which are
   popped. The metatable is at index `meta`. May raise. */
Delayed *delayed_new(lua_State *L, const Sched *S, int nargs, int meta);

/* Makes the timer at index `at` due in `ns` from now: a pending one in its world, another one in this world. Returns
   whether it was pending. May raise, and then nothing has changed. */
bool delayed_start(lua_State *L, Sched *S, int at, int64_t ns);

/* Stops a timer, in any world. Returns whether it was pending. Does not raise. */
bool delayed_stop(lua_State *L, Sched *S, Delayed *delayed);

/* At the end of a world: drops a call whose timer has left the heap. */
void delayed_forget(lua_State *L, Timer *timer);

/* Stops the timers of a host that has crashed. */
void delayed_crash(lua_State *L, Sched *S, uint32_t host);

/* Whether one is pending in this world. */
bool delayed_is_any(const Sched *S);

/* Pushes a list of the timers that are pending in this world, those first that are due first. May raise. */
void delayed_push_list(lua_State *L, const Sched *S);

/* For how long a timer is pending still, in ns; negative: it is not pending. */
int64_t delayed_left(Sched *S, const Delayed *delayed);

/* Sets up what timers need; the scheduler's userdata is at SCHED_SELF. */
void delayed_open(lua_State *L);

#endif
