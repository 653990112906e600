/* shared_ops.c: see shared_ops.h. */
#include "states/shared_ops.h"

#include <lauxlib.h>
#include <stdlib.h>

#include "base/random.h"
#include "channels/alt.h"
#include "core/observe.h"
#include "core/sim_rules.h"
#include "errors/error.h"
#include "states/shared_inbox.h"
#include "states/shared_pack.h"

/* ---- put, take, close ---- */

static PutResult put_now(lua_State *L, Chan *ch, int at, int value) {
  Sched *S = ch->sched;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  SharedWaiter op = {.chan = shared_handle_chan(L, ch), .kind = SHARED_PUT};
  if (!shared_pack(L, S, value, &op.value)) shared_pack_refuse(L, S, "put");
  SharedResult result;
  SharedOutcome outcome = shared_do(&op, 1, NULL, NULL, &result);
  shared_value_drop(&op.value);
  if (outcome == SHARED_NONE) return PUT_WAIT;
  S->sharing->has_woken = result.has_woken;
  shared_value_drop(&result.value);
  if (!result.ok) ch->flags |= CHAN_CLOSED;
  shared_inbox_poll(L, S); /* the take may be of this state */
  S->sharing->number = result.value.number;
  if (!result.ok) return PUT_CLOSED;
  OBSERVE(S, put, L, ch, at, value, NULL);
  return PUT_DONE;
}

int shared_ops_take(lua_State *L, Chan *ch, int at, bool in_loop) {
  Sharing *sharing = ch->sched->sharing;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  SharedWaiter op = {.chan = shared_handle_chan(L, ch), .kind = SHARED_TAKE, .drops_reason = in_loop};
  if (!sharing->given && !(sharing->given = (SharedReturn *)malloc(sizeof *sharing->given))) {
    shared_handle_no_memory(L);
  }
  SharedResult result;
  SharedOutcome outcome = shared_do(&op, 1, NULL, NULL, &result);
  if (outcome == SHARED_NONE) return TAKE_WAIT;
  sharing->has_woken = result.has_woken;
  SharedReturn *given = sharing->given; /* unpacking may run finalizers, which take, too */
  sharing->given = NULL;
  int n = shared_pack_push_result(L, &op, &result, &given);
  if (!sharing->given) sharing->given = given;
  else free(given); /* seldom covered: a finalizer has taken from a shared channel meanwhile */
  if (!n) lua_error(L);
  if (!result.ok) ch->flags |= CHAN_CLOSED;
  shared_inbox_poll(L, ch->sched); /* a put that was completed may be of this state */
  sharing->number = result.value.number;
  if (result.ok) OBSERVE(ch->sched, shared, L, ch, at, NULL, false);
  return n;
}

static void close_chan(lua_State *L, Chan *ch, int at, int reason) {
  (void)at;
  SharedHandle *h = shared_handle_of(ch);
  Sched *S = ch->sched;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (!h->hold) return; /* by a finalizer, when the state is being closed */
  SharedValue packed = {.kind = SHARED_NIL};
  if (reason && !shared_pack(L, S, reason, &packed)) {
    error_push_text(L, reason);
    if (!shared_pack(L, S, lua_gettop(L), &packed)) shared_pack_refuse(L, S, "close");
    lua_pop(L, 1);
  }
  shared_close(h->hold->chan, packed);
  ch->flags |= CHAN_CLOSED;
  shared_inbox_poll(L, S);
  OBSERVE(S, close, ch);
}

static bool can(lua_State *L, Chan *ch, int at, bool is_put) {
  (void)at;
  return shared_can(shared_handle_chan(L, ch), is_put ? SHARED_PUT : SHARED_TAKE);
}

static ChanStats stats(lua_State *L, const Chan *ch) { return shared_chan_stats(shared_handle_chan(L, ch)); }

static bool is_closed(const Chan *ch) {
  if (ch->flags & CHAN_CLOSED) return true;
  const SharedHandle *h = shared_handle_of(ch);
  return !h->hold || shared_chan_stats(h->hold->chan).closed;
}

static bool is_error_taken(const Chan *ch) {
  const SharedHandle *h = shared_handle_of(ch);
  return h->hold && shared_chan_stats(h->hold->chan).reason_taken;
}

void shared_ops_set_name(lua_State *L, const Chan *ch, const char *name) {
  shared_chan_set_name(shared_handle_chan(L, ch), name);
}

/* Pushes the done() channel of a handle. */
static Chan *new_done(lua_State *L, Chan *ch, int at) {
  Chan *done = chan_new(L, ch->sched, sizeof(SharedDone), CHAN_VALUES);
  done->flags = CHAN_DONE_SHARED;
  CONTAINER_OF(done, SharedDone, chan)->shared = shared_handle_get(ch);
  lua_pushvalue(L, at); /* the done() channel keeps the handle: another state may close the shared channel */
  lua_setiuservalue(L, -2, CHAN_VALUES);
  return done;
}

static int take(lua_State *L, Chan *ch, int at) { return shared_ops_take(L, ch, at, false); }

static int wait_for(lua_State *L, Chan *ch, int at, Alt *alt, int alt_at, const Operation *op) {
  SharedWait *wait = shared_ops_begin(L, ch->sched, 1);
  shared_ops_add(L, wait, at, alt_at, op->is_put, op);
  int n = shared_ops_do(L, ch->sched, wait, alt, 0);
  if (n && (op->is_put ? !lua_toboolean(L, -1) : lua_isnil(L, -n))) ch->flags |= CHAN_CLOSED;
  return n;
}

const ChanOps shared_handle_ops = {.put = put_now,
                                   .take = take,
                                   .close = close_chan,
                                   .stats = stats,
                                   .can = can,
                                   .wait = wait_for,
                                   .new_done = new_done,
                                   .watch = shared_inbox_watch,
                                   .is_closed = is_closed,
                                   .is_error_taken = is_error_taken};

/* ---- waiting ---- */

SharedWait *shared_ops_begin(lua_State *L, Sched *S, uint32_t n) {
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  SharedWait *wait = shared_wait_new(S->sharing, n);
  if (!wait) shared_handle_no_memory(L);
  return wait;
}

void shared_ops_add(lua_State *L, SharedWait *wait, int at, int alt_at, bool is_put, const Operation *op) {
  Chan *ch = (Chan *)lua_touserdata(L, at);
  SharedWaiter *w = &wait->ops[wait->n++];
  *w = (SharedWaiter){.chan = shared_handle_get(ch),
                      .at = alt_at,
                      .kind = is_put ? SHARED_PUT : SHARED_TAKE,
                      .is_uncounted = op->waiter & WAITER_UNCOUNTED,
                      .gives_up = is_put && op->waiter & WAITER_GIVES_UP,
                      .drops_reason = op->flags & ALT_LOOP};
  wait->is_quiet = op->is_quiet;
  bool is_there = w->chan != NULL;
  if (is_there && (!is_put || shared_pack(L, ch->sched, at + 1, &w->value))) return;
  shared_wait_free(ch->sched->sharing, wait); /* before anything that may raise */
  if (is_there) shared_pack_refuse(L, ch->sched, "put");
  luaL_error(L, "the channel has been finalized"); /* seldom covered: a finalizer has kept it */
}

static inline bool compete(const SharedWaiter *a, const SharedWaiter *b) {
  return a->chan == b->chan && a->kind == b->kind;
}

void shared_ops_draw(Sched *S, SharedWait *wait, bool by_index) {
  const SimRules *rules = S->world.rules && S->world.rules->choose_operation ? S->world.rules : NULL;
  SharedWaiter *ops = wait->ops;
  for (uint32_t i = 0, n = wait->n; i < n; i++) {
    uint32_t drawn = rules ? i : i + random_below(&S->world.random, n - i), same = 0, before = 0;
    bool differ = by_index || ops[i].kind == SHARED_PUT; /* else these takes return the same port */
    for (uint32_t j = 0; rules && differ && j < n; j++) *(j < i ? &before : &same) += compete(&ops[i], &ops[j]);
    uint32_t k = same > 1 && !before ? rules->choose_operation(S, same) : 0;
    while (k > 0) k -= compete(&ops[i], &ops[++drawn]);
    SharedWaiter last = ops[i];
    ops[i] = ops[drawn];
    ops[drawn] = last;
  }
}

int shared_ops_do(lua_State *L, Sched *S, SharedWait *wait, Alt *alt, uint8_t flags) {
  Sharing *sharing = S->sharing;
  SharedResult result;
  SharedOutcome outcome = shared_do(wait->ops, wait->n, wait->order, &wait->alt, &result);
  if (outcome == SHARED_WAITS) {
    wait->local = alt;
    alt->shared = wait;
    list_append(&sharing->waits, &wait->link);
    return 0;
  }
  sharing->has_woken = result.has_woken;
  SharedWaiter *op = &wait->ops[result.op];
  int at = op->at;
  const SharedChan *shared = op->chan;
  bool is_put = op->kind == SHARED_PUT;
  if (outcome == SHARED_TOO_MANY) {
    shared_wait_push_part(L, SHARED_HANDLES);
    lua_rawgetp(L, -1, op->chan);
    shared_wait_free(sharing, wait);
    return chan_no_room(L, (const Chan *)lua_touserdata(L, -1), lua_gettop(L), is_put);
  }
  int n = shared_pack_push_result(L, op, &result, &wait->given);
  shared_wait_free(sharing, wait);
  if (!n) lua_error(L);
  int port = alt_push_port(L, flags, at);
  if (port && n == 2) lua_insert(L, -2); /* the reason comes last */
  shared_inbox_poll(L, S);               /* the other side may be of this state */
  if (UNLIKELY(S->is_observed) && result.ok) {
    shared_wait_push_part(L, SHARED_HANDLES); /* seldom covered: another thread has just come */
    lua_rawgetp(L, -1, shared);
    Chan *ch = (Chan *)lua_touserdata(L, -1);
    sharing->number = result.value.number;
    if (ch) OBSERVE(S, shared, L, ch, lua_gettop(L), NULL, is_put);
    lua_pop(L, 2);
  }
  return n + port;
}
