/* timer.c: see timer.h.

   A slot of the table SCHED_TIMEOUTS keeps a pending timeout alive; the windows know the timeout by the number of the
   slot. A free slot holds the number of the next free one, or 0. Slot 0 holds the storage of the windows. */
#include "blocks/timer.h"

#include "channels/alt.h"
#include "channels/chan.h"
#include "core/observe.h"

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

enum {
  STORAGE = 0,        /* the slot of the windows' storage */
  FIRST_WINDOWS = 16, /* entries of the first storage */
  MANY = 4096         /* with this many slots, all are freed when no timeout is pending */
};

/* Pushes the table of slots and returns its index, which is not valid after an allocation: a finalizer may ask for a
   timeout and so replace the table (forget_slots). */
static int push_slots(lua_State *L) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_TIMEOUTS);
  return lua_gettop(L);
}

/* Moves the windows to larger storage, unless a finalizer has. May raise. */
static void grow_windows(lua_State *L, Windows *windows) {
  uint32_t capacity = windows->capacity ? windows->capacity * 2 : FIRST_WINDOWS;
  Window *storage = (Window *)lua_newuserdatauv(L, capacity * sizeof(Window), 0);
  if (windows->capacity < capacity) {
    int table = push_slots(L);
    lua_insert(L, --table);
    lua_rawseti(L, table, STORAGE);
    windows_move(windows, storage, capacity);
  }
  lua_pop(L, 1);
}

/* Frees the memory of all slots and windows. May raise. */
static void forget_slots(lua_State *L, Pending *pending) {
  lua_newtable(L);
  if (pending->windows.count == 0) {
    lua_setiuservalue(L, SCHED_SELF, SCHED_TIMEOUTS);
    *pending = (Pending){.size = 0};
  } else { /* a finalizer has made a timeout */
    lua_pop(L, 1);
  }
}

/* Makes the timeout on top of L pending; there is room. May raise, and then nothing has changed. */
static void enter(lua_State *L, Sched *S, Timeout *t) {
  Pending *pending = &S->world.pending;
  int at = lua_gettop(L), table = push_slots(L);
  uint32_t slot = pending->free, next_free = 0;
  if (slot) {
    lua_rawgeti(L, table, slot);
    next_free = (uint32_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
  } else {
    slot = pending->size + 1;
  }
  lua_pushvalue(L, at);
  lua_rawseti(L, table, slot);
  lua_pop(L, 1);
  pending->free = next_free;
  if (slot > pending->size) pending->size = slot;
  t->slot = slot;
  t->chan.flags |= CHAN_TIMEOUT;
  windows_add(&pending->windows, t->timer.deadline, slot);
  heap_insert(&S->world.heap, &t->timer);
}

/* Makes room for another timeout. Returns true if it has allocated, so that finalizers may have run. May raise. */
static bool make_room(lua_State *L, Sched *S) {
  Pending *pending = &S->world.pending;
  if (UNLIKELY(pending->windows.count == 0 && pending->size >= MANY)) forget_slots(L, pending);
  else if (UNLIKELY(windows_full(&pending->windows))) grow_windows(L, &pending->windows);
  else if (UNLIKELY(S->world.heap.count == S->world.heap.capacity)) timer_reserve(L, S);
  else return false;
  return true;
}

void timer_push_timeout(lua_State *L, Sched *S, int64_t ns) {
  Timeout *t = NULL;
  int64_t deadline = clock_due(&S->world.clock, ns);
  int top = lua_gettop(L);
  /* Finalizers may use timers: after each allocation the search begins again. */
  for (;;) {
    uint32_t shared = windows_find(&S->world.pending.windows, deadline);
    if (shared) {
      lua_rawgeti(L, push_slots(L), shared);
      break;
    }
    if (UNLIKELY(make_room(L, S))) continue;
    uint64_t seq = S->world.heap.next_seq;
    if (!t) {
      t = (Timeout *)chan_new(L, S, sizeof(Timeout), CHAN_ATTRS);
      t->chan.flags = CHAN_CLOSES_ITSELF;
      t->timer = (Timer){.deadline = deadline, .is_timeout = true};
    }
    if (UNLIKELY(S->world.heap.next_seq != seq)) continue;
    enter(L, S, t);
    break;
  }
  lua_insert(L, top + 1);
  lua_settop(L, top + 1);
}

/* Closes the timeout whose timer is due and has left the heap. */
static void fire_timeout(lua_State *L, Timer *timer) {
  Timeout *t = CONTAINER_OF(timer, Timeout, timer);
  Pending *pending = &t->chan.sched->world.pending;
  uint32_t slot = t->slot;
  windows_remove(&pending->windows, timer->deadline, slot);
  int table = push_slots(L);
  lua_rawgeti(L, table, slot); /* it may be reachable only through the slot */
  lua_pushinteger(L, pending->free);
  lua_rawseti(L, table, slot);
  pending->free = slot;
  chan_close(L, &t->chan, table + 1, 0);
  t->chan.flags &= ~(uint32_t)CHAN_TIMEOUT;
  lua_settop(L, table - 1);
}

/* ---- timers that have an effect ---- */

bool timer_wakes(const Heap *heap, uint32_t i) {
  if (!(heap->entries[i].timer & 1)) return true;
  const Chan *ch = &CONTAINER_OF(heap_timer(heap->entries[i]), Timeout, timer)->chan;
  return ch->waiting[TAKES] || ch->waiting[PUTS];
}

/* Looks where it has found one before, and then from the end: the newest are there, on which something waits most
   often. So a program with thousands of timeouts that it has forgotten seldom pays for them. */
bool timer_can_wake(World *w) {
  const Heap *heap = &w->heap;
  if (w->waker < heap->count && timer_wakes(heap, w->waker)) return true;
  for (uint32_t i = heap->count; i-- > 0;) {
    if (!timer_wakes(heap, i)) continue;
    w->waker = i;
    return true;
  }
  return false;
}

/* ---- due timers ---- */

static inline void end_sleep(Sched *S, Alt *alt) {
  OBSERVE(S, slept, S, alt);
  alt_wake(S, alt, 0);
}

void timer_fire_due(lua_State *L, Sched *S, int64_t now) {
  Heap *heap = &S->world.heap;
  while (heap->count && heap->entries[0].deadline <= now) {
    Timer *timer = heap_pop(heap);
    PREFETCH(heap_first(heap)); /* while this one fires */
    if (timer->is_timeout) fire_timeout(L, timer);
    else if (timer->is_call) S->call(L, timer);
    else end_sleep(S, CONTAINER_OF(timer, Alt, own.timer));
  }
}
