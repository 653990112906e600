/* sched.c: see sched.h. */
#include "core/sched.h"

#include <lauxlib.h>

#include "core/anchor.h"
#include "core/driver.h"
#include "core/error.h"
#include "core/go.h"
#include "core/inspect.h"
#include "core/keep.h"
#include "core/timeout.h"
#include "core/unhandled.h"

enum {
  MAX_STRIDE = 16,  /* resumes between two looks at the clock */
  FIRST_TIMERS = 16 /* entries of the first timer heap */
};

/* ---- random numbers: xorshift64* ---- */

static uint64_t next_random(World *w) {
  uint64_t x = w->random;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  w->random = x;
  return (x * UINT64_C(2685821657736338717)) >> 32;
}

uint32_t sched_random(Sched *S, uint32_t n) { return (uint32_t)((next_random(&S->world) * n) >> 32); }

void sched_seed(World *w, uint64_t seed) {
  w->random = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
  if (!w->random) w->random = 1;
  for (int i = 0; i < 8; i++) next_random(w);
}

/* ---- the run queue ---- */

static Alt *next_ready(Sched *S) {
  Link *link = S->world.ready.first;
  if (UNLIKELY(S->world.shuffle)) {
    for (uint32_t i = sched_random(S, S->world.nready); i > 0; i--) link = link->next;
  }
  list_remove(&S->world.ready, link);
  S->world.nready--;
  return CONTAINER_OF(link, Alt, own.waiter.link);
}

void sched_bring_back(lua_State *L, Sched *S, Alt *alt) { anchor_bring_back(L, S, sched_go(alt)); }

/* Takes a sleeping or ready alt out of a world's timers or run queue. Returns false when it is of another world. */
static bool leave_world(World *w, Alt *alt) {
  if (alt->state == ALT_SLEEPING) {
    Timer *timer = &alt->own.timer;
    if (timer->place >= w->heap.count || w->heap.entries[timer->place].timer != timer) return false;
    heap_remove(&w->heap, timer);
    return true;
  }
  Link *link = w->ready.first;
  for (uint32_t i = 0; i < w->nready; i++, link = link->next) {
    if (link != &alt->own.waiter.link) continue;
    list_remove(&w->ready, link);
    w->nready--;
    return true;
  }
  return false;
}

void sched_withdraw(Sched *S, Alt *alt) {
  /* One that its channels keep alive, and that was not active any more, may have been dropped from a queue. */
  for (uint32_t i = 0; i < alt->count; i++) {
    if (alt->waiters[i].link.next) chan_leave(&alt->waiters[i]);
  }
  alt->count = 0;
  if (alt->state == ALT_SLEEPING || (alt->state == ALT_READY && alt != &S->outside)) {
    World *w = &S->world;
    while (w && !leave_world(w, alt)) w = w->outer;
  }
  alt->state = ALT_IDLE;
}

/* ---- timers ---- */

void sched_reserve_timer(lua_State *L, Sched *S) {
  Heap *heap = &S->world.heap;
  while (heap->count == heap->capacity) {
    uint32_t capacity = heap->capacity ? heap->capacity * 2 : FIRST_TIMERS;
    HeapEntry *storage = (HeapEntry *)lua_newuserdatauv(L, capacity * sizeof(HeapEntry), 0);
    if (heap->capacity < capacity) { /* else a finalizer was faster */
      heap_move(heap, storage, capacity);
      lua_setiuservalue(L, SCHED_SELF, SCHED_HEAP);
    } else {
      lua_pop(L, 1);
    }
  }
}

void sched_sleep(Sched *S, Alt *alt, int64_t deadline) {
  alt->state = ALT_SLEEPING;
  alt->own.timer = (Timer){.deadline = deadline, .place = HEAP_NOWHERE};
  heap_insert(&S->world.heap, &alt->own.timer);
}

static void fire_due(lua_State *L, Sched *S, int64_t now) {
  Heap *heap = &S->world.heap;
  Timer *timer;
  while ((timer = heap_first(heap)) != NULL && timer->deadline <= now) {
    heap_remove(heap, timer);
    if (timer->is_timeout) timeout_fire(L, timer);
    else sched_wake(S, CONTAINER_OF(timer, Alt, own.timer), 0);
  }
}

/* ---- the loop ---- */

/* Looks at the clock: fires what is due, and polls the driver once a millisecond. Between two looks there are as many
   resumes as fit into a millisecond, as far as the last ones tell; few, so that a change is soon noticed, and yet enough
   that reading the clock costs next to nothing. */
static void look(lua_State *L, Sched *S) {
  World *w = &S->world;
  int64_t now = clock_now(&w->clock), took = now - w->looked;
  w->looked = now;
  if (took > CLOCK_MS) w->stride = 1;
  else if (w->stride < MAX_STRIDE) w->stride *= 2;
  w->left = w->stride;
  driver_check_hook(L);
  fire_due(L, S, now);
  if (UNLIKELY(w->unhandled)) unhandled_report(L, S, now);
  if (now - w->polled >= CLOCK_MS) {
    w->polled = now;
    anchor_tend(L, S);
    driver_wait(L, S, 0);
  }
}

/* Waits for the next deadline, or in the driver; false when there is neither. */
static bool wait(lua_State *L, Sched *S) {
  World *w = &S->world;
  int64_t now = clock_now(&w->clock);
  w->looked = now;
  anchor_tend(L, S);
  driver_check_hook(L);
  fire_due(L, S, now);
  if (UNLIKELY(w->unhandled)) unhandled_report(L, S, now);
  if (S->stop || w->ready.first) return true;
  Timer *first = heap_first(&w->heap);
  if (!first && !driver_alive(L)) {
    bool is_deadlock = S->root || S->outside.state == ALT_PARKED; /* else the program goes on and may take errors */
    if (!w->unhandled || !is_deadlock) return false;
    unhandled_report(L, S, INT64_MAX); /* an error is often the cause of a deadlock; and the handler may end it */
    return true;
  }
  int64_t until = unhandled_deadline(S);
  if (first && first->deadline < until) until = first->deadline;
  driver_wait(L, S, until == INT64_MAX && !first ? -1 : until - now);
  return true;
}

/* Runs go blocks, fires timers, waits in the driver, until somebody stops it (true) or nothing is left to wait for. */
static bool loop(lua_State *L, Sched *S) {
  World *w = &S->world;
  for (;;) {
    while (w->ready.first && !S->stop) {
      go_resume(L, S, next_ready(S));
      if (--w->left == 0) look(L, S); /* counted on from one run of the loop to the next: they may be short */
    }
    if (S->stop) return true;
    if (!wait(L, S)) return false;
  }
}

int64_t sched_next(lua_State *L, Sched *S) {
  if (S->world.ready.first) return 0;
  Timer *first = heap_first(&S->world.heap);
  if (!first && !driver_alive(L)) return -1;
  int64_t until = unhandled_deadline(S);
  if (first && first->deadline < until) until = first->deadline;
  if (until == INT64_MAX && !first) return INT64_MAX;
  int64_t left = until - clock_now(&S->world.clock);
  return left > 0 ? left : 0;
}

/* See sched_step. */
static int64_t step(lua_State *L, Sched *S, lua_Integer max, int64_t ns) {
  World *w = &S->world;
  int64_t now = clock_now(&w->clock), until = clock_after(now, ns);
  w->looked = w->polled = now;
  anchor_tend(L, S);
  fire_due(L, S, now);
  driver_wait(L, S, 0);
  while (w->ready.first && max-- > 0) {
    go_resume(L, S, next_ready(S));
    if (until != INT64_MAX && clock_now(&w->clock) >= until) break;
    if (--w->left == 0) look(L, S);
  }
  if (UNLIKELY(w->unhandled)) unhandled_report(L, S, clock_now(&w->clock));
  return sched_next(L, S);
}

/* The protected part: (max, ns), or nothing. Without arguments the loop: whether it was stopped. With them one step: its
   result. */
static int drive(lua_State *L) {
  Sched *S = sched_self(L);
  if (lua_gettop(L) == 0) lua_pushboolean(L, loop(L, S));
  else lua_pushinteger(L, step(L, S, lua_tointeger(L, 1), lua_tointeger(L, 2)));
  return 1;
}

/* Calls drive with the `n` arguments on top of L, which its result or error replaces. */
static int call_drive(lua_State *L, Sched *S, int n) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_DRIVE);
  lua_insert(L, -n - 1);
  S->running = true;
  S->stop = false;
  int status = lua_pcall(L, n, 1, 0);
  S->running = false;
  S->current = NULL; /* where Lua could not even resume it */
  return status;
}

bool sched_run(lua_State *L, Sched *S, Go *root) {
  S->root = root;
  int status = call_drive(L, S, 0);
  S->root = NULL;
  if (status != LUA_OK) lua_error(L);
  bool stopped = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return stopped;
}

int64_t sched_step(lua_State *L, Sched *S, lua_Integer max, int64_t ns) {
  lua_pushinteger(L, max);
  lua_pushinteger(L, ns);
  if (call_drive(L, S, 2) != LUA_OK) lua_error(L);
  int64_t next = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return next;
}

/* A go block that was ready or asleep when its world ended: one from outside goes on there, others are dropped. */
static void leave_behind(lua_State *L, Sched *S, World *world, Alt *alt) {
  Go *go = sched_go(alt);
  if (go->chan.id < world->first_id) {
    if (alt->state == ALT_SLEEPING) alt->nresults = 0;
    alt->state = ALT_READY;
    list_append(&world->outer->ready, &alt->own.waiter.link);
    world->outer->nready++;
  } else {
    alt->state = ALT_IDLE;
    alt->nresults = 0; /* should somebody resume its coroutine all the same */
    alt->flags &= (uint8_t)~(ALT_RAISE | ALT_CANCEL);
    anchor_pop(L, S, go);
    lua_pop(L, 1);
  }
}

void sched_end_world(lua_State *L, Sched *S) {
  World *world = &S->world;
  world->shuffle = false;
  while (world->ready.first) leave_behind(L, S, world, next_ready(S));
  Timer *timer;
  while ((timer = heap_first(&world->heap)) != NULL) {
    heap_remove(&world->heap, timer);
    if (timer->is_timeout) CONTAINER_OF(timer, Timeout, timer)->chan.flags &= ~(uint32_t)CHAN_TIMEOUT;
    else leave_behind(L, S, world, CONTAINER_OF(timer, Alt, own.timer));
  }
  S->world = *world->outer;
}

/* ---- waiting ---- */

#ifdef RUNNEL_DEBUG
#include <assert.h>
#endif

void sched_check_outside(lua_State *L, Sched *S, const char *what) {
  if (S->inside) luaL_error(L, "%s: cannot be called inside %s", what, S->inside);
  if (!S->current && !S->running) return;
  const char *where = S->current && !(S->current->alt.flags & ALT_CALLBACK) ? "a go block" : "a callback";
  luaL_error(L, "%s: cannot be called inside %s, where the scheduler is running already", what, where);
}

/* Raises that the operation `what` cannot wait where it was called. */
static int cannot_wait(lua_State *L, const char *what, const char *where) {
  lua_pushfstring(L, "%s would have to wait, which is impossible %s: use offer or poll, or put_async or take_async, or do it "
                  "in a go block of its own (rn.go)", what, where);
  return error_raise(L);
}

/* Raises what the running go block was cancelled with. */
static int raise_cancelled(lua_State *L, Go *go) {
  go->alt.flags &= (uint8_t)~ALT_CANCEL;
  anchor_push(L, go);
  int at = lua_gettop(L);
  chan_extra(L, at, EXTRA_CANCEL_2);
  if (lua_isnil(L, -1)) chan_extra(L, at, EXTRA_CANCEL);
  return lua_error(L);
}

Alt *sched_waiter_elsewhere(lua_State *L, Sched *S, const char *what) {
  Go *go = S->current;
  if (S->inside) cannot_wait(L, what, lua_pushfstring(L, "inside %s", S->inside));
  if (go && go->alt.co != L) {
    cannot_wait(L, what, "inside a coroutine of your own within a go block: only the go block itself can park");
  }
  if (S->running && (!go || go->alt.flags & ALT_CALLBACK)) cannot_wait(L, what, "inside a callback");
  if (go && go->alt.flags & ALT_CANCEL && lua_isyieldable(L)) raise_cancelled(L, go);
  if (go) {
    cannot_wait(L, what, "across a C call (a metamethod, table.sort, string.gsub, or another C function that called back)");
  }
  Alt *alt = &S->outside;
  int n = lua_gettop(L);
  lua_settop(alt->co, 0);
  luaL_checkstack(L, n, NULL);
  if (!lua_checkstack(alt->co, n + LUA_MINSTACK)) luaL_error(L, "stack overflow");
  for (int i = 1; i <= n; i++) lua_pushvalue(L, i);
  lua_xmove(L, alt->co, n);
  return alt;
}

/* The rare part of sched_resumed: raises, unless it is for another time. */
static void raise_what_is_to_be(lua_State *L, Alt *alt) {
  if (alt->flags & ALT_RAISE) {
    alt->flags &= (uint8_t)~ALT_RAISE;
    lua_error(L);
  }
  if (alt->nresults == 0) raise_cancelled(L, sched_go(alt));
}

int sched_resumed(lua_State *L, Alt *alt) {
  if (UNLIKELY(alt->state != ALT_IDLE)) {
    return go_kill(L, sched_go(alt));
  }
  alt->flags &= (uint8_t)~(ALT_SELECT | ALT_INDEX | ALT_LOOP);
  if (UNLIKELY(alt->flags & (ALT_RAISE | ALT_CANCEL))) raise_what_is_to_be(L, alt);
  return alt->nresults;
}

static int resumed(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  return sched_resumed(L, (Alt *)alt);
}

/* Waits outside any go block, by running the loop. */
static int wait_outside(lua_State *L, Sched *S, Alt *alt, const char *what) {
  int status = call_drive(L, S, 0);
  uint8_t flags = alt->flags;
  if (status == LUA_OK && alt->state != ALT_READY) inspect_push_waiting(L, alt, what);
  alt->flags = ALT_BARE;
  if (alt->state != ALT_READY) {
    sched_withdraw(S, alt);
    if (status != LUA_OK) return lua_error(L);
    return inspect_raise_deadlock(L, what);
  }
  alt->state = ALT_IDLE;
  if (status != LUA_OK) {
    /* It has completed, and then something else failed: nothing must be lost of either. */
    lua_pushnil(L);
    lua_pushnil(L); /* nobody's: the scheduler's own */
    error_report(L);
  }
  luaL_checkstack(L, alt->nresults, NULL);
  lua_xmove(alt->co, L, alt->nresults);
  if (flags & ALT_RAISE) return lua_error(L);
  return alt->nresults;
}

int sched_wait(lua_State *L, Sched *S, Alt *alt, const char *what, lua_KFunction k) {
#ifdef RUNNEL_DEBUG
  for (uint32_t i = 0; i < alt->count; i++) chan_check(alt->waiters[i].chan);
  assert(!(alt->flags & ALT_CANCEL));
#endif
  if (UNLIKELY(S->kept.size >= S->kept.limit)) keep_trim_grown(L, S, alt->count);
  if (UNLIKELY(alt == &S->outside)) return wait_outside(L, S, alt, what);
  alt->since = S->world.looked;
  return lua_yieldk(L, 0, (lua_KContext)alt, k ? k : resumed);
}

/* ---- set-up ---- */

void sched_open(lua_State *L, uint64_t seed) {
  Sched *S = sched_self(L);
  *S = (Sched){.world = {.stride = 1, .left = 1}, .next_id = 1};
  S->world.random = seed ? seed : 1;
  S->outside.flags = ALT_BARE;
  go_open(L);
  S->outside.co = lua_newthread(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_MAILBOX);
  lua_newtable(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_TIMEOUTS);
  for (int pool = 0; pool < SCHED_POOLS; pool++) {
    lua_createtable(L, SCHED_POOL_BLOCKS, 0); /* all at once: to give a block back must not allocate */
    lua_setiuservalue(L, SCHED_SELF, SCHED_POOL + pool);
  }
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_setiuservalue(L, SCHED_SELF, SCHED_EXTRAS);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, drive, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_DRIVE);
  error_open(L);
  inspect_set_up(L);
  keep_open(L);
  anchor_open(L);
}
