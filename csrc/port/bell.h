/* bell.h: how another thread wakes a sleeping scheduler: a pipe that has one byte in it from the first ring until
   the scheduler hears it, so that a burst of rings is one wake-up. Knows no Lua.

   It is shared between the scheduler and whoever may ring: the last to let go of it frees it, so that it can be rung
   after the lua_State is closed. */
#ifndef RUNNEL_BELL_H
#define RUNNEL_BELL_H

#include <stdbool.h>

typedef struct Bell Bell;

/* A bell with one hold on it, or NULL for want of memory or of descriptors (errno). */
Bell *bell_new(void);

/* Holds it, and lets go of it. Any thread. */
Bell *bell_hold(Bell *bell);
void bell_release(Bell *bell);

/* Rings it. Any thread, but no signal handler. */
void bell_ring(Bell *bell);

/* Whether it has been rung since it was last heard; then it counts as heard. */
bool bell_heard(Bell *bell);

/* Whether bell_heard would say so. */
bool bell_is_rung(const Bell *bell);

/* The descriptor that is readable while it is rung. Nobody else may read from it. */
int bell_fd(const Bell *bell);

#endif
