/* park.h: how the caller of an operation waits: a go block parks; outside any go block the loop runs meanwhile.

   park_begin returns the caller's alt, or raises where it cannot wait. The caller enqueues the alt, puts it to sleep or
   makes it ready. Then park_wait waits until the alt is committed and returns the results. */
#ifndef RUNNEL_PARK_H
#define RUNNEL_PARK_H

#include "channels/alt.h"
#include "channels/chan.h"
#include "core/state.h"

/* The limit of operations without an effect, such as polls, between two turns of the loop; one more is an error. */
enum { PARK_VAIN = 100000 };

/* The slow path of park_begin: outside any go block, or where it raises. */
Alt *park_begin_elsewhere(lua_State *L, Sched *S, const Operation *op);

/* Whether the caller is a go block that can park and was not cancelled. */
static inline bool park_is_usual(lua_State *L, const Sched *S) {
  const Go *go = S->current;
  return LIKELY(go && go->alt.co == L && !S->inside && !(go->alt.flags & (ALT_CALLBACK | ALT_CANCEL))) &&
         LIKELY(lua_isyieldable(L));
}

/* Returns the caller's alt: the running go block's; or the outside one, with L's arguments copied to its mailbox.
   Raises where waiting is impossible; and in a cancelled go block, unless it has got the error and only cleans up. */
static inline Alt *park_begin(lua_State *L, Sched *S, const Operation *op) {
  return park_is_usual(L, S) ? &S->current->alt : park_begin_elsewhere(L, S, op);
}

/* Waits until the alt is committed. Returns the number of results, which are on top of L. A go block yields here, so
   this must be the last call of a C function; when it resumes, it calls `k`, or with NULL returns the results. */
int park_wait(lua_State *L, Sched *S, Alt *alt, const Operation *op, lua_KFunction k);

/* For `k`: checks that the scheduler has resumed the go block, raises its error if there is one, and otherwise returns
   the number of results. A cancelled go block that resumes without results raises; with results it keeps them, so that
   no value is lost, and raises at its next wait. */
int park_resumed(lua_State *L, Alt *alt);

/* The default continuation of an operation: returns its results. */
int park_return(lua_State *L, int status, lua_KContext alt);

/* The slow path of park_on. */
int park_on_unusual(lua_State *L, Chan *ch, int at, const Operation *op, lua_KFunction k);

/* Parks the caller in a single operation on the channel at index `at`; `k` as of park_wait. Inline, because with a
   constant `op` the compiler removes most of the tests. */
static ALWAYS_INLINE int park_on(lua_State *L, Chan *ch, int at, const Operation *op, lua_KFunction k) {
  Sched *S = ch->sched;
  uint32_t kept = op->waiter & WAITER_KEPT ? 0 : CHAN_KEPT;
  bool is_usual = !S->on_park && (ch->flags & (kept | CHAN_SPECIAL)) == kept &&
                  (op->waiter & WAITER_UNCOUNTED || ch->waiting[op->is_put] < CHAN_MAX_PENDING);
  if (UNLIKELY(!is_usual) || !park_is_usual(L, S)) return park_on_unusual(L, ch, at, op, k);
  Alt *alt = &S->current->alt;
  alt_enqueue_single(ch, alt, at, op);
  alt->since = S->world.looked;
  chan_check(ch);
  return lua_yieldk(L, 0, (lua_KContext)alt, k ? k : park_return);
}

/* Lets the other ready go blocks run; then calls `k` as park_wait does, without results. */
int park_yield(lua_State *L, Sched *S, const Operation *op, lua_KFunction k);

#endif
