/* watch.c: see watch.h. */
#include "tracing/watch.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/grow.h"
#include "base/wakeup.h"
#include "core/observe.h"
#include "core/sched_wakeup.h"
#include "core/setup.h"
#include "errors/error.h"

enum { WATCHER = 1 }; /* user value of a Watch: the function that the loop calls, or nil */

static void ask(Watch *watch) {
  atomic_store(&watch->asked, true);
  wakeup_signal(watch->wakeup);
}

/* Notes the turn that ends at `now`. */
static void note_turn(Watch *watch, int64_t now) {
  int64_t turn = watch->turned ? now - watch->turned : 0;
  if (turn > watch->longest) watch->longest = turn;
  if (turn > watch->peak) watch->peak = turn;
  watch->turned = now;
}

/* Calls the watcher if another thread has asked for it. An error of it is dropped, but for Ctrl-C. */
static void poll_watch(lua_State *L, Sched *S) {
  if (!S->world.clock.is_virtual) note_turn(S->watch, S->world.looked);
  if (!atomic_load_explicit(&S->watch->asked, memory_order_relaxed)) return;
  atomic_store(&S->watch->asked, false); /* first: the next call serves a thread that asks during this one */
  if (!lua_checkstack(L, LUA_MINSTACK)) return;
  const char *outer = S->inside;
  S->inside = "the monitor";
  lua_getiuservalue(L, SCHED_SELF, SCHED_WATCH);
  lua_getiuservalue(L, -1, WATCHER);
  lua_replace(L, -2);
  int status = lua_pcall(L, 0, 0, 0);
  S->inside = outer;
  if (status == LUA_OK) return;
  (void)error_defer_interrupt(L);
  lua_pop(L, 1);
}

static void wait_begins(Sched *S) {
  int64_t now = clock_ns();
  if (!S->world.clock.is_virtual) note_turn(S->watch, now);
  atomic_store(&S->watch->waiting, now);
}

static void wait_ends(Sched *S) {
  int64_t since = atomic_exchange(&S->watch->waiting, 0), now = clock_ns();
  if (since) atomic_fetch_add(&S->watch->waited, now - since);
  S->watch->turned = now;
}

static const WatchHook hook = {.poll = poll_watch, .wait_begins = wait_begins, .wait_ends = wait_ends};

/* ---- what runs ---- */

static uint32_t running(Watch *watch, char *name, size_t room) {
  uint64_t runs = watch->runs ? atomic_load_explicit(watch->runs, memory_order_relaxed) : 0;
  uint32_t label = (uint32_t)(runs >> 32);
  pthread_mutex_lock(&watch->mutex);
  bool is_known = label >= TRACE_FIRST && label - TRACE_FIRST < watch->nnames && watch->names[label - TRACE_FIRST];
  const char *known = is_known ? watch->names[label - TRACE_FIRST] : "go block";
  (void)snprintf(name, room, "%s", label == TRACE_MAIN ? "the main program" : runs ? known : "");
  pthread_mutex_unlock(&watch->mutex);
  return (uint32_t)runs;
}

void watch_name(Watch *watch, uint16_t label, const char *name) {
  uint32_t i = label - (uint32_t)TRACE_FIRST;
  pthread_mutex_lock(&watch->mutex);
  if (i >= watch->nnames) {
    size_t n = watch->nnames;
    char **names = (char **)grow((void *)watch->names, &n, i + 1, sizeof *names);
    if (names) {
      memset((void *)(names + watch->nnames), 0, (n - watch->nnames) * sizeof *names);
      watch->names = names;
      watch->nnames = (uint32_t)n;
    }
  }
  size_t size = strlen(name) + 1;
  if (i < watch->nnames && !watch->names[i] && (watch->names[i] = malloc(size))) memcpy(watch->names[i], name, size);
  pthread_mutex_unlock(&watch->mutex);
}

/* ---- its life ---- */

/* __gc of a Watch. Its thread has ended. */
static int finalize(lua_State *L) {
  Watch *watch = (Watch *)lua_touserdata(L, 1);
  if (!watch->ask) return 0;
  watch->ask = NULL;
  if (watch->wakeup) wakeup_release(watch->wakeup);
  for (uint32_t i = 0; i < watch->nnames; i++) free(watch->names[i]);
  free(watch->names);
  pthread_mutex_destroy(&watch->mutex);
  Sched *S = sched_self(L);
  if (S->watch == watch) {
    S->watch = NULL;
    S->watch_hook = NULL;
  }
  return 0;
}

/* Pushes the scheduler's Watch, which is made if there is none. */
static Watch *push_watch(lua_State *L, Sched *S) {
  if (S->watch) {
    lua_getiuservalue(L, SCHED_SELF, SCHED_WATCH);
    return S->watch;
  }
  Watch *watch = (Watch *)lua_newuserdatauv(L, sizeof(Watch), 1);
  *watch = (Watch){.release = WATCH_RELEASE, .running = running};
  setup_push_meta(L, "__gc", finalize);
  lua_setmetatable(L, -2);
  pthread_mutex_init(&watch->mutex, NULL);
  watch->ask = ask;
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_WATCH);
  S->watch = watch;
  S->watch_hook = &hook;
  return watch;
}

/* Ends the Watch, which is on top of L, unless it is still needed. Leaves values on L. */
static void drop_watch(lua_State *L, Sched *S) {
  bool is_needed = S->watch->is_measured || lua_getiuservalue(L, -1, WATCHER) != LUA_TNIL;
  if (!is_needed) {
    S->watch = NULL;
    S->watch_hook = NULL;
    lua_pushnil(L);
    lua_setiuservalue(L, SCHED_SELF, SCHED_WATCH);
  }
}

void watch_begin(lua_State *L, Sched *S, int f) {
  Wakeup *wakeup = sched_wakeup(L, S);
  if (!wakeup) {
    luaL_error(L, "not enough memory"); /* uncovered: only when memory runs out */
  }
  Watch *watch = push_watch(L, S);
  if (lua_getiuservalue(L, -1, WATCHER) != LUA_TNIL) luaL_error(L, "this Lua state is being watched already");
  lua_pop(L, 1);
  if (!watch->wakeup) watch->wakeup = wakeup_hold(wakeup);
  watch->runs = S->tracer ? &S->tracer->running : NULL;
  lua_pushvalue(L, f);
  lua_setiuservalue(L, -2, WATCHER);
}

void watch_end(lua_State *L, Sched *S) {
  if (!S->watch) return;
  int top = lua_gettop(L);
  push_watch(L, S);
  lua_pushnil(L);
  lua_setiuservalue(L, -2, WATCHER);
  drop_watch(L, S);
  lua_settop(L, top);
}

/* How much time has passed, of which the thread has neither computed nor waited in the driver, from any point in time on. */
static int64_t idle_elsewhere(Watch *watch) {
  struct timespec cpu = {0};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  return clock_ns() - cpu.tv_sec * 1000 * CLOCK_MS - cpu.tv_nsec - atomic_load(&watch->waited);
}

void watch_measure(lua_State *L, Sched *S, bool is_on) {
  if (!is_on && !S->watch) return;
  int top = lua_gettop(L);
  Watch *watch = push_watch(L, S);
  watch->is_measured = is_on;
  watch->longest = watch->turned = 0;
  watch->blocked = 0;
  watch->idle = idle_elsewhere(watch);
  drop_watch(L, S);
  lua_settop(L, top);
}

/* idle_elsewhere subtracts twice what the thread computes within the driver, as computing and as waiting, so it can go
   back. The counter adds each growth and leaves out each decrease: it never goes back, and each later block shows. */
int64_t watch_blocked(Watch *watch) {
  int64_t now = idle_elsewhere(watch), passed = now - watch->idle;
  watch->idle = now;
  if (passed > 0) watch->blocked += passed;
  return watch->blocked;
}

int64_t watch_longest(Watch *watch) {
  int64_t longest = watch->longest;
  watch->longest = 0;
  return longest;
}

int64_t watch_peak(Watch *watch) {
  int64_t peak = watch->peak;
  watch->peak = 0;
  return peak;
}
