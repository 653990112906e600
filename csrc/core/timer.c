/* timer.c: see timer.h.

   Deadlines are sorted into windows of 10 ms. A pending timeout that serves a request for t is in the window of t or in
   the next one: of the first it is enough to know the latest, of the next the earliest. SCHED_TIMEOUTS has the latest
   timeout of window w at 2w, and the earliest at 2w + 1 if that is another one. Within a window a new timeout is always
   the latest (else the latest would have served the request); it keeps its predecessor alive by a user value. */
#include "core/timer.h"

#include "core/alt.h"
#include "core/chan.h"

enum { FIRST_TIMERS = 16 }; /* entries of the first heap */

/* ---- the heap ---- */

void timer_reserve(lua_State *L, Sched *S) {
  Heap *heap = &S->world.heap;
  while (heap->count == heap->capacity) {
    uint32_t capacity = heap->capacity ? heap->capacity * 2 : FIRST_TIMERS;
    HeapEntry *storage = (HeapEntry *)lua_newuserdatauv(L, capacity * sizeof(HeapEntry), 0);
    if (heap->capacity < capacity) { /* else a finalizer has grown it meanwhile */
      heap_move(heap, storage, capacity);
      lua_setiuservalue(L, SCHED_SELF, SCHED_HEAP);
    } else {
      lua_pop(L, 1);
    }
  }
}

void timer_sleep(Sched *S, Alt *alt, int64_t deadline) {
  alt->state = ALT_SLEEPING;
  alt->own.timer = (Timer){.deadline = deadline, .place = HEAP_NOWHERE};
  heap_insert(&S->world.heap, &alt->own.timer);
}

/* ---- timeouts ---- */

/* User value of a timeout. */
enum { PREDECESSOR = CHAN_ATTRS + 1 };

static const int64_t WINDOW = 10 * CLOCK_MS;

static lua_Integer window_of(int64_t deadline) { return (lua_Integer)(deadline / WINDOW); }

/* Pushes the timeout at a key of the table, or nil. */
static Timeout *look_up(lua_State *L, int table, lua_Integer key) {
  lua_rawgeti(L, table, key);
  return (Timeout *)lua_touserdata(L, -1);
}

/* Pushes a pending timeout that serves the deadline and returns true, or pushes nothing. */
static bool push_shared(lua_State *L, int table, int64_t deadline) {
  lua_Integer key = 2 * window_of(deadline);
  Timeout *latest = look_up(L, table, key);
  if (latest && latest->timer.deadline >= deadline) return true;
  lua_pop(L, 1);
  Timeout *earliest = look_up(L, table, key + 3);
  if (!earliest) {
    lua_pop(L, 1);
    earliest = look_up(L, table, key + 2);
  }
  if (earliest && earliest->timer.deadline - deadline < WINDOW) return true;
  lua_pop(L, 1);
  return false;
}

/* Adds the timeout on top of the stack, which becomes the latest of its window, to the table. May raise. */
static void enter(lua_State *L, int table, lua_Integer key) {
  int at = lua_gettop(L);
  if (look_up(L, table, key)) {
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, at, PREDECESSOR);
    /* The first of the window is its earliest: it gets the other key once there is a second one. */
    if (!look_up(L, table, key + 1)) {
      lua_pushvalue(L, at + 1);
      lua_rawseti(L, table, key + 1);
    }
  }
  lua_pushvalue(L, at);
  lua_rawseti(L, table, key);
  lua_settop(L, at);
}

void timer_push_timeout(lua_State *L, Sched *S, int64_t ns) {
  int64_t grain = clock_grain(&S->world.clock), now = clock_now(&S->world.clock);
  int64_t deadline = clock_after((now + grain - 1) / grain * grain, ns);
  lua_getiuservalue(L, SCHED_SELF, SCHED_TIMEOUTS);
  int table = lua_gettop(L);
  if (!push_shared(L, table, deadline)) {
    Timeout *t = (Timeout *)chan_new(L, S, sizeof(Timeout), PREDECESSOR);
    t->timer = (Timer){.deadline = deadline, .place = HEAP_NOWHERE, .is_timeout = true};
    timer_reserve(L, S);
    if (!push_shared(L, table, deadline)) { /* else a finalizer has made one meanwhile */
      enter(L, table, 2 * window_of(deadline));
      t->chan.flags |= CHAN_TIMEOUT;
      heap_insert(&S->world.heap, &t->timer);
    }
  }
  lua_replace(L, table);
  lua_settop(L, table);
}

/* Closes the timeout whose timer is due and has left the heap. */
static void fire_timeout(lua_State *L, Timer *timer) {
  Timeout *t = CONTAINER_OF(timer, Timeout, timer);
  lua_Integer key = 2 * window_of(timer->deadline);
  lua_getiuservalue(L, SCHED_SELF, SCHED_TIMEOUTS);
  int table = lua_gettop(L);
  /* The table may be all that keeps the channel alive: it stays on the stack until it is closed. */
  for (int i = 0; i < 2; i++) {
    lua_rawgeti(L, table, key + i);
    if (lua_touserdata(L, -1) == t) {
      lua_pushnil(L);
      lua_rawseti(L, table, key + i);
    }
  }
  chan_close(L, &t->chan, 0, 0);
  t->chan.flags &= ~(uint32_t)CHAN_TIMEOUT;
  lua_settop(L, table - 1);
}

/* ---- due timers ---- */

void timer_fire_due(lua_State *L, Sched *S, int64_t now) {
  Heap *heap = &S->world.heap;
  Timer *timer;
  while ((timer = heap_first(heap)) != NULL && timer->deadline <= now) {
    heap_remove(heap, timer);
    if (timer->is_timeout) fire_timeout(L, timer);
    else alt_wake(S, CONTAINER_OF(timer, Alt, own.timer), 0);
  }
}
