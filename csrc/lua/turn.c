/* lua/turn.c: see lua/turn.h. */
#include "lua/turn.h"

#include <lauxlib.h>

#include "blocks/driver.h"
#include "blocks/sched.h"
#include "errors/error.h"
#include "errors/origin.h"
#include "sim/busy.h"

/* Whether the caller runs outside the loop, so that it can run it. Not in a finalizer, during which the collector is
   stopped: the state may be closing. */
static bool is_outside(lua_State *L, const Sched *S) {
  return !S->current && !S->running && !S->inside && lua_gc(L, LUA_GCISRUNNING) == 1;
}

/* Whether the caller is a go block that can park, cancelled or not. */
static bool can_park(lua_State *L, const Sched *S) {
  const Go *go = S->current;
  return go && go->alt.co == L && !S->inside && !(go->alt.flags & ALT_CALLBACK) && lua_isyieldable(L);
}

/* Whether something else in this scheduler can run now or later, without looking at the driver. */
static bool has_others(const Sched *S) { return S->world.ready.first || S->world.heap.count; }

/* After a turn: (..., operations in vain so far). Lua has no other way to the function that runs. */
static int again(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  (void)park_resumed(L, (Alt *)alt);
  sched_self(L)->vain = (uint32_t)lua_tointeger(L, -1);
  lua_Debug running;
  lua_getstack(L, 0, &running);
  lua_getinfo(L, "f", &running);
  lua_CFunction f = lua_tocfunction(L, -1);
  lua_pop(L, 2);
  return f(L);
}

/* Outside any go block: runs the go blocks that are ready now. */
static void run_others(lua_State *L, Sched *S) {
  uint32_t vain = has_others(S) ? 0 : S->vain;
  sched_step(L, S, S->world.nready, INT64_MAX);
  S->moves = 0;
  S->vain = vain;
}

/* Whether a function of the library calls the running C function, for an operation that it may rely on not to wait: on
   any but an alts. */
static bool is_of_library(lua_State *L, const Operation *op) {
  lua_Debug ar;
  if (op->flags & ALT_SELECT) return false;
  for (int level = 1; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "S", &ar);
    if (ar.what[0] != 'C') return origin_is_library(L, &ar);
  }
  return false;
}

void turn_have(lua_State *L, Sched *S, const Chan *ch, const Operation *op) {
  if (is_of_library(L, op)) return;
  if (is_outside(L, S)) run_others(L, S);
  if (!can_park(L, S)) return;
  const Go *go = S->current;
  Alt *alt = &S->current->alt;
  bool is_told = go->chan.flags & CHAN_TOLD;
  bool has_no_effect = ch && (chan_is_closed(ch) || ch->buf.kind == BUFFER_PROMISE);
  if (has_no_effect && alt->flags & ALT_CANCEL && !is_told) (void)park_begin(L, S, op);
  /* What has come to nothing counts on if nothing else runs meanwhile, or the go block only goes on because it catches
     its cancellation. */
  lua_pushinteger(L, has_others(S) && !is_told ? 0 : (lua_Integer)S->vain);
  alt->nresults = 1; /* that number: so a go block that is cancelled meanwhile goes on, and its next wait raises */
  busy_add(S, TURN);
  alt_make_ready(S, alt);
  S->world.turned = &alt->own.waiter.link;
  (void)park_wait(L, S, alt, op, again);
}

bool turn_between(lua_State *L, Sched *S) {
  if (is_outside(L, S)) run_others(L, S);
  return park_is_usual(L, S);
}

void turn_in_vain(lua_State *L, Sched *S, const Operation *op, const char *cure) {
  if (LIKELY(++S->vain < PARK_VAIN)) return;
  S->vain = 0;
  if (!is_outside(L, S) && !can_park(L, S)) {
    lua_pushfstring(L,
                    "%s: it has come to nothing %d times, and meanwhile no other go block could run: %s, or call "
                    "rn.yield() in the loop",
                    op->name, PARK_VAIN, cure);
  } else if (has_others(S) || driver_alive(L)) {
    return;
  } else {
    lua_pushfstring(L,
                    "%s: it has come to nothing %d times, and nothing will change that: no other go block is ready, no "
                    "timer is pending, and the driver expects no event; %s",
                    op->name, PARK_VAIN, cure);
  }
  error_raise(L);
}
