/* shared_handle.c: see shared_handle.h. */
#include "states/shared_handle.h"

#include <lauxlib.h>
#include <stdlib.h>

#include "base/wakeup.h"
#include "channels/alt.h"
#include "core/attr.h"
#include "core/observe.h"
#include "core/sched_wakeup.h"
#include "core/setup.h"
#include "lifetimes/root.h"
#include "states/family.h"
#include "states/limits.h"
#include "states/unpack.h"

/* User values of the Sharing, besides those in shared_wait.h. */
enum { AT_META = SHARED_UNPACK + 1 /* the metatable of handles */ };

SharedChan *shared_handle_chan(lua_State *L, const Chan *ch) {
  const SharedHold *hold = shared_handle_of(ch)->hold;
  if (UNLIKELY(!hold)) {
    luaL_error(L, "the channel has been finalized");
    return NULL; /* uncovered: it raises */
  }
  return hold->chan;
}

/* ---- handles ---- */

/* Withdraws the watch of a hold. */
static void end_watch(Sharing *sharing, SharedHold *hold) {
  SharedWait *watch = hold->watch;
  hold->watch = NULL;
  if (!watch) return;
  if (shared_withdraw(&watch->alt)) shared_wait_free(sharing, watch);
  else watch->watching = NULL;
}

/* Frees a hold. */
static void release(Sharing *sharing, SharedHold *hold) {
  list_remove(&sharing->holds, &hold->link);
  shared_chan_release(hold->chan);
  free(hold);
}

/* Withdraws all alts in a queue of a handle from their shared channels. */
static void abandon_all(Sched *S, const List *queue) {
  for (Link *link = queue->first; link; link = list_next(queue, link)) {
    Alt *alt = CONTAINER_OF(link, Waiter, link)->alt;
    if (alt->shared) shared_wait_abandon(S, alt);
  }
}

/* Gives back values that have come for alts that stopped waiting, while their channels are held. */
static void refuse_unwanted(Sharing *sharing) {
  Arrival **last = &sharing->arrived;
  while (*last) last = &(*last)->next;
  *last = owner_pop_all(sharing->owner);
  for (Arrival **link = &sharing->arrived; *link;) {
    SharedWait *wait = shared_wait_of(*link);
    if (wait->local || wait->watching) {
      link = &(*link)->next;
    } else {
      *link = (*link)->next;
      shared_wait_refuse(sharing, wait);
    }
  }
}

/* Ends a handle. Go blocks that wait on it are collected with it; or the state is being closed, and other states must
   not give values to its waiters, which nothing will wake. */
static void end_hold(Sched *S, Sharing *sharing, SharedHandle *h) {
  SharedHold *hold = h->hold;
  abandon_all(S, &h->chan.queues[PUTS]);
  abandon_all(S, &h->chan.queues[TAKES]);
  end_watch(sharing, hold);
  refuse_unwanted(sharing);
  shared_chan_pass(hold->chan);
  /* The scheduler asks for this flag when it ends, after this. */
  if (shared_chan_stats(hold->chan).reason_taken) h->chan.flags |= CHAN_ERROR_TAKEN;
  h->hold = NULL;
  release(sharing, hold);
}

/* __gc of a handle. */
static int end_handle(lua_State *L) {
  Chan *ch = chan_to(L, 1); /* a program may call it, with anything */
  SharedHandle *h = ch && chan_is_shared(ch) ? shared_handle_of(ch) : NULL;
  if (!h || !h->hold) return 0;
  Sched *S = ch->sched;
  shared_wait_busy(S->sharing);
  attr_push(L, 1, ATTR_DONE);
  Chan *done = (Chan *)lua_touserdata(L, -1);
  if (done) CONTAINER_OF(done, SharedDone, chan)->shared = NULL;
  end_hold(S, S->sharing, h);
  return 0;
}

void shared_handle_push_held(lua_State *L, SharedChan *shared) {
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  shared_wait_push_part(L, SHARED_HANDLES);
  if (lua_rawgetp(L, -1, shared) == LUA_TUSERDATA) {
    lua_replace(L, -2);
    return;
  }
  int top = lua_gettop(L);
  SharedHandle *h = (SharedHandle *)chan_new(L, sched_self(L), sizeof *h, CHAN_ATTRS);
  h->chan.buf.kind = BUFFER_SHARED;
  h->chan.flags = CHAN_SPECIAL;
  h->chan.ops = &shared_handle_ops;
  h->hold = NULL;
  h->done = NULL;
  shared_wait_push_part(L, AT_META);
  lua_setmetatable(L, -2);
  if (lua_rawgetp(L, top - 1, shared) == LUA_TUSERDATA) { /* a finalizer has made it meanwhile */
    lua_replace(L, top - 1);                              /* seldom covered: a finalizer ran at this very allocation */
  } else {
    lua_pushvalue(L, top + 1);
    lua_rawsetp(L, top - 1, shared); /* may raise: the handle is collected, and holds nothing */
    SharedHold *hold = (SharedHold *)malloc(sizeof *hold);
    if (!hold) {
      lua_pushnil(L);
      lua_rawsetp(L, top - 1, shared); /* an existing key: allocates nothing */
      shared_handle_no_memory(L);
    }
    *hold = (SharedHold){.chan = shared_chan_hold(shared)};
    shared_wait_busy(h->chan.sched->sharing);
    list_append(&h->chan.sched->sharing->holds, &hold->link);
    h->hold = hold;
    h->chan.buf.limit = shared_chan_limit(shared);
    char name[SHARED_NAME_MAX + 1];
    shared_chan_get_name(shared, name);
    if (name[0]) {
      lua_pushstring(L, name);
      attr_set(L, top + 1, ATTR_NAME);
    }
    observe_birth(L, h->chan.sched, top + 1);
    lua_pushvalue(L, top + 1);
    lua_replace(L, top - 1);
  }
  lua_settop(L, top - 1);
}

/* The go blocks in a queue that only the handle keeps alive become strong roots. */
static void promote_all(lua_State *L, Sched *S, const List *queue) {
  for (Link *link = queue->first; link; link = list_next(queue, link)) {
    Alt *alt = CONTAINER_OF(link, Waiter, link)->alt;
    if (alt->flags & ALT_WEAK && alt_is_active(alt)) root_promote(L, S, sched_go(alt));
  }
}

void shared_handle_promote(lua_State *L, const Chan *ch) {
  promote_all(L, ch->sched, &ch->queues[PUTS]);
  promote_all(L, ch->sched, &ch->queues[TAKES]);
}

/* Packer.to_chan */
static SharedChan *chan_to_pack(lua_State *L, int index) {
  Chan *ch = chan_to(L, index);
  if (!ch || !chan_is_shared(ch) || !lua_checkstack(L, LUA_MINSTACK)) return NULL;
  shared_handle_promote(L, ch);
  return shared_handle_get(ch);
}

/* ---- the Sharing ---- */

/* Protected: (light userdata of a SharedValue) -> the value */
static int unpack(lua_State *L) {
  unpack_value(L, (const SharedValue *)lua_touserdata(L, 1), shared_handle_push_held);
  return 1;
}

/* Owner.wake and Owner.drop, with a wakeup that the owner holds. */
static void wake(void *data) { wakeup_signal((Wakeup *)data); }
static void drop(void *data) { wakeup_release((Wakeup *)data); }

/* Ends the holds whose handles still exist. */
static void end_holds(lua_State *L, Sched *S, Sharing *sharing) {
  for (Link *link = sharing->holds.first, *next; link; link = next) {
    SharedHold *hold = CONTAINER_OF(link, SharedHold, link);
    next = list_next(&sharing->holds, link);
    SharedHandle *h = shared_wait_push_handle(L, hold);
    if (h) end_hold(S, sharing, h);
    lua_pop(L, 1);
  }
}

/* __gc of the Sharing, when the state is closed. Its handles, which were made later, are finalized already, but for
   those that finalizers have made meanwhile, which Lua does not finalize, and those whose finalizer Lua has dropped,
   which may be freed, as may the alts that waited on them: nothing else could reach their channels. After this nothing
   of this state is in a queue any more, and no other thread can add to the inbox. */
static int end_sharing(lua_State *L) {
  Sharing *sharing = (Sharing *)lua_touserdata(L, 1);
  Sched *S = sched_self(L);
  if (!sharing->owner) return 0;
  end_holds(L, S, sharing);
  S->sharing = NULL; /* from here on nothing follows the pointer of an alt to its wait */
  while (sharing->waits.first) {
    /* seldom covered: Lua drops a finalizer only when the stack overflows in a collection */
    SharedWait *wait = CONTAINER_OF(sharing->waits.first, SharedWait, link);
    (void)shared_withdraw(&wait->alt); /* else something was completed while the last handle was being finalized */
    shared_wait_free(sharing, wait);
  }
  while (sharing->holds.first) release(sharing, CONTAINER_OF(sharing->holds.first, SharedHold, link));
  while (sharing->unused) {
    SharedWait *wait = shared_wait_of(sharing->unused);
    sharing->unused = wait->alt.arrival.next;
    free(wait->given);
    cache_free(wait);
  }
  free(sharing->given);
  if (sharing->member && sharing->member->is_first) family_leave(sharing->member);
  packer_free(&sharing->packer);
  owner_release(sharing->owner);
  sharing->owner = NULL;
  return 0;
}

/* Pushes the metatable of handles: that of channels and __gc. */
static void push_meta(lua_State *L) {
  lua_newtable(L);
  lua_getiuservalue(L, SCHED_SELF, SCHED_CHAN_META);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -5);
  }
  lua_pop(L, 1);
  lua_pushcfunction(L, end_handle);
  lua_setfield(L, -2, "__gc");
}

void shared_handle_open(lua_State *L, Sched *S) {
  if (S->sharing) return;
  int top = lua_gettop(L);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_SHARING) != LUA_TNIL) luaL_error(L, "the lua_State is being closed");
  Wakeup *wakeup = sched_wakeup(L, S);
  if (!wakeup) shared_handle_no_memory(L);
  Sharing *sharing = (Sharing *)lua_newuserdatauv(L, sizeof *sharing, AT_META);
  *sharing = (Sharing){.packer = {.to_chan = chan_to_pack, .budget = limits_get(L).budget}};
  int at = lua_gettop(L);
  setup_push_meta(L, "__gc", end_sharing);
  setup_push_weak(L, "v");
  lua_setiuservalue(L, at, SHARED_HANDLES);
  push_meta(L);
  lua_setiuservalue(L, at, AT_META);
  setup_push_function(L, unpack);
  lua_setiuservalue(L, at, SHARED_UNPACK);
  if (!S->sharing) { /* else a finalizer has made it meanwhile */
    sharing->owner = owner_new(wake, drop, wakeup_hold(wakeup));
    if (!sharing->owner) {
      wakeup_release(wakeup);
      shared_handle_no_memory(L);
    }
    lua_setmetatable(L, at);
    lua_setiuservalue(L, SCHED_SELF, SCHED_SHARING);
    S->sharing = sharing;
    S->others = &shared_wait_others;
    if (!S->running) (void)shared_wait_sleep(S);
  }
  lua_settop(L, top);
}

void shared_handle_new(lua_State *L, Sched *S, BufferKind kind, uint32_t limit) {
  shared_handle_open(L, S);
  SharedChan *shared = shared_chan_new(kind, limit, S->sharing->packer.budget);
  if (!shared) shared_handle_no_memory(L);
  /* Protected, so that the channel is freed if there is no memory for a handle. */
  SharedValue value = {.kind = SHARED_CHAN, .as.chan = shared};
  shared_wait_push_part(L, SHARED_UNPACK);
  lua_pushlightuserdata(L, &value);
  int status = lua_pcall(L, 1, 1, 0);
  shared_chan_release(shared);
  if (status != LUA_OK) lua_error(L);
}

void shared_handle_push(lua_State *L, Sched *S, SharedChan *shared) {
  shared_handle_open(L, S);
  shared_handle_push_held(L, shared);
}

SharedChan *shared_handle_get(const Chan *ch) {
  const SharedHold *hold = shared_handle_of(ch)->hold;
  return hold ? hold->chan : NULL;
}

/* Adds { operation = operation, channel = the handle at index `at` } to the list at index `list`, which is in the order
   of the channels' ids. */
static void add_wait(lua_State *L, int list, const char *operation, int at) {
  const Chan *ch = (const Chan *)lua_touserdata(L, at);
  lua_createtable(L, 0, 2);
  lua_pushstring(L, operation);
  lua_setfield(L, -2, "operation");
  lua_pushvalue(L, at);
  lua_setfield(L, -2, "channel");
  lua_Integer n = (lua_Integer)lua_rawlen(L, list);
  for (; n > 0; n--) { /* moves those with higher ids up */
    lua_rawgeti(L, list, n);
    lua_getfield(L, -1, "channel");
    const Chan *before = (const Chan *)lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (before->id <= ch->id) {
      lua_pop(L, 1);
      break;
    }
    lua_rawseti(L, list, n + 1);
  }
  lua_rawseti(L, list, n + 1);
}

void shared_handle_push_waits(lua_State *L, const Owner *owner) {
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  lua_newtable(L);
  int list = lua_gettop(L);
  shared_wait_push_part(L, SHARED_HANDLES);
  for (lua_pushnil(L); lua_next(L, list + 1); lua_pop(L, 1)) {
    SharedChan *shared = shared_handle_get((const Chan *)lua_touserdata(L, -1));
    if (!shared) continue;
    SharedCounts counts = shared_chan_waiting(shared, owner);
    if (counts.takes) add_wait(L, list, "take", list + 3);
    if (counts.puts) add_wait(L, list, "put", list + 3);
  }
  lua_settop(L, list);
}
