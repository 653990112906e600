/* invariants.c: see invariants.h. */
#include "invariants.h"

#include <lauxlib.h>

#include "channels/chan.h"
#include "states/gather.h"
#include "timers/delayed.h"

/* Returns what is broken unless the condition holds. */
#define MUST(condition, what)                                                                                          \
  do {                                                                                                                 \
    if (!(condition)) return what;                                                                                     \
  } while (0)

/* Pushes a user value of the scheduler, which is at index `at`. */
static int push_part(lua_State *L, int at, int part) { return lua_getiuservalue(L, at, part); }

/* Whether a go block is a strong root: the table has its userdata where it says. */
static bool is_strong(lua_State *L, int at, const Go *go) {
  push_part(L, at, SCHED_STRONG);
  bool strong = go->slot && lua_rawgeti(L, -1, go->slot) == LUA_TUSERDATA && lua_touserdata(L, -1) == go;
  lua_settop(L, at);
  return strong;
}

/* No operation is under way, and none has left anything behind. */
static const char *check_rest(const Sched *S) {
  MUST(!S->running, "the loop is marked as running");
  MUST(!S->current, "a go block is marked as running");
  MUST(!S->awaited, "a go block is still awaited");
  MUST(!S->inside, "user code is marked as running");
  MUST(S->outside.state == ALT_IDLE, "the outside operation is not idle");
  MUST(S->outside.count == 0, "the outside operation has waiters");
  MUST(S->outside.flags == ALT_BARE, "the outside operation has flags");
  MUST(!S->world.outer, "a simulation is marked as running");
  MUST(S->world.left >= 1 && S->world.left <= S->world.stride, "the resumes until the next look are out of bounds");
  return NULL;
}

/* The run queue: as long as counted, of ready go blocks that are strong roots. */
static const char *check_ready(lua_State *L, int at, const Sched *S) {
  uint32_t n = 0;
  const Link *link = S->world.ready.first;
  while (link) {
    Alt *alt = CONTAINER_OF(link, Alt, own.waiter.link);
    MUST(link->next->prev == link, "the run queue is not linked");
    MUST(alt->state == ALT_READY, "a go block in the run queue is not ready");
    MUST(alt->count == 0, "a ready go block has waiters");
    MUST(!(alt->flags & ALT_WEAK), "a ready go block is a weak root");
    MUST(alt->co, "a ready go block has no coroutine");
    /* If somebody has closed its coroutine, and a hook kept the guard from running, it ends in its turn. */
    bool is_closed = !(alt->flags & ALT_BARE) && lua_status(alt->co) != LUA_YIELD;
    MUST(is_closed || lua_gettop(alt->co) >= alt->nresults, "a ready go block lacks results");
    MUST(is_strong(L, at, sched_go(alt)), "a ready go block is not a strong root");
    n++;
    link = list_next(&S->world.ready, link);
  }
  MUST(n == S->world.nready, "the run queue's length is not as counted");
  return NULL;
}

/* The timer heap: ordered, each timer knows its place, sleepers are strong roots, timeouts pending, timers of calls are
   held. */
static const char *check_heap(lua_State *L, int at, const Sched *S) {
  const Heap *heap = &S->world.heap;
  MUST(heap->count <= heap->capacity, "more timers than there is room for");
  if (heap->capacity) {
    push_part(L, at, SCHED_HEAP);
    MUST(lua_touserdata(L, -1) == heap->entries, "the heap's storage is not held");
    MUST(lua_rawlen(L, -1) >= heap->capacity * sizeof(HeapEntry), "the heap's storage is too small");
    lua_settop(L, at);
  }
  for (uint32_t i = 0; i < heap->count; i++) {
    const Timer *timer = heap_timer(heap->entries[i]);
    MUST((heap->entries[i].timer & 1) == timer->is_timeout, "an entry of the heap is not marked as its timer is");
    MUST(timer->is_timeout || timer->place == i, "a timer does not know its place");
    MUST(timer->deadline == heap->entries[i].deadline, "a timer's deadline is not that of its entry");
    MUST(i == 0 || heap->entries[(i - 1) / 4].deadline <= timer->deadline, "the heap is not ordered");
    if (timer->is_timeout) continue;
    if (timer->is_call) {
      push_part(L, at, SCHED_DELAYED);
      lua_rawgeti(L, -1, CONTAINER_OF(timer, Delayed, timer)->ref);
      MUST(lua_touserdata(L, -1) == timer, "a pending timer of a call is not held");
      lua_settop(L, at);
      continue;
    }
    Alt *alt = CONTAINER_OF(timer, Alt, own.timer);
    MUST(alt->state == ALT_SLEEPING, "the owner of a timer is not asleep");
    MUST(alt == &S->outside || is_strong(L, at, sched_go(alt)), "a sleeper is not a strong root");
  }
  return NULL;
}

/* A go block's state, and the queues that it waits in. */
static const char *check_go(const Go *go) {
  const Alt *alt = &go->alt;
  MUST(go->chan.tag == &chan_tag, "a root is not a go block");
  MUST(alt->state == ALT_PARKED || alt->count == 0, "a go block that is not parked has waiters");
  MUST(alt->state != ALT_DEAD, "a dead go block is a root");
  MUST(alt->state != ALT_IDLE, "a go block neither runs nor waits");
  MUST(alt->co, "a live go block has no coroutine");
  MUST(!(alt->flags & ALT_CANCEL) || alt->state == ALT_READY || go->chan.flags & CHAN_TOLD,
       "a go block waits that was cancelled, and has not got the error");
  MUST(go->chan.flags & CHAN_RESULT, "a live go block's result channel is like any other");
  for (uint32_t i = 0; i < alt->count; i++) {
    const Waiter *w = &alt_waiters(alt)[i];
    MUST(w->alt == alt, "a waiter is not that of its alt");
    /* A weak root whose coroutine somebody has closed is dropped from a queue, but not ended. */
    if (!w->link.next && alt->flags & ALT_WEAK && !alt_is_active(alt)) continue;
    if (!w->link.next && gather_is_out(w)) continue;
    MUST(w->link.next && w->link.next->prev == &w->link, "a waiter is in no queue");
    MUST(w->chan->tag == &chan_tag, "a waiter waits on what is no channel");
    chan_check(w->chan);
  }
  return NULL;
}

/* The user value of a go block, which is on top of L: its coroutine, or what it waits on as a weak root. */
static const char *check_waits(lua_State *L, const Go *go) {
  int type = lua_getiuservalue(L, -1, GO_COROUTINE);
  bool is_coroutine = type == LUA_TTHREAD && lua_tothread(L, -1) == go->alt.co;
  lua_pop(L, 1);
  if (!(go->alt.flags & ALT_WEAK) || go->alt.count == 0) {
    MUST(is_coroutine, "a go block does not hold its coroutine");
  } else {
    MUST(type == (go->alt.flags & ALT_SELECT ? LUA_TTABLE : LUA_TUSERDATA),
         "a weak root does not hold what it waits on");
  }
  return NULL;
}

/* A root: it knows its index, and is marked as strong or weak. */
static const char *check_root(lua_State *L, const Go *go, uint32_t i, bool is_weak) {
  MUST(go->slot == i, "a root does not know its index");
  MUST(!(go->alt.flags & ALT_WEAK) == !is_weak, "a strong root is marked as weak, or a weak one is not");
  MUST(!is_weak || go->alt.state == ALT_PARKED || go->alt.state == ALT_NEW, "a weak root is not parked");
  const char *broken = check_go(go);
  return broken ? broken : check_waits(L, go);
}

/* The tables of roots: no gaps but of weak roots that were collected, and room for all to be strong. */
static const char *check_roots(lua_State *L, int at, const Sched *S) {
  const Roots *a = &S->roots;
  push_part(L, at, SCHED_STRONG);
  push_part(L, at, SCHED_WEAK);
  MUST(a->strong + a->weak <= a->room, "there is not room for all roots");
  for (uint32_t i = 1; i <= a->room; i++) {
    bool is_root = lua_rawgeti(L, at + 1, i) == LUA_TUSERDATA;
    MUST(is_root == (i <= a->strong), "the strong roots are not as counted");
    MUST(is_root || (lua_isboolean(L, -1) && !lua_toboolean(L, -1)), "an entry for a strong root is not false");
    const char *broken = is_root ? check_root(L, (const Go *)lua_touserdata(L, -1), i, false) : NULL;
    if (broken) return broken;
    lua_pop(L, 1);
  }
  for (uint32_t i = 1; i <= a->weak; i++) {
    bool is_root = lua_rawgeti(L, at + 2, i) != LUA_TNIL;
    const char *broken = is_root ? check_root(L, (const Go *)lua_touserdata(L, -1), i, true) : NULL;
    if (broken) return broken;
    lua_pop(L, 1);
  }
  lua_settop(L, at);
  return NULL;
}

/* The pools: as many blocks as counted, no two of them the same, none in use. */
static const char *check_pools(lua_State *L, int at, const Sched *S) {
  for (int pool = 0; pool < SCHED_POOLS; pool++) {
    push_part(L, at, SCHED_POOL + pool);
    MUST(S->pooled[pool] <= SCHED_POOL_BLOCKS, "a pool is too large");
    for (int i = 1; i <= S->pooled[pool]; i++) {
      MUST(lua_rawgeti(L, at + 1, i) == LUA_TUSERDATA, "a block is missing in a pool");
      const void *block = lua_touserdata(L, -1);
      for (int j = 1; j < i; j++) {
        lua_rawgeti(L, at + 1, j);
        MUST(lua_touserdata(L, -1) != block, "a block is in a pool twice");
        lua_pop(L, 1);
      }
      lua_pop(L, 1);
    }
    lua_settop(L, at);
  }
  return NULL;
}

Sched *invariants_sched(lua_State *L) {
  int at = lua_gettop(L) + 1;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (lua_getfield(L, LUA_REGISTRYINDEX, "runnel.core") == LUA_TTABLE && lua_getfield(L, -1, "go") == LUA_TFUNCTION) {
    lua_getupvalue(L, -1, 1);
  } else {
    lua_pushnil(L);
  }
  lua_replace(L, at);
  lua_settop(L, at);
  return (Sched *)lua_touserdata(L, at);
}

const char *invariants_broken(lua_State *L) {
  int top = lua_gettop(L), at = top + 1;
  const char *broken = "runnel.core has not been loaded";
  const Sched *S = invariants_sched(L);
  if (S) {
    broken = check_rest(S);
    if (!broken) broken = check_ready(L, at, S);
    if (!broken) broken = check_heap(L, at, S);
    if (!broken) broken = check_roots(L, at, S);
    if (!broken) broken = check_pools(L, at, S);
  }
  lua_settop(L, top);
  return broken;
}

int invariants_check(lua_State *L) {
  const char *broken = invariants_broken(L);
  return broken ? luaL_error(L, "broken invariant: %s", broken) : 0;
}
