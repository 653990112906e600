/* shared_ops.h: operations on shared channels, by their handles (shared_handle.h). An alt that has to wait is
   described in shared_wait.h. */
#ifndef RUNNEL_SHARED_OPS_H
#define RUNNEL_SHARED_OPS_H

#include "states/shared_handle.h"

/* chan_take for a handle. `in_loop`: a for loop drops the error of the close, which then does not count as taken. */
int shared_ops_take(lua_State *L, Chan *ch, int at, bool in_loop);

/* Gives it a name in all states that get it from now on. */
void shared_ops_set_name(lua_State *L, const Chan *ch, const char *name);

/* ---- waiting ---- */

/* Begins an operation over `n` channels, which shared_ops_add adds. May raise. */
SharedWait *shared_ops_begin(lua_State *L, Sched *S, uint32_t n);

/* Adds the operation on the handle at index `at` of L; the value of a put is at the next index. In the alt's coroutine
   the handle is at index `alt_at`. If this raises, it frees `wait` first. */
void shared_ops_add(lua_State *L, SharedWait *wait, int at, int alt_at, bool is_put, const Operation *op);

/* Of operations that wait on the same shared channel, the first completes: makes each of them the first with the same
   probability. A search chooses, and only where that makes a difference. `by_index`: the results name the operation,
   and not only its channel. (draw_firsts of alts.c does the same for channels of one state.) */
void shared_ops_draw(Sched *S, SharedWait *wait, bool by_index);

/* Does one of the operations if that can be done at once. Pushes the results of an operation with these flags
   (ALT_SELECT, ALT_INDEX) and returns how many they are. If none can be done, returns 0, and `alt` waits on all of
   them; the caller enqueues it on the handles. `wait` is freed in all cases but that one. Raises if a
   channel has no room for one more waiter, or the value cannot be unpacked. */
int shared_ops_do(lua_State *L, Sched *S, SharedWait *wait, Alt *alt, uint8_t flags);

#endif
