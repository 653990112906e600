/* keep.c: see keep.h.

   The list is a table. A lap looks at each entry once, from the first to the last, and closes the gaps that it makes:
   `to` entries that are needed come first, then a gap up to `next`, then the entries that the lap has not looked at. */
#include "keep.h"

#include <lauxlib.h>

enum {
  TRIM_TO_GROW = 2,    /* entries that are checked for each entry that is added, so that few are there in vain */
  CYCLE_SHARE = 4,     /* each cycle of the collector checks one entry in so many, */
  CYCLE_LEAST = 65536, /* but at least so many, which takes 1 ms */
  LONG_QUEUE = 1024    /* waiters that are checked in one queue; a channel with more of them stays in the list */
};

/* Whether there may be a waiter in the queue of a go block for which the scheduler has to keep what it waits on: not
   one that waits outside, and not one that was handed over. */
static bool has_waiter(const Sched *S, const List *queue) {
  const Link *link = queue->first;
  if (!link) return false;
  for (int i = 0; i < LONG_QUEUE; i++) {
    const Alt *alt = CONTAINER_OF(link, const Waiter, link)->alt;
    if (alt != &S->outside && !(alt->flags & ALT_AWAY)) return true;
    link = link->next;
    if (link == queue->first) return false;
  }
  return true;
}

/* Whether the entry on top of L, a block of waiters of that many bytes, is needed. */
static bool block_is_needed(const Sched *S, const Waiter *block, size_t bytes) {
  for (size_t i = 0; i < bytes / sizeof(Waiter); i++) {
    if (block[i].link.next && block[i].alt != &S->outside && !(block[i].alt->flags & ALT_AWAY)) return true;
  }
  return false;
}

/* Whether the entry on top of L is needed; if not, it loses its flag. */
static bool is_needed(lua_State *L, const Sched *S) {
  Chan *ch = (Chan *)lua_touserdata(L, -1);
  if (ch->tag == &chan_tag) { /* a block of waiters begins with a link, or NULL, there */
    if (has_waiter(S, &ch->puts) || has_waiter(S, &ch->takes)) return true;
    ch->flags &= ~(uint32_t)CHAN_KEPT;
    return false;
  }
  Waiter *block = (Waiter *)lua_touserdata(L, -1);
  if (block_is_needed(S, block, lua_rawlen(L, -1))) return true;
  block->is_kept = false;
  return false;
}

void keep_trim(lua_State *L, Sched *S, uint32_t n) {
  Kept *k = &S->kept;
  if (n > k->size) n = k->size;
  lua_getiuservalue(L, SCHED_SELF, SCHED_KEPT);
  for (; n > 0; n--) {
    k->next++;
    lua_rawgeti(L, -1, k->next);
    if (!is_needed(L, S)) {
      lua_pop(L, 1);
      lua_pushnil(L);
      lua_rawseti(L, -2, k->next);
    } else if (++k->to == k->next) {
      lua_pop(L, 1);
    } else {
      lua_rawseti(L, -2, k->to); /* there was an entry before: nothing is allocated */
      lua_pushnil(L);
      lua_rawseti(L, -2, k->next);
    }
    if (k->next < k->size) continue;
    k->size = k->to;
    k->next = k->to = 0;
    if (n > k->size + 1) n = k->size + 1;
  }
  lua_pop(L, 1);
}

void keep_tend(lua_State *L, Sched *S) {
  uint32_t share = S->kept.size / CYCLE_SHARE;
  keep_trim(L, S, share > CYCLE_LEAST ? share : CYCLE_LEAST);
}

void keep_add(lua_State *L, Sched *S, int at) {
  keep_trim(L, S, TRIM_TO_GROW);
  lua_getiuservalue(L, SCHED_SELF, SCHED_KEPT);
  lua_pushvalue(L, at);
  lua_rawseti(L, -2, (lua_Integer)S->kept.size + 1);
  S->kept.size++;
  lua_pop(L, 1);
}

void keep_open(lua_State *L) {
  lua_newtable(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_KEPT);
}
