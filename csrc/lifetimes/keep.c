/* keep.c: see keep.h. The list is a table without gaps. A round checks each entry once, from the last to the first; the
   last entry replaces one that is dropped. */
#include "lifetimes/keep.h"

#include <lauxlib.h>

#include "core/setup.h"
#include "lifetimes/root_table.h"

/* A list with fewer entries, or fewer than twice those that the last round found needed, is trimmed only in cycles of the
   collector: a dropped entry must be added again at the next park. */
enum { FEW = 1024 };

/* Whether a strong root owns the waiter. */
static bool is_strong(const Sched *S, const Waiter *w) { return w->alt != &S->outside && !(w->alt->flags & ALT_WEAK); }

/* Whether the queue may have a waiter that a strong root owns: it has, or it is longer than `depth`. */
static bool has_strong(const Sched *S, const List *queue, int depth) {
  for (const Link *link = queue->first; link; link = list_next(queue, link)) {
    if (is_strong(S, CONTAINER_OF(link, const Waiter, link)) || depth-- == 0) return true;
  }
  return false;
}

/* Whether the entry on top of L is needed; clears its flag if not. */
static bool is_needed(lua_State *L, const Sched *S, int depth) {
  Chan *ch = (Chan *)lua_touserdata(L, -1);
  if (ch->tag == &chan_tag) { /* else a block of waiters, which begins with a link or NULL */
    if (has_strong(S, &ch->queues[PUTS], depth) || has_strong(S, &ch->queues[TAKES], depth)) return true;
    ch->flags &= ~(uint32_t)(CHAN_KEPT | CHAN_LISTED);
    return false;
  }
  Waiter *block = (Waiter *)lua_touserdata(L, -1);
  size_t n = (size_t)lua_rawlen(L, -1) / sizeof(Waiter);
  if (block->is_weak) n = 0; /* its go block, and so its waiters, may have been collected */
  for (size_t i = 0; i < n; i++) {
    if (block[i].link.next && is_strong(S, &block[i])) return true;
  }
  block->is_kept = false;
  return false;
}

void keep_trim(lua_State *L, Sched *S, uint32_t n, int depth) {
  Kept *k = &S->kept;
  lua_getiuservalue(L, SCHED_SELF, SCHED_KEPT);
  for (n = n < k->size ? n : k->size; n > 0; n--) {
    if (k->next == 0) k->next = k->size;
    lua_rawgeti(L, -1, k->next);
    bool needed = is_needed(L, S, depth);
    lua_pop(L, 1);
    if (needed) {
      k->found++;
    } else {
      lua_rawgeti(L, -1, k->size);
      lua_rawseti(L, -2, k->next); /* an existing key: nothing is allocated */
      lua_pushnil(L);
      lua_rawseti(L, -2, k->size--);
    }
    if (--k->next > 0) continue;
    /* Not twice the size, which counts entries that were added during the round and may not be needed any more. */
    k->limit = k->found < FEW / 2 ? FEW : 2 * k->found;
    k->found = 0;
  }
  lua_pop(L, 1);
}

void keep_add(lua_State *L, Sched *S, int at) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_KEPT);
  lua_pushvalue(L, at);
  lua_rawseti(L, -2, (lua_Integer)S->kept.size + 1);
  if (++S->kept.size > S->kept.room) S->kept.room = S->kept.size;
  lua_pop(L, 1);
}

void keep_shrink(lua_State *L, Sched *S) {
  Kept *k = &S->kept;
  uint32_t room = root_room(k->size, k->room);
  if (room == k->room) return;
  lua_createtable(L, (int)room, 1);
  if (k->size <= room) { /* else a finalizer has parked many go blocks */
    root_move_entries(L, SCHED_KEPT, lua_gettop(L), room);
    k->room = room;
  }
  lua_pop(L, 1);
}

void keep_open(lua_State *L) {
  sched_self(L)->kept.limit = FEW;
  setup_keep_table(L, SCHED_KEPT);
}
