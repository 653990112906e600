/* delayed.c: see delayed.h. */
#include "timers/delayed.h"

#include <lauxlib.h>
#include <stdlib.h>

#include "blocks/go.h"
#include "blocks/timer.h"
#include "channels/chan.h"
#include "core/setup.h"
#include "errors/error.h"

Delayed *delayed_new(lua_State *L, const Sched *S, int nargs, int meta) {
  Delayed *delayed = (Delayed *)lua_newuserdatauv(L, sizeof *delayed, DELAYED_FUNCTION + nargs);
  *delayed = (Delayed){.timer = {.place = HEAP_NOWHERE, .is_call = true}, .ref = LUA_NOREF};
  if (S->current) {
    delayed->origin = S->current->origin;
    delayed->host = S->current->host;
  }
  lua_pushvalue(L, meta);
  lua_setmetatable(L, -2);
  lua_insert(L, -nargs - 2);
  for (int i = nargs; i >= 0; i--) lua_setiuservalue(L, -i - 2, DELAYED_FUNCTION + i);
  return delayed;
}

/* The world in whose heap the timer is, which is pending. */
static World *world_of(Sched *S, const Delayed *delayed) {
  World *w = &S->world;
  uint32_t place = delayed->timer.place;
  while (place >= w->heap.count || heap_timer(w->heap.entries[place]) != &delayed->timer) w = w->outer;
  return w;
}

/* Adds it to the heap of a world, which has room. */
static void insert(World *w, Delayed *delayed, int64_t ns) {
  delayed->timer.deadline = clock_due(&w->clock, ns);
  heap_insert(&w->heap, &delayed->timer);
}

bool delayed_start(lua_State *L, Sched *S, int at, int64_t ns) {
  Delayed *delayed = (Delayed *)lua_touserdata(L, at);
  bool was_pending = delayed->ref != LUA_NOREF;
  if (!was_pending) timer_reserve(L, S); /* may run finalizers, which may start it */
  if (delayed->ref != LUA_NOREF) {
    World *w = world_of(S, delayed);
    heap_remove(&w->heap, &delayed->timer);
    insert(w, delayed, ns);
    return was_pending;
  }
  lua_pushvalue(L, at);
  lua_getiuservalue(L, SCHED_SELF, SCHED_DELAYED);
  lua_insert(L, -2);
  delayed->ref = luaL_ref(L, -2);
  lua_pop(L, 1);
  insert(&S->world, delayed, ns);
  return false;
}

/* It is not pending any more: SCHED_DELAYED need not keep it alive. */
static void release(lua_State *L, Delayed *delayed) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_DELAYED);
  luaL_unref(L, -1, delayed->ref);
  lua_pop(L, 1);
  delayed->ref = LUA_NOREF;
}

bool delayed_stop(lua_State *L, Sched *S, Delayed *delayed) {
  if (delayed->ref == LUA_NOREF) return false;
  heap_remove(&world_of(S, delayed)->heap, &delayed->timer);
  release(L, delayed);
  return true;
}

void delayed_forget(lua_State *L, Timer *timer) { release(L, CONTAINER_OF(timer, Delayed, timer)); }

/* ---- the call ---- */

/* Protected: (timer): starts the go block. */
static int start_block(lua_State *L) {
  const Delayed *delayed = (const Delayed *)lua_touserdata(L, 1);
  int n = 0;
  while (lua_getiuservalue(L, 1, DELAYED_FUNCTION + n) != LUA_TNONE) {
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    n++;
  }
  lua_pop(L, 1);
  Go *go = go_spawn(L, sched_self(L), n - 1);
  go->origin = delayed->origin;
  go->host = delayed->host;
  return 0;
}

/* Sched.call: its timer is due, and has left the heap. */
static void call(lua_State *L, Timer *timer) {
  Delayed *delayed = CONTAINER_OF(timer, Delayed, timer);
  int top = lua_gettop(L);
  lua_getiuservalue(L, SCHED_SELF, SCHED_CALL);
  lua_getiuservalue(L, SCHED_SELF, SCHED_DELAYED);
  lua_rawgeti(L, -1, delayed->ref);
  lua_remove(L, -2);
  release(L, delayed);
  lua_getiuservalue(L, -1, DELAYED_FUNCTION);
  Chan *ch = chan_to(L, top + 3);
  if (ch) chan_close(L, ch, top + 3, 0);
  lua_pop(L, 1);
  if (!ch && lua_pcall(L, 1, 0, 0) != LUA_OK) { /* without memory: nobody else would tell of it */
    lua_pushnil(L);                             /* uncovered: only when memory runs out */
    lua_pushnil(L);
    error_report(L);
  }
  lua_settop(L, top);
}

/* ---- all of them ---- */

/* The timer of entry i of a heap, if it is that of a call; or NULL. */
static Delayed *delayed_at(const Heap *heap, uint32_t i) {
  Timer *timer = heap->entries[i].timer & 1 ? NULL : heap_timer(heap->entries[i]);
  return timer && timer->is_call ? CONTAINER_OF(timer, Delayed, timer) : NULL;
}

void delayed_crash(lua_State *L, Sched *S, uint32_t host) {
  const Heap *heap = &S->world.heap;
  bool found = true;
  while (found) { /* again, since removing one moves others */
    found = false;
    for (uint32_t i = heap->count; i-- > 0;) {
      Delayed *delayed = delayed_at(heap, i);
      if (delayed && delayed->host == host) found = delayed_stop(L, S, delayed);
    }
  }
}

bool delayed_is_any(const Sched *S) {
  bool is_any = false;
  for (uint32_t i = 0; i < S->world.heap.count && !is_any; i++) is_any = delayed_at(&S->world.heap, i) != NULL;
  return is_any;
}

/* A timer in a list of them. */
typedef struct Listed {
  int64_t deadline; /* when it is due */
  uint64_t seq;     /* order of insertion, for equal deadlines */
  int ref;          /* in SCHED_DELAYED */
} Listed;

static int by_deadline(const void *a, const void *b) {
  const Listed *x = (const Listed *)a, *y = (const Listed *)b;
  if (x->deadline != y->deadline) return x->deadline < y->deadline ? -1 : 1;
  return (x->seq > y->seq) - (x->seq < y->seq);
}

void delayed_push_list(lua_State *L, const Sched *S) {
  const Heap *heap = &S->world.heap;
  uint32_t room = heap->count, n = 0;
  Listed *list = (Listed *)lua_newuserdatauv(L, (room + (size_t)1) * sizeof *list, 0);
  lua_createtable(L, (int)room, 0);
  lua_getiuservalue(L, SCHED_SELF, SCHED_DELAYED);
  for (uint32_t i = 0; i < heap->count && n < room;
       i++) { /* a finalizer may have changed the heap, but none runs now */
    const Delayed *delayed = delayed_at(heap, i);
    if (delayed) list[n++] = (Listed){delayed->timer.deadline, delayed->timer.seq, delayed->ref};
  }
  qsort(list, n, sizeof *list, by_deadline);
  for (uint32_t i = 0; i < n; i++) {
    lua_rawgeti(L, -1, list[i].ref);
    lua_rawseti(L, -3, (lua_Integer)i + 1);
  }
  lua_pop(L, 1);
  lua_remove(L, -2);
}

int64_t delayed_left(Sched *S, const Delayed *delayed) {
  if (delayed->ref == LUA_NOREF) return -1;
  int64_t left = delayed->timer.deadline - clock_now(&world_of(S, delayed)->clock);
  return left > 0 ? left : 0;
}

void delayed_open(lua_State *L) {
  sched_self(L)->call = call;
  setup_keep_table(L, SCHED_DELAYED);
  setup_keep_function(L, SCHED_CALL, start_block);
}
