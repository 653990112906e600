/* keep.c: see keep.h. The list is the stack of a thread, which grows faster than a table. */
#include "keep.h"

#include <lauxlib.h>

enum { TRIM_AT_LEAST = 1024 }; /* entries of a list that is worth trimming */

/* Whether a waiter in a queue is of a go block for which the scheduler has to keep what it waits on. */
static bool counts(const Sched *S, const Waiter *w) { return w->alt != &S->outside && !(w->alt->flags & ALT_AWAY); }

/* Whether such a waiter is in a queue. */
static bool has_waiter(const Sched *S, const List *queue) {
  const Link *link = queue->first;
  if (!link) return false;
  do {
    if (counts(S, CONTAINER_OF(link, const Waiter, link))) return true;
    link = link->next;
  } while (link != queue->first);
  return false;
}

/* Whether an entry of the list is still needed; takes its flag away if it is not. */
static bool is_needed(lua_State *list, const Sched *S, int i) {
  Chan *ch = (Chan *)lua_touserdata(list, i);
  if (ch->tag == &chan_tag) { /* a block begins with a link, or NULL, there */
    if (has_waiter(S, &ch->puts) || has_waiter(S, &ch->takes)) return true;
    ch->flags &= (uint16_t)~CHAN_KEPT;
    return false;
  }
  Waiter *block = (Waiter *)lua_touserdata(list, i);
  for (size_t j = 0; j < lua_rawlen(list, i) / sizeof(Waiter); j++) {
    if (block[j].link.next && counts(S, &block[j])) return true;
  }
  block->is_kept = false;
  return false;
}

void keep_trim(Sched *S) {
  int size = 0, n = lua_gettop(S->kept);
  for (int i = 1; i <= n; i++) {
    if (!is_needed(S->kept, S, i)) continue;
    size++;
    if (size != i) lua_copy(S->kept, i, size);
  }
  lua_settop(S->kept, size);
  S->kept_limit = size > TRIM_AT_LEAST / 2 ? 2 * size : TRIM_AT_LEAST;
}

void keep_add(lua_State *L, Sched *S, int at) {
  if (lua_gettop(S->kept) >= S->kept_limit) keep_trim(S);
  if (UNLIKELY(!lua_checkstack(S->kept, 1))) luaL_error(L, "not enough memory");
  lua_pushvalue(L, at);
  lua_xmove(L, S->kept, 1);
}

void keep_open(lua_State *L) {
  Sched *S = sched_self(L);
  S->kept = lua_newthread(L);
  S->kept_limit = TRIM_AT_LEAST;
  lua_setiuservalue(L, SCHED_SELF, SCHED_KEPT);
}
