/* chan_shared.c: see chan_shared.h. */
#include "core/chan_shared.h"

#include <lauxlib.h>
#include <stdlib.h>

#include "base/wakeup.h"
#include "core/alt.h"
#include "core/attr.h"
#include "core/driver.h"
#include "core/error.h"
#include "core/family.h"
#include "core/root.h"
#include "core/trace.h"
#include "core/unpack.h"

/* User values of the Sharing. */
enum {
  AT_HANDLES = 1, /* weak table: the address of a shared channel -> its handle */
  AT_META,        /* the metatable of handles */
  AT_UNPACK       /* C function: unpacks a value */
};

_Noreturn static void raise_no_memory(lua_State *L) {
  luaL_error(L, "not enough memory");
  abort(); /* uncovered: luaL_error does not return */
}

static SharedHandle *handle_of(const Chan *ch) { return CONTAINER_OF(ch, SharedHandle, chan); }

/* The shared channel of a handle. Raises in a finalizer that uses a handle which has been finalized before. */
static SharedChan *shared_of(lua_State *L, const Chan *ch) {
  SharedChan *shared = handle_of(ch)->hold.chan;
  if (UNLIKELY(!shared)) luaL_error(L, "the channel has been finalized");
  return shared;
}

/* Pushes a user value of the Sharing. */
static void push_part(lua_State *L, int part) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_SHARING);
  lua_getiuservalue(L, -1, part);
  lua_replace(L, -2);
}

/* ---- handles ---- */

/* Withdraws the watch of a handle. */
static void end_watch(Sharing *sharing, SharedHandle *h) {
  SharedWait *watch = h->watch;
  h->watch = NULL;
  if (!watch) return;
  if (shared_withdraw(&watch->alt)) {
    shared_wait_free(sharing, watch);
  } else {
    watch->watching = NULL;
    watch->done = NULL;
  }
}

/* Withdraws all alts in a queue of a handle from their shared channels. */
static void abandon_all(Sched *S, const List *queue) {
  Link *link = queue->first;
  if (!link) return;
  do {
    Alt *alt = CONTAINER_OF(link, Waiter, link)->alt;
    if (alt->shared) shared_wait_abandon(S, alt);
    link = link->next;
  } while (link != queue->first);
}

static void refuse(Sharing *sharing, SharedWait *wait);

/* Gives back what has come for alts that have stopped waiting, as long as their channels are held. */
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
      refuse(sharing, wait);
    }
  }
}

/* __gc of a handle. If anything waits on it, that is go blocks which are collected with it; or the state is being
   closed, and other states must not give values to waiters that nobody will wake. */
static int end_handle(lua_State *L) {
  Chan *ch = chan_to(L, 1); /* a program may call it, with anything */
  SharedHandle *h = ch && chan_is_shared(ch) ? handle_of(ch) : NULL;
  if (!h || !h->hold.chan) return 0;
  Sched *S = ch->sched;
  shared_wait_busy(S->sharing);
  abandon_all(S, &h->chan.puts);
  abandon_all(S, &h->chan.takes);
  end_watch(S->sharing, h);
  attr_push(L, 1, ATTR_DONE);
  Chan *done = (Chan *)lua_touserdata(L, -1);
  if (done) CONTAINER_OF(done, SharedDone, chan)->shared = NULL;
  refuse_unwanted(S->sharing);
  shared_wait_end_quiet(S->sharing); /* it may have been on this channel */
  shared_chan_pass(h->hold.chan);
  if (chan_shared_is_taken(ch)) ch->flags |= CHAN_ERROR_TAKEN; /* asked when the scheduler ends, after this */
  list_remove(&S->sharing->holds, &h->hold.link);
  shared_chan_release(h->hold.chan);
  h->hold.chan = NULL;
  return 0;
}

/* Pushes the handle of a shared channel, which it then holds, too. May raise. */
static void push_handle(lua_State *L, SharedChan *shared) {
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  push_part(L, AT_HANDLES);
  if (lua_rawgetp(L, -1, shared) == LUA_TUSERDATA) {
    lua_replace(L, -2);
    return;
  }
  int top = lua_gettop(L);
  SharedHandle *h = (SharedHandle *)chan_new(L, sched_self(L), sizeof *h, CHAN_ATTRS);
  h->chan.buf.kind = BUFFER_SHARED;
  h->chan.flags = CHAN_FOREIGN;
  h->hold = (SharedHold){.chan = NULL};
  h->watch = NULL;
  push_part(L, AT_META);
  lua_setmetatable(L, -2);
  if (lua_rawgetp(L, top - 1, shared) == LUA_TUSERDATA) { /* a finalizer has made it meanwhile */
    lua_replace(L, top - 1);                              /* seldom covered: a finalizer ran at this very allocation */
  } else {
    lua_pushvalue(L, top + 1);
    lua_rawsetp(L, top - 1, shared); /* may raise: the handle is collected, and holds nothing */
    h->hold.chan = shared_chan_hold(shared);
    shared_wait_busy(h->chan.sched->sharing);
    list_append(&h->chan.sched->sharing->holds, &h->hold.link);
    h->chan.buf.limit = shared_chan_limit(shared);
    char name[SHARED_NAME_MAX + 1];
    shared_chan_get_name(shared, name);
    if (name[0]) {
      lua_pushstring(L, name);
      attr_set(L, top + 1, ATTR_NAME);
    }
    if (UNLIKELY(h->chan.sched->listing)) trace_born(L, h->chan.sched, top + 1);
    lua_pushvalue(L, top + 1);
    lua_replace(L, top - 1);
  }
  lua_settop(L, top - 1);
}

/* The go blocks in a queue that only the handle keeps alive become strong roots. */
static void promote_all(lua_State *L, Sched *S, const List *queue) {
  Link *link = queue->first;
  if (!link) return;
  do {
    Alt *alt = CONTAINER_OF(link, Waiter, link)->alt;
    if (alt->flags & ALT_WEAK && alt_is_active(alt)) root_promote(L, S, sched_go(alt));
    link = link->next;
  } while (link != queue->first);
}

void chan_shared_promote(lua_State *L, const Chan *ch) {
  promote_all(L, ch->sched, &ch->puts);
  promote_all(L, ch->sched, &ch->takes);
}

/* Packer.to_chan */
static SharedChan *chan_to_pack(lua_State *L, int index) {
  Chan *ch = chan_to(L, index);
  if (!ch || !chan_is_shared(ch) || !lua_checkstack(L, LUA_MINSTACK)) return NULL;
  chan_shared_promote(L, ch);
  return handle_of(ch)->hold.chan;
}

/* ---- the Sharing ---- */

/* Protected: (light userdata of a SharedValue) -> the value */
static int unpack(lua_State *L) {
  unpack_value(L, (const SharedValue *)lua_touserdata(L, 1), push_handle);
  return 1;
}

/* Owner.wake and Owner.drop, with a wakeup that the owner holds. */
static void wake(void *data) { wakeup_signal((Wakeup *)data); }
static void drop(void *data) { wakeup_release((Wakeup *)data); }

/* __gc of the Sharing, when the state is closed. Its handles, which were made later, are finalized already: nothing of
   this state is in a queue any more, and no other thread can add to the inbox. */
static int end_sharing(lua_State *L) {
  Sharing *sharing = (Sharing *)lua_touserdata(L, 1);
  Sched *S = sched_self(L);
  if (!sharing->owner) return 0;
  S->sharing = NULL;
  while (sharing->waits.first) {
    /* seldom covered: something was completed while the last handle was being finalized */
    SharedWait *wait = CONTAINER_OF(sharing->waits.first, SharedWait, link);
    if (wait->local) wait->local->shared = NULL;
    shared_wait_free(sharing, wait);
  }
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

/* Makes the Sharing if it does not exist. May raise. */
static void open(lua_State *L, Sched *S) {
  if (S->sharing) return;
  int top = lua_gettop(L);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_SHARING) != LUA_TNIL) luaL_error(L, "the lua_State is being closed");
  Wakeup *wakeup = driver_wakeup(L, S);
  if (!wakeup) raise_no_memory(L);
  Sharing *sharing = (Sharing *)lua_newuserdatauv(L, sizeof *sharing, AT_UNPACK);
  *sharing = (Sharing){.packer = {.to_chan = chan_to_pack}};
  int at = lua_gettop(L);
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, end_sharing, 1);
  lua_setfield(L, -2, "__gc");
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_setiuservalue(L, at, AT_HANDLES);
  push_meta(L);
  lua_setiuservalue(L, at, AT_META);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, unpack, 1);
  lua_setiuservalue(L, at, AT_UNPACK);
  if (!S->sharing) { /* else a finalizer has made it meanwhile */
    sharing->owner = owner_new(wake, drop, wakeup_hold(wakeup));
    if (!sharing->owner) {
      wakeup_release(wakeup);
      raise_no_memory(L);
    }
    lua_setmetatable(L, at);
    lua_setiuservalue(L, SCHED_SELF, SCHED_SHARING);
    S->sharing = sharing;
    if (!S->running) (void)shared_wait_sleep(S);
  }
  lua_settop(L, top);
}

void chan_shared_new(lua_State *L, Sched *S, BufferKind kind, uint32_t limit) {
  open(L, S);
  SharedChan *shared = shared_chan_new(kind, limit);
  if (!shared) raise_no_memory(L);
  /* Protected, so that the channel is freed if there is no memory for a handle. */
  SharedValue value = {.kind = SHARED_CHAN, .as.chan = shared};
  push_part(L, AT_UNPACK);
  lua_pushlightuserdata(L, &value);
  int status = lua_pcall(L, 1, 1, 0);
  shared_chan_release(shared);
  if (status != LUA_OK) lua_error(L);
}

void chan_shared_push(lua_State *L, Sched *S, SharedChan *shared) {
  open(L, S);
  push_handle(L, shared);
}

SharedChan *chan_shared_get(const Chan *ch) { return handle_of(ch)->hold.chan; }

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

void chan_shared_push_waits(lua_State *L, const Owner *owner) {
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  lua_newtable(L);
  int list = lua_gettop(L);
  push_part(L, AT_HANDLES);
  for (lua_pushnil(L); lua_next(L, list + 1); lua_pop(L, 1)) {
    const SharedHandle *h = handle_of((const Chan *)lua_touserdata(L, -1));
    if (!h->hold.chan) continue;
    SharedCounts counts = shared_chan_waiting(h->hold.chan, owner);
    if (counts.takes) add_wait(L, list, "take", list + 3);
    if (counts.puts) add_wait(L, list, "put", list + 3);
  }
  lua_settop(L, list);
}

/* ---- values ---- */

/* Packs the value at index `value`. Returns false if that is impossible: see refuse_value. Does not raise. */
static bool pack(lua_State *L, Sched *S, int value, SharedValue *packed) {
  return pack_value(L, value, &S->sharing->packer, "value", packed);
}

/* Raises why a value could not be packed for an operation. */
static int refuse_value(lua_State *L, const Sched *S, const char *what) {
  lua_pushfstring(L, "%s: %s", what, S->sharing->packer.message);
  return error_raise(L);
}

bool chan_shared_pack(lua_State *L, Sched *S, int value, SharedValue *packed) {
  open(L, S);
  if (pack(L, S, value, packed)) return true;
  lua_pushstring(L, S->sharing->packer.message);
  return false;
}

void chan_shared_push_value(lua_State *L, Sched *S, const SharedValue *value) {
  open(L, S);
  unpack_value(L, value, push_handle);
}

/* Pushes a value and returns true; or pushes an error and returns false. Only strings and what refers to others need
   memory. */
static bool push_value(lua_State *L, const SharedValue *value) {
  if (value->kind <= SHARED_NUMBER) {
    unpack_value(L, value, push_handle);
    return true;
  }
  push_part(L, AT_UNPACK);
  lua_pushlightuserdata(L, (void *)(uintptr_t)value); /* only read */
  return lua_pcall(L, 1, 1, 0) == LUA_OK;
}

/* Gives a value that was taken back to its channel, with the memory that was set aside for that. */
static void give_back(SharedChan *shared, SharedValue *value, SharedReturn **given) {
  if (shared_chan_stats(shared).kind == BUFFER_PROMISE) {
    shared_value_drop(value); /* seldom covered: there was no memory for unpacking it */
    return;
  }
  SharedReturn *node = *given;
  *given = NULL;
  node->value = *value; /* NOLINT(clang-analyzer-core.NullDereference): it was set aside before the take */
  value->kind = SHARED_NIL;
  shared_give_back(shared, node);
}

/* Pushes what an operation returns: a value taken, nil, or whether it was put; then the reason of a close, if there is
   one. Returns how many it pushed. If there is no memory for a value, gives it back, pushes an error and returns 0. */
static int push_result(lua_State *L, const SharedWaiter *op, SharedResult *result, SharedReturn **given) {
  if (op->kind == SHARED_PUT) {
    lua_pushboolean(L, result->ok);
    return 1;
  }
  if (result->ok) {
    if (LIKELY(push_value(L, &result->value))) {
      shared_value_drop(&result->value);
      return 1;
    }
    give_back(op->chan, &result->value, given);
    return 0;
  }
  lua_pushnil(L);
  if (result->value.kind == SHARED_NIL) return 1;
  (void)push_value(L, &result->value); /* or why it cannot be told */
  shared_value_drop(&result->value);
  return 2;
}

/* ---- put, take, close ---- */

static PutResult put(lua_State *L, Chan *ch, int value, bool is_quiet) {
  Sched *S = ch->sched;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  SharedWaiter op = {.chan = shared_of(L, ch), .kind = SHARED_PUT, .is_quiet = is_quiet};
  if (!pack(L, S, value, &op.value)) refuse_value(L, S, "put");
  SharedResult result;
  SharedOutcome outcome = shared_do(&op, 1, NULL, NULL, &result);
  shared_value_drop(&op.value);
  if (outcome == SHARED_NONE) return PUT_WAIT;
  S->sharing->has_woken = result.has_woken;
  shared_value_drop(&result.value);
  if (result.left_asleep) {
    if (S->sharing->quiet != op.chan) shared_wait_end_quiet(S->sharing);
    S->sharing->quiet = op.chan;
  }
  if (!result.ok) ch->flags |= CHAN_CLOSED;
  chan_shared_look(L, S); /* the take may be of this state */
  S->sharing->number = result.value.number;
  return result.ok ? PUT_DONE : PUT_CLOSED;
}

PutResult chan_shared_put(lua_State *L, Chan *ch, int value) { return put(L, ch, value, false); }

PutResult chan_shared_put_quietly(lua_State *L, Chan *ch, int value) { return put(L, ch, value, true); }

int chan_shared_take(lua_State *L, Chan *ch) {
  Sharing *sharing = ch->sched->sharing;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  SharedWaiter op = {.chan = shared_of(L, ch), .kind = SHARED_TAKE};
  if (!sharing->given && !(sharing->given = (SharedReturn *)malloc(sizeof *sharing->given))) {
    raise_no_memory(L);
  }
  SharedResult result;
  SharedOutcome outcome = shared_do(&op, 1, NULL, NULL, &result);
  if (outcome == SHARED_NONE) return TAKE_WAIT;
  sharing->has_woken = result.has_woken;
  SharedReturn *given = sharing->given; /* unpacking may run finalizers, which take, too */
  sharing->given = NULL;
  int n = push_result(L, &op, &result, &given);
  if (!sharing->given) sharing->given = given;
  else free(given); /* seldom covered: a finalizer has taken from a shared channel meanwhile */
  if (!n) lua_error(L);
  if (!result.ok) ch->flags |= CHAN_CLOSED;
  chan_shared_look(L, ch->sched); /* a put that was completed may be of this state */
  sharing->number = result.value.number;
  return n;
}

void chan_shared_close(lua_State *L, Chan *ch, int reason) {
  SharedHandle *h = handle_of(ch);
  Sched *S = ch->sched;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (!h->hold.chan) return; /* by a finalizer, when the state is being closed */
  SharedValue packed = {.kind = SHARED_NIL};
  if (reason && !pack(L, S, reason, &packed)) {
    error_push_text(L, reason);
    if (!pack(L, S, lua_gettop(L), &packed)) refuse_value(L, S, "close");
    lua_pop(L, 1);
  }
  shared_close(h->hold.chan, packed);
  ch->flags |= CHAN_CLOSED;
  chan_shared_look(L, S);
}

SharedStats chan_shared_stats(lua_State *L, const Chan *ch) { return shared_chan_stats(shared_of(L, ch)); }

bool chan_shared_is_closed(const Chan *ch) {
  if (ch->flags & CHAN_CLOSED) return true;
  const SharedHandle *h = handle_of(ch);
  return !h->hold.chan || shared_chan_stats(h->hold.chan).closed;
}

bool chan_shared_is_taken(const Chan *ch) {
  const SharedHandle *h = handle_of(ch);
  return h->hold.chan && shared_chan_stats(h->hold.chan).reason_taken;
}

void chan_shared_set_name(lua_State *L, const Chan *ch, const char *name) {
  shared_chan_set_name(shared_of(L, ch), name);
}

/* ---- waiting ---- */

SharedWait *chan_shared_begin(lua_State *L, Sched *S, uint32_t n) {
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  SharedWait *wait = shared_wait_new(S->sharing, n);
  if (!wait) raise_no_memory(L);
  return wait;
}

void chan_shared_add(lua_State *L, SharedWait *wait, int at, int alt_at, bool is_put, const Operation *op) {
  Chan *ch = (Chan *)lua_touserdata(L, at);
  SharedWaiter *w = &wait->ops[wait->n++];
  *w = (SharedWaiter){.chan = handle_of(ch)->hold.chan,
                      .at = alt_at,
                      .kind = is_put ? SHARED_PUT : SHARED_TAKE,
                      .is_free = op->waiter & WAITER_FREE,
                      .gives_up = is_put && op->waiter & WAITER_GIVES_UP};
  wait->is_quiet = op->is_quiet;
  bool is_there = w->chan != NULL;
  if (is_there && (!is_put || pack(L, ch->sched, at + 1, &w->value))) return;
  shared_wait_free(ch->sched->sharing, wait); /* before anything that may raise */
  if (is_there) refuse_value(L, ch->sched, op->name);
  luaL_error(L, "the channel has been finalized"); /* seldom covered: a finalizer has kept it */
}

int chan_shared_do(lua_State *L, Sched *S, SharedWait *wait, Alt *alt, uint8_t flags) {
  Sharing *sharing = S->sharing;
  SharedResult result;
  SharedOutcome outcome = shared_do(wait->ops, wait->n, wait->order, alt ? &wait->alt : NULL, &result);
  if (outcome == SHARED_WAITS && alt) {
    wait->local = alt;
    alt->shared = wait;
    list_append(&sharing->waits, &wait->link);
    return 0;
  }
  if (outcome == SHARED_NONE) {
    shared_wait_free(sharing, wait);
    return 0;
  }
  sharing->has_woken = result.has_woken;
  SharedWaiter *op = &wait->ops[result.op];
  int at = op->at;
  const SharedChan *shared = op->chan;
  bool is_put = op->kind == SHARED_PUT;
  if (outcome == SHARED_TOO_MANY) {
    push_part(L, AT_HANDLES);
    lua_rawgetp(L, -1, op->chan);
    shared_wait_free(sharing, wait);
    return chan_no_room(L, (const Chan *)lua_touserdata(L, -1), lua_gettop(L), is_put);
  }
  int n = push_result(L, op, &result, &wait->given);
  shared_wait_free(sharing, wait);
  if (!n) lua_error(L);
  int port = alt_push_port(L, flags, at);
  if (port && n == 2) lua_insert(L, -2); /* the reason comes last */
  chan_shared_look(L, S);                /* the other side may be of this state */
  if (UNLIKELY(S->trace) && result.ok) {
    push_part(L, AT_HANDLES);
    lua_rawgetp(L, -1, shared);
    Chan *ch = (Chan *)lua_touserdata(L, -1);
    sharing->number = result.value.number;
    if (ch) trace_shared(L, ch, lua_gettop(L), NULL, is_put);
    lua_pop(L, 2);
  }
  return n + port;
}

/* ---- what other threads have completed ---- */

/* Ends a wait whose result nobody here wants any more. */
static void refuse(Sharing *sharing, SharedWait *wait) {
  SharedResult *result = &wait->alt.result;
  const SharedWaiter *op = &wait->ops[result->op];
  if (op->kind == SHARED_TAKE && result->ok && result->value.kind != SHARED_NIL) {
    give_back(op->chan, &result->value, &wait->given); /* seldom covered: it came as the take was withdrawn */
  }
  shared_wait_free(sharing, wait);
}

/* Whether the alt of a wait can still get its result. If somebody has closed its coroutine, its go block ends when its
   turn comes. */
static bool is_wanted(Sched *S, SharedWait *wait) {
  Alt *alt = wait->local;
  if (!alt) return false;
  if (alt_is_active(alt)) return true;
  wait->local = NULL; /* seldom covered: its coroutine was closed as the value came */
  alt->shared = NULL;
  if (alt->flags & ALT_WEAK) return false;
  alt_stop_waiting(S, alt);
  alt_wake(S, alt, 0);
  return false;
}

/* Commits an alt that another thread has completed: it leaves the queues. An operation on a local channel that met it
   meanwhile has taken its waiter out of that queue. */
static void commit(lua_State *L, Sched *S, Alt *alt) {
  alt->shared = NULL;
  if (alt->flags & ALT_WEAK) root_promote(L, S, sched_go(alt));
  alt_withdraw_rest(alt);
}

/* Wakes the owner of a committed alt, whose take has failed with the error on top of L, which is popped. A callback
   cannot raise it: it gets nil and the error, which is reported. */
static void fail(lua_State *L, Sched *S, Alt *alt) {
  if (alt->flags & ALT_CALLBACK) {
    lua_pushvalue(L, -1); /* seldom covered: there was no memory for the value of a callback */
    lua_pushnil(L);
    lua_pushnil(L);
    error_report(L);
    lua_pushnil(alt->co);
  } else {
    alt->flags |= ALT_RAISE;
  }
  lua_xmove(L, alt->co, 1);
  alt_wake(S, alt, alt->flags & ALT_CALLBACK ? 2 : 1);
}

/* Hands the result of a wait to its alt. */
static void complete(lua_State *L, Sched *S, SharedWait *wait) {
  Sharing *sharing = S->sharing;
  int top = lua_gettop(L);
  if (!is_wanted(S, wait)) {
    refuse(sharing, wait); /* seldom covered: see is_wanted */
    return;
  }
  const SharedWaiter *op = &wait->ops[wait->alt.result.op];
  /* The value itself stays with the wait until it is clear that somebody gets it: unpacking may run finalizers. */
  SharedResult result = wait->alt.result;
  result.value = shared_value_copy(&wait->alt.result.value);
  int n = push_result(L, op, &result, &wait->given);
  if (!n) shared_value_drop(&wait->alt.result.value);
  if (!is_wanted(S, wait)) {
    refuse(sharing, wait); /* seldom covered: a finalizer has ended the go block while the value was unpacked */
    lua_settop(L, top);
    return;
  }
  Alt *alt = wait->local;
  int at = op->at;
  commit(L, S, alt);
  if (UNLIKELY(S->trace) && result.ok) {
    sharing->number = result.value.number;
    trace_shared(L, (Chan *)lua_touserdata(alt->co, at), 0, alt, op->kind == SHARED_PUT);
  }
  if (!n) {
    fail(L, S, alt);
  } else {
    lua_pushvalue(L, top + 1);
    lua_xmove(L, alt->co, 1);
    int port = alt_push_port(alt->co, alt->flags, at);
    if (n == 2) lua_xmove(L, alt->co, 1);
    alt_wake(S, alt, n + port);
  }
  shared_wait_free(sharing, wait);
  lua_settop(L, top);
}

/* A watch has seen that its channel was closed. */
static void closed(lua_State *L, Sched *S, SharedWait *watch) {
  SharedHandle *h = handle_of(watch->watching);
  SharedChan *shared = h->hold.chan;
  h->chan.flags |= CHAN_CLOSED;
  h->watch = NULL;
  shared_wait_free(S->sharing, watch);
  push_part(L, AT_HANDLES);
  if (lua_rawgetp(L, -1, shared) == LUA_TUSERDATA) {
    int at = lua_gettop(L);
    attr_push(L, at, ATTR_DONE);
    Chan *done = (Chan *)lua_touserdata(L, -1);
    if (done) chan_close(L, done, lua_gettop(L), 0);
    lua_pop(L, 1);
    chan_call_on_close(L, at);
  }
  lua_pop(L, 2);
}

void chan_shared_drain(lua_State *L, Sched *S) {
  Sharing *sharing = S->sharing;
  if (!lua_checkstack(L, LUA_MINSTACK)) return;
  shared_wait_busy(sharing);
  for (;;) {
    if (!sharing->arrived) sharing->arrived = owner_pop_all(sharing->owner);
    if (!sharing->arrived) return;
    SharedWait *wait = shared_wait_of(sharing->arrived);
    sharing->arrived = sharing->arrived->next;
    shared_settle(&wait->alt);
    if (wait->watching) closed(L, S, wait);
    else complete(L, S, wait);
  }
}

void chan_shared_watch(lua_State *L, Chan *ch, const Chan *done) {
  SharedHandle *h = handle_of(ch);
  Sched *S = ch->sched;
  if (h->watch) {
    if (done) h->watch->done = done;
    return;
  }
  SharedChan *shared = shared_of(L, ch);
  SharedWait *watch = shared_wait_new(S->sharing, 1);
  if (!watch) raise_no_memory(L);
  watch->ops[0] = (SharedWaiter){.chan = shared, .kind = SHARED_WATCH, .is_free = true};
  watch->n = 1;
  SharedResult result;
  SharedOutcome outcome = shared_do(watch->ops, 1, NULL, &watch->alt, &result);
  watch->watching = ch;
  watch->done = done;
  if (outcome == SHARED_WAITS) {
    h->watch = watch;
    list_append(&S->sharing->waits, &watch->link);
  } else {
    closed(L, S, watch);
  }
}
