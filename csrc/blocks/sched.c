/* sched.c: see sched.h. */
#include "blocks/sched.h"

#include <lauxlib.h>

#include "base/wakeup.h"
#include "blocks/driver.h"
#include "blocks/go.h"
#include "blocks/go_close.h"
#include "blocks/timer.h"
#include "channels/alt.h"
#include "core/observe.h"
#include "core/setup.h"
#include "core/sim_rules.h"
#include "errors/error.h"
#include "errors/inspect.h"
#include "errors/unhandled.h"
#include "lifetimes/keep.h"
#include "lifetimes/root.h"
#include "states/family.h"
#include "states/interruption.h"
#include "states/shared_inbox.h"

enum { MAX_STRIDE = 16 }; /* the most resumes between two looks at the clock */

/* ---- the loop ---- */

/* Removes the next alt from the run queue: the first, unless a simulation chooses. */
static inline Alt *next_ready(lua_State *L, Sched *S) {
  Link *link = UNLIKELY(S->world.rules != NULL) ? S->world.rules->next(L, S) : S->world.ready.first;
  list_remove(&S->world.ready, link);
  S->world.nready--;
  return CONTAINER_OF(link, Alt, own.waiter.link);
}

/* Does what is due at `now`: the debug hook, results from other threads, timers, reports, and the call for a watch. */
static void do_due(lua_State *L, Sched *S, int64_t now) {
  S->world.looked = now;
  S->vain = 0;
  S->actor = 0;
  shared_wait_looked(S, now);
  driver_check_hook(L, S);
  shared_inbox_poll(L, S);
  timer_fire_due(L, S, now);
  if (UNLIKELY(S->world.unhandled)) unhandled_report(L, S, now);
  if (UNLIKELY(S->watch_hook != NULL)) S->watch_hook->poll(L, S);
}

/* Polls the driver, unless it was polled within this millisecond. */
static void poll(lua_State *L, Sched *S, int64_t now) {
  if (now - S->world.polled < CLOCK_MS) return;
  S->world.polled = now;
  root_maintain(L, S);
  driver_run_tasks(S);
  driver_wait(L, S, 0);
}

/* Looks at the clock: does what is due, and polls the driver once a millisecond. The next look comes after as many
   resumes as fit into a millisecond, judged by the last ones, but at most MAX_STRIDE: soon enough to notice go blocks
   that begin to run longer, and seldom enough that reading the clock costs next to nothing. A simulation looks after
   each resume: a search must find the order in which a timer of 0 ms fires before the next go block runs. */
static void check_clock(lua_State *L, Sched *S) {
  World *w = &S->world;
  int64_t now = clock_now(&w->clock), took = now - w->looked;
  if (took > CLOCK_MS) w->stride = 1;
  else if (w->stride < MAX_STRIDE && !w->clock.is_virtual) w->stride *= 2;
  w->left = w->stride;
  do_due(L, S, now);
  poll(L, S, now);
}

/* How long another thread may be silent until all timers are looked at, of which there may be many: whether they are
   timeouts on which nothing waits, so that only other threads can go on. */
static const int64_t SILENCE = 100 * CLOCK_MS;

/* Waits in the driver, or at the inbox, until another thread has news, or for at most `ns` unless negative. */
static void wait_for_others(lua_State *L, Sched *S, int64_t ns) {
  Sharing *sharing = S->sharing;
  if (shared_wait_spin(S, ns) || !shared_wait_sleep(S)) return;
  bool is_last = ns < 0, may_be_last = !is_last && !S->world.unhandled && !timer_wakes(&S->world.heap, 0);
  if (UNLIKELY(may_be_last) && sharing->is_quiet) is_last = !timer_can_wake(&S->world);
  else if (UNLIKELY(may_be_last) && ns > SILENCE) ns = SILENCE;
  /* Asks driver_alive after shared_wait_sleep: a state that drops the last other hold wakes only one that sleeps. */
  if (is_last && !driver_alive(L)) return;
  is_last = is_last && sharing->member && !driver_has_ports(S) && !driver_has_events(L);
  if (UNLIKELY(is_last)) {
    int64_t most = family_wait_begins(sharing);
    if (most >= 0 && (ns < 0 || most < ns)) ns = most;
  }
  driver_wait(L, S, ns);
  bool is_over = S->stop || S->world.ready.first || shared_wait_has_news(S);
  sharing->is_quiet = !is_over;
  if (UNLIKELY(is_last)) S->is_stuck = family_wait_ends(sharing, is_over);
  shared_wait_looked(S, clock_now(&S->world.clock));
}

/* Nothing is ready: waits for at most `ns`, unless negative. */
static void idle(lua_State *L, Sched *S, int64_t ns) {
  OBSERVE(S, idle, S);
  driver_run_tasks(S);
  if (UNLIKELY(S->watch_hook != NULL)) S->watch_hook->wait_begins(S);
  if (UNLIKELY(S->sharing) && !S->world.clock.is_virtual) wait_for_others(L, S, ns);
  else driver_wait(L, S, ns);
  if (UNLIKELY(S->watch_hook != NULL)) S->watch_hook->wait_ends(S);
  OBSERVE(S, awake, S);
  shared_wait_awake(S);
  shared_inbox_poll(L, S);
}

/* When the first timer, or the report of an error, is due; INT64_MAX: never. */
static int64_t next_deadline(const Sched *S) {
  const Timer *first = heap_first(&S->world.heap);
  int64_t until = unhandled_deadline(S);
  return first && first->deadline < until ? first->deadline : until;
}

/* Whether nothing can come any more: no timer that has an effect, and no event, unless `is_stuck`. In most programs the
   first timer has an effect, so that the driver is not asked. */
static bool is_idle(lua_State *L, Sched *S, bool is_stuck) {
  World *w = &S->world;
  if (w->heap.count && timer_wakes(&w->heap, 0)) return false;
  return (is_stuck || !driver_alive(L)) && !timer_can_wake(w);
}

/* Waits for the next deadline, or in the driver; returns false if there is nothing to wait for. */
static bool wait(lua_State *L, Sched *S) {
  World *w = &S->world;
  int64_t now = clock_now(&w->clock);
  bool is_stuck = S->is_stuck;
  S->is_stuck = false;
  root_maintain(L, S);
  do_due(L, S, now);
  if (S->stop) poll(L, S, now); /* the main program may sleep for 0 ms again and again: no resume counts that */
  if (S->stop || w->ready.first) return true;
  if (is_idle(L, S, is_stuck)) {
    /* Without a deadlock the program continues and may take the errors. */
    bool is_deadlock = S->awaited || S->outside.state == ALT_PARKED;
    S->is_stuck = is_stuck; /* for the message */
    if (!w->unhandled || !is_deadlock) return false;
    unhandled_report(L, S, INT64_MAX); /* an error is often the cause of a deadlock, and its handler may end it */
    return true;
  }
  int64_t until = next_deadline(S);
  idle(L, S, until == INT64_MAX && !w->heap.count ? -1 : until - now);
  return true;
}

/* Runs go blocks, fires timers and waits until S->stop is set (true) or there is nothing to wait for (false). */
static bool loop(lua_State *L, Sched *S) {
  World *w = &S->world;
  for (;;) {
    while (w->ready.first && !S->stop) {
      go_resume(L, S, next_ready(L, S));
      if (--w->left == 0) check_clock(L, S); /* the next run of the loop continues to count: runs may be short */
    }
    if (S->stop) return true;
    if (!wait(L, S)) return false;
  }
}

int64_t sched_next(lua_State *L, Sched *S) {
  if (S->world.ready.first || shared_wait_has_news(S)) return 0;
  if (is_idle(L, S, false)) return -1;
  int64_t until = next_deadline(S);
  if (until == INT64_MAX && !S->world.heap.count) return INT64_MAX;
  int64_t left = until - clock_now(&S->world.clock);
  return left > 0 ? left : 0;
}

/* See sched_step. */
static int64_t step(lua_State *L, Sched *S, lua_Integer max, int64_t ns) {
  World *w = &S->world;
  int64_t now = clock_now(&w->clock), until = clock_after(now, ns);
  w->polled = now;
  root_maintain(L, S);
  do_due(L, S, now);
  driver_wait(L, S, 0);
  while (w->ready.first && max-- > 0) {
    go_resume(L, S, next_ready(L, S));
    if (until != INT64_MAX && clock_now(&w->clock) >= until) break;
    if (--w->left == 0) check_clock(L, S);
  }
  if (UNLIKELY(w->unhandled)) unhandled_report(L, S, clock_now(&w->clock));
  return sched_next(L, S);
}

/* Protected: () runs the loop -> whether it was stopped; or (max, ns) -> what step returns. */
static int run_protected(lua_State *L) {
  Sched *S = sched_self(L);
  if (lua_gettop(L) == 0) lua_pushboolean(L, loop(L, S));
  else lua_pushinteger(L, step(L, S, lua_tointeger(L, 1), lua_tointeger(L, 2)));
  return 1;
}

/* Calls run_protected with the `n` arguments on top of L, which its result or error replaces. Returns the status. */
static int call_protected(lua_State *L, Sched *S, int n) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_RUN);
  lua_insert(L, -n - 1);
  S->running = true;
  S->stop = false;
  /* Only now, since it may run finalizers and the function of a tap: these must not wait, and may complete the
     operation that the main program waits for. */
  OBSERVE(S, main_leaves, L, S);
  shared_wait_awake(S);
  S->is_stuck = false;
  if (UNLIKELY(S->sharing)) shared_wait_looked(S, clock_now(&S->world.clock));
  if (S->interruption) interruption_begins(S->interruption);
  int status = lua_pcall(L, n, 1, 0);
  if (S->interruption) interruption_ends(S->interruption);
  S->running = false;
  if (UNLIKELY(S->sharing)) shared_wait_busy(S->sharing); /* the driver may have raised an error */
  if (!S->world.ready.first)
    driver_run_tasks(S); /* with ready go blocks, the main program may soon run the loop again */
  /* A program with its own loop may wait for the wakeup from here on. An error has not told it when to step again. */
  if (UNLIKELY(!shared_wait_sleep(S) || (status != LUA_OK && S->wakeup))) wakeup_signal(S->wakeup);
  S->current = NULL; /* if Lua could not even resume it */
  S->actor = 0;
  OBSERVE(S, main_runs, L, S);
  return status;
}

int sched_call_loop(lua_State *L, Sched *S) { return call_protected(L, S, 0); }

bool sched_run(lua_State *L, Sched *S, Go *awaited) {
  S->awaited = awaited;
  int status = sched_call_loop(L, S);
  S->awaited = NULL;
  if (status != LUA_OK) lua_error(L);
  bool stopped = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return stopped;
}

int sched_run_function(lua_State *L, Sched *S, int nargs, const char *what) {
  int at = lua_gettop(L) - nargs;
  Go *go = go_spawn(L, S, nargs);
  lua_State *co = go->alt.co;
  lua_getiuservalue(L, at, GO_COROUTINE); /* keeps it alive: it gets the results */
  bool ended = sched_run(L, S, go);
  const SimRules *rules = S->world.rules;
  while (!ended && rules && rules->raise_deadlock(L, S, go, at)) ended = sched_run(L, S, go);
  if (!ended) {
    lua_pushnil(L);
    return inspect_raise_deadlock(L, what);
  }
  if (go->alt.flags & ALT_RAISE) {
    lua_xmove(S->outside.co, L, 1);
    return lua_error(L);
  }
  int n = lua_gettop(co) - 1; /* below the results is the guard */
  luaL_checkstack(L, n, NULL);
  lua_xmove(co, L, n);
  go_close_finish(S, go, co);
  return n;
}

int64_t sched_step(lua_State *L, Sched *S, lua_Integer max, int64_t ns) {
  lua_pushinteger(L, max);
  lua_pushinteger(L, ns);
  if (call_protected(L, S, 2) != LUA_OK) lua_error(L);
  int64_t next = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return next;
}

void sched_check_outside(lua_State *L, Sched *S, const char *what) {
  if (S->inside) luaL_error(L, "%s: cannot be called inside %s", what, S->inside);
  if (!S->current && !S->running) return;
  const char *where = S->current && !(S->current->alt.flags & ALT_CALLBACK) ? "a go block" : "a callback";
  luaL_error(L, "%s: cannot be called inside %s, where the scheduler is already running", what, where);
}

/* ---- set-up ---- */

void sched_open(lua_State *L, uint64_t seed) {
  Sched *S = sched_self(L);
  *S = (Sched){.world = {.stride = 1, .left = 1, .looked = clock_ns()}, .next_id = 1};
  S->world.random = seed | 1; /* it must not be 0 */
  S->outside.flags = ALT_BARE;
  go_open(L);
  S->outside.co = lua_newthread(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_MAILBOX);
  setup_keep_table(L, SCHED_TIMEOUTS);
  for (int pool = 0; pool < SCHED_POOLS; pool++) {
    lua_createtable(L, SCHED_POOL_BLOCKS, 0); /* full size: releasing a block must not allocate */
    lua_setiuservalue(L, SCHED_SELF, SCHED_POOL + pool);
  }
  setup_push_weak(L, "k");
  lua_setiuservalue(L, SCHED_SELF, SCHED_ATTRS);
  setup_keep_function(L, SCHED_RUN, run_protected);
  error_open(L);
  keep_open(L);
  root_open(L);
}
