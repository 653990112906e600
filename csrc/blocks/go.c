/* go.c: see go.h. */
#include "blocks/go.h"

#include <lauxlib.h>

#include "blocks/go_close.h"
#include "channels/alt.h"
#include "channels/chan.h"
#include "core/attr.h"
#include "core/observe.h"
#include "core/setup.h"
#include "errors/error.h"
#include "errors/unhandled.h"
#include "lifetimes/keep.h"
#include "lifetimes/root.h"
#include "states/interruption.h"
#include "states/shared_inbox.h"

enum {
  MAX_ARGUMENTS = 65000,            /* the most arguments of a go block's function: Alt.nresults counts them */
  FEW_ARGUMENTS = LUA_MINSTACK / 2, /* a new coroutine has room for these */
  STACK_TO_GIVE_UP = 13             /* slots of L, including those for the report of an error */
};

/* Makes a go block with `nuvalues` user values, a strong root, and moves the `n` values on top of L to its coroutine,
   above the guard (go_close.h). The callers are functions that Lua calls, and have pushed few values: L has room. */
static Go *new_go(lua_State *L, Sched *S, int n, int nuvalues) {
  Go *go = (Go *)chan_new(L, S, sizeof(Go), nuvalues);
  int at = lua_gettop(L);
  go->chan.flags = CHAN_RESULT | CHAN_GO | keep_result(S);
  lua_State *co = lua_newthread(L);
  go->alt = (Alt){.co = co, .state = ALT_NEW, .flags = ALT_BARE};
  go->origin = S->current ? S->current->origin : 0;
  go->host = S->current ? S->current->host : 0;
  lua_setiuservalue(L, at, GO_COROUTINE);
  if (UNLIKELY(n > FEW_ARGUMENTS) && !lua_checkstack(co, n + LUA_MINSTACK)) {
    luaL_error(L, "too many arguments for a go block"); /* uncovered: only when memory runs out */
  }
  go_close_guard(L, co);
  root_add(L, S, go, at); /* the last call that may raise */
  S->world.living++;
  lua_insert(L, at - n);
  lua_xmove(L, co, n);
  return go;
}

/* Makes a ready go block with `nuvalues` user values; see go_spawn. */
static inline Go *spawn(lua_State *L, Sched *S, int nargs, int nuvalues) {
  if (UNLIKELY(nargs > MAX_ARGUMENTS)) luaL_error(L, "too many arguments for a go block");
  Go *go = new_go(L, S, nargs + 1, nuvalues);
  go->alt.nresults = (uint16_t)nargs;
  alt_make_ready(S, &go->alt);
  OBSERVE(S, spawn, L, S, go, lua_gettop(L));
  return go;
}

Go *go_spawn(lua_State *L, Sched *S, int nargs) { return spawn(L, S, nargs, GO_COROUTINE); }

Go *go_spawn_feeding(lua_State *L, Sched *S, int nargs) {
  int give_up = lua_gettop(L) - nargs - 2;
  Go *go = spawn(L, S, nargs, GO_FED);
  go->chan.flags |= CHAN_FEEDS;
  lua_insert(L, give_up);
  lua_setiuservalue(L, give_up, GO_FED);
  lua_setiuservalue(L, give_up, GO_GIVE_UP);
  return go;
}

Go *go_spawn_waiting(lua_State *L, Sched *S, int n) {
  Go *go = new_go(L, S, n, GO_COROUTINE);
  go->alt.flags |= ALT_CALLBACK;
  OBSERVE(S, spawn, L, S, go, lua_gettop(L));
  return go;
}

/* Protected: closes a channel: (ch, reason or nil), or, if that has failed, (ch): the second upvalue is the reason. */
static int close_special(lua_State *L) {
  int reason = lua_gettop(L) == 1 ? lua_upvalueindex(2) : lua_isnil(L, 2) ? 0 : 2;
  chan_close(L, (Chan *)lua_touserdata(L, 1), 1, reason);
  return 0;
}

/* Closes the channel on top of L, unless it closes itself or is no channel, and pops it. */
static void close_one(lua_State *L, int reason) {
  int at = lua_gettop(L);
  Chan *ch = chan_to(L, at);
  if (ch && !(ch->flags & (CHAN_CLOSES_ITSELF | CHAN_SPECIAL | CHAN_RESULT))) {
    chan_close(L, ch, at, lua_isnil(L, reason) ? 0 : reason);
  } else if (ch && !(ch->flags & CHAN_CLOSES_ITSELF)) {
    for (int nargs = 2; nargs > 0 && !chan_is_closed(ch); nargs--) {
      lua_getiuservalue(L, SCHED_SELF, SCHED_CLOSE);
      lua_pushvalue(L, at);
      if (nargs == 2) lua_pushvalue(L, reason);
      (void)lua_pcall(L, nargs, 0, 0);
      lua_settop(L, at);
    }
  }
  lua_pop(L, 1);
}

void go_close_fed(lua_State *L, int fed, int reason) {
  if (lua_istable(L, fed)) {
    for (lua_Integer i = 1; lua_rawgeti(L, fed, i) != LUA_TNIL; i++) close_one(L, reason);
    lua_pop(L, 1);
  } else {
    lua_pushvalue(L, fed);
    close_one(L, reason);
  }
}

/* Calls the give_up function of the go block at index `at`; see give_up. Returns whether that has succeeded. */
static bool call_give_up(lua_State *L, int at, int reason, int trace, bool is_reported) {
  if (!lua_checkstack(L, STACK_TO_GIVE_UP)) return false;
  lua_getiuservalue(L, at, GO_GIVE_UP);
  lua_getiuservalue(L, at, GO_FED);
  lua_pushvalue(L, reason);
  lua_pushvalue(L, at);
  lua_pushboolean(L, is_reported);
  if (trace) lua_pushvalue(L, trace);
  else lua_pushnil(L);
  return error_call(L, 5, "a function that is called when a go block dies", at);
}

/* Calls the give_up function of the dead go block whose userdata is on top of L. `reason` and `trace` are the indices
   of the error and of its traceback (0: none); `is_reported` tells whether the error is reported. Does not raise: an
   error in give_up goes to on_error, and then this closes what is fed. */
static void give_up(lua_State *L, int reason, int trace, bool is_reported) {
  int at = lua_gettop(L);
  const Chan *ch = (const Chan *)lua_touserdata(L, at);
  if (LIKELY(!(ch->flags & CHAN_FEEDS))) return;
  Sched *S = ch->sched;
  bool outer = S->gives_up;
  S->gives_up = true;
  if (!call_give_up(L, at, reason, trace, is_reported)) {
    lua_getiuservalue(L, at, GO_FED);
    go_close_fed(L, at + 1, reason);
    lua_pop(L, 1);
  }
  S->gives_up = outer;
}

/* Sets up the buffer for the result of a go block that has ended, in the memory of its alt. */
static void begin_result(Chan *ch) {
  ch->buf.kind = BUFFER_FIXED;
  ch->buf.base = GO_RESULT;
  ch->buf.limit = ch->buf.size = 1;
  ch->buf.head = ch->buf.count = 0;
  ch->take_total = 0;
  ch->flags &= ~(uint32_t)CHAN_RESULT;
}

/* Ends a go block and pushes what root_remove pushes: on top its userdata. Puts the value at index `result` of L on the
   result channel and closes it with the error at index `reason` (0: none). Allocates nothing, and so does not raise. */
static void end(lua_State *L, Sched *S, Go *go, int result, int reason) {
  root_remove(L, S, go);
  if (sched_is_of_world(S, go)) S->world.living--;
  int at = lua_gettop(L);
  go->alt.state = ALT_DEAD;
  go->alt.co = NULL;
  begin_result(&go->chan);
  lua_pushnil(L);
  lua_setiuservalue(L, at, GO_COROUTINE);
  if (result && !lua_isnil(L, result)) chan_put(L, &go->chan, at, result);
  if (reason) go->chan.flags |= CHAN_ERROR_KNOWN;
  chan_close(L, &go->chan, at, reason);
  OBSERVE(S, end, S, go, reason && !result && !go_is_cancellation(L, at, reason));
  if (go == S->awaited) S->stop = true;
}

/* A go block's function has returned `n` values, which are on its stack: a result, or nil and an error. */
static void ended_well(lua_State *L, Sched *S, Go *go, int n) {
  lua_State *co = go->alt.co;
  int top = lua_gettop(L), result = 0, reason = 0;
  if (LIKELY(go != S->awaited)) {
    if (n > 0 && !(go->alt.flags & ALT_CALLBACK)) {
      int kept = n > 1 && lua_isnil(co, -n) && !lua_isnil(co, 1 - n) ? 2 : 1;
      if (n > kept) lua_settop(co, kept - n - 1); /* the last kept value is on top */
      lua_xmove(co, L, kept);
      result = top + 1;
      if (kept == 2) reason = top + 2;
    }
    go_close_finish(S, go, co);
  } /* else the caller of sched_run keeps the coroutine alive and takes all results from it */
  end(L, S, go, result, reason);
  lua_settop(L, top);
}

void go_excuse(lua_State *L, int at, int err) {
  if (lua_isnil(L, err)) lua_pushlightuserdata(L, L);
  else lua_pushvalue(L, err);
  attr_set(L, at, ATTR_CANCEL);
}

void go_push_cancellation(lua_State *L, const Go *go) {
  root_push(L, go);
  int at = lua_gettop(L);
  attr_push(L, at, ATTR_CANCEL_2);
  if (lua_isnil(L, -1)) attr_push(L, at, ATTR_CANCEL);
  lua_replace(L, at);
  lua_settop(L, at);
}

bool go_is_cancellation(lua_State *L, int at, int err) {
  bool is = false, is_nil = lua_isnil(L, err), has_attrs = attr_push_table(L, at);
  for (Attr key = ATTR_CANCEL; has_attrs && key <= ATTR_CANCEL_2 && !is; key++) {
    lua_rawgeti(L, -1, key);
    is = is_nil ? lua_islightuserdata(L, -1) : lua_rawequal(L, -1, err);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return is;
}

/* Pops the error on top of L: the caller of sched_run raises it. */
static void fail_awaited(lua_State *L, Sched *S) {
  S->awaited->alt.flags |= ALT_RAISE;
  lua_settop(S->outside.co, 0);
  lua_xmove(L, S->outside.co, 1);
}

/* A go block has died, and all its variables are closed. Pops the name, the traceback and the error. */
static void ended_badly(lua_State *L, Sched *S, Go *go) {
  int top = lua_gettop(L) - 3;
  bool is_awaited = go == S->awaited;
  S->current = NULL;
  end(L, S, go, 0, top + 1);
  lua_remove(L, -2); /* the table of strong roots */
  give_up(L, top + 1, top + 2, !is_awaited && !go_is_cancellation(L, lua_gettop(L), top + 1));
  lua_insert(L, top + 1); /* result channel, error, traceback, name */
  if (is_awaited) {
    lua_settop(L, top + 2);
    fail_awaited(L, S);
  } else if (!go_is_cancellation(L, top + 1, top + 2)) {
    bool is_callback = go->alt.flags & ALT_CALLBACK && go->alt.flags & ALT_BARE;
    if (is_callback || lua_isnil(L, top + 2))
      error_report(L); /* the program cannot take the error, or tell a nil from a plain close */
    else unhandled_add(L, S, top + 1);
  }
  lua_settop(L, top);
}

/* A go block dies of the error on top of L, which is popped. Its own stack may be full. Returns how many values to
   resume its closer with; or 0: it has no variable to close, and has ended. */
static int dies(lua_State *L, Sched *S, Go *go) {
  int err = lua_gettop(L);
  S->on_park = NULL;
  root_push(L, go);
  /* If it was cancelled and has not got that error yet, this error counts as the cancellation: the code that cancels a
     go block does not want its errors. The attribute exists, so this allocates nothing. */
  if (go->chan.flags & CHAN_TOLD)
    go->alt.flags &= (uint8_t)~ALT_CANCEL; /* its variables may wait while they are closed */
  else if (go->alt.flags & ALT_CANCEL && !(go->chan.flags & CHAN_DYING)) go_excuse(L, err + 1, err);
  error_describe_death(L, err + 1, go_is_cancellation(L, err + 1, err));
  lua_remove(L, err + 1); /* error, traceback, name */
  go->chan.flags = (go->chan.flags | CHAN_DYING) & ~(uint32_t)(CHAN_KILLED | CHAN_TOLD);
  int n = go_close_start(L, S, go);
  if (n == 0) ended_badly(L, S, go);
  return n;
}

/* Protected: if the message gets no memory, the go block dies of that error. */
static int raise_yielded(lua_State *L) {
  return luaL_error(L, "a go block called coroutine.yield, and nothing would resume it: use rn.yield to let others "
                       "run, or call the code that yields in a coroutine of its own");
}

/* A go block's coroutine has yielded `n` values outside an operation: it dies. Returns what dies() returns. */
static int yielded(lua_State *L, Sched *S, Go *go, int n) {
  uint8_t is_callback = go->alt.flags & ALT_CALLBACK;
  lua_pop(go->alt.co, n);
  go->alt.flags |= ALT_CALLBACK; /* it cannot park if a finalizer resumes it before it is closed */
  if (go->chan.flags & CHAN_KILLED) {
    go->alt.flags &= (uint8_t)~ALT_RAISE; /* that flag was for the operation that it does not complete */
    if (go->chan.flags & CHAN_TOLD) go_push_cancellation(L, go);
    else lua_getiuservalue(L, SCHED_SELF, SCHED_BURIED);
  } else {
    lua_pushcfunction(L, interruption_has_ended(S) ? interruption_throw : raise_yielded);
    lua_pcall(L, 0, 0, 0);
  }
  n = dies(L, S, go);
  go->alt.flags = (uint8_t)((go->alt.flags & ~ALT_CALLBACK) | is_callback);
  return n;
}

void go_left(lua_State *L, Sched *S, Go *go, int status, int n) {
  if (UNLIKELY(status > LUA_YIELD && lua_status(go->alt.co) <= LUA_YIELD)) {
    /* Lua could not resume it: other code has resumed it, and it runs. */
    lua_pop(go->alt.co, 1); /* seldom covered: specs resume it at random moments */
    go_bury_unfit(L, S, go);
    return;
  }
  while (status != LUA_OK || n == 0) { /* n == 0: without the guard, since it has closed its own coroutine (Lua 5.5) */
    if (status == LUA_YIELD) {
      if (go->alt.state != ALT_IDLE) return; /* a variable that it closes waits */
      n = yielded(L, S, go, n);
    } else {
      if (status != LUA_OK) lua_xmove(go->alt.co, L, 1);
      else lua_getiuservalue(L, SCHED_SELF, SCHED_BURIED); /* seldom covered: Lua 5.5 only */
      n = dies(L, S, go);
    }
    if (n == 0) return;
    status = lua_resume(go->alt.co, go_resumer(L), n, &n);
  }
  if (go->chan.flags & CHAN_DYING) {
    lua_State *co = go->alt.co;
    lua_xmove(co, L, 3);
    go_close_finish(S, go, co);
    ended_badly(L, S, go);
  } else {
    ended_well(L, S, go, n - 1); /* Lua counts the guard as a result */
  }
}

/* Ends a go block, whose userdata is on top of L, because other code closes its coroutine. Does not raise. */
static void bury(lua_State *L, Sched *S, Go *go) {
  int at = lua_gettop(L);
  if (go->alt.flags & ALT_WEAK) root_make_strong(L, S, go, at);
  alt_stop_waiting(S, &go->alt);
  lua_getiuservalue(L, SCHED_SELF, SCHED_BURIED);
  end(L, S, go, 0, at + 1);
  give_up(L, at + 1, 0, false);
  lua_settop(L, at + 1);
  if (go == S->awaited) fail_awaited(L, S);
  lua_settop(L, at);
}

void go_bury_unfit(lua_State *L, Sched *S, Go *go) {
  root_push(L, go);
  go->alt.state = ALT_IDLE; /* the loop has removed it from the run queue */
  S->current = NULL;
  bury(L, S, go);
  lua_pop(L, 1);
}

/* __close of the guard: (guard, error). Ends the go block whose coroutine L is, unless the scheduler closes it. */
static int on_guard_closed(lua_State *L) {
  Sched *S = sched_self(L);
  if (S->current && S->current->alt.co == L) return 0;
  for (uint32_t i = 1; i <= root_count(S); i++) {
    lua_settop(L, 0);
    Go *go = root_push_at(L, i);
    if (go && go->alt.co == L) {
      bury(L, S, go);
      break;
    }
  }
  return 0;
}

/* A killed go block yields whenever it is resumed. */
static int stay_killed(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  lua_settop(L, 0);
  return lua_yieldk(L, 0, 0, stay_killed);
}

int go_kill(lua_State *L, Go *go) {
  Sched *S = go->chan.sched;
  Alt *alt = &go->alt;
  if (alt->flags & ALT_WEAK) root_promote(L, S, go);
  /* If it is parked but in no queue, it has been committed. The code that completes it runs user code, and wakes it. */
  bool is_being_completed = alt->state == ALT_PARKED && alt->count == 0;
  if (alt->state != ALT_READY && !is_being_completed) {
    alt_stop_waiting(S, alt);
    alt_make_ready(S, alt);
  }
  alt->nresults = 0;
  alt->flags &= (uint8_t) ~(ALT_SELECT | ALT_INDEX | ALT_LOOP); /* its operation is not on its stack any more */
  go->chan.flags |= CHAN_KILLED;
  return stay_killed(L, LUA_YIELD, 0);
}

/* Whether there is something to cancel: not if the go block has ended, or a simulation has dropped it; if other code
   closes its coroutine; or if it is a callback that the loop is about to call, which cannot wait. */
static bool is_cancellable(const Go *go) {
  const Alt *alt = &go->alt;
  if (!go->slot || alt->state == ALT_NEW) return false;
  if (alt->state == ALT_SLEEPING || alt->count) return alt_is_active(alt);
  return !(alt->flags & ALT_CALLBACK);
}

/* Withdraws the operation of a go block, which is to be committed, from other waits (Alt.shared). Promotes the go block
   before, since that may fail (root.h). Returns false if another thread has completed the operation. */
static bool withdraw(lua_State *L, Sched *S, Go *go) {
  if (LIKELY(!go->alt.shared)) return true;
  if (go->alt.flags & ALT_WEAK) root_promote(L, S, go);
  return shared_wait_withdraw(S, &go->alt);
}

bool go_cancel(lua_State *L, Sched *S, Go *go, int at, int reason) {
  Alt *alt = &go->alt;
  if (go->slot) attr_table(L, at);         /* before the checks: may run finalizers */
  else go->chan.flags |= CHAN_ERROR_TAKEN; /* it has ended: the program gives up its error */
  if (!is_cancellable(go)) return false;
  if (alt->flags & ALT_CANCEL && !(go->chan.flags & CHAN_TOLD)) return true;
  lua_pushvalue(L, reason);
  lua_rawseti(L, -2, go->chan.flags & CHAN_DYING ? ATTR_CANCEL_2 : ATTR_CANCEL);
  lua_pop(L, 1);
  go->chan.flags &= ~(uint32_t)CHAN_TOLD;
  bool is_parked = alt->count > 0; /* false if it was committed, by code that now runs user code */
  if (UNLIKELY(!withdraw(L, S, go))) {
    /* Another thread has completed its operation: it gets that result first. */
    shared_inbox_drain(L, S); /* seldom covered: another thread completes it just then */
    if (alt->flags & ALT_CALLBACK || !is_cancellable(go)) return false; /* seldom covered: see above */
    alt->flags |= ALT_CANCEL;                                           /* seldom covered: see above */
    return true;                                                        /* seldom covered: see above */
  }
  if (is_parked) alt_commit(L, S, alt);
  if (is_parked && alt->flags & ALT_CALLBACK) {
    end(L, S, go, 0, reason);
    lua_pop(L, 2);
    return true;
  }
  alt->flags |= ALT_CANCEL;
  if (alt->state == ALT_SLEEPING) alt_stop_waiting(S, alt);
  else if (!is_parked) return true;
  alt_wake(S, alt, 0);
  return true;
}

bool go_withdraw_take(lua_State *L, Sched *S, Go *go, const Chan *ch) {
  Alt *alt = &go->alt;
  bool waits = go->slot && alt->count == 1 && !(alt->flags & (ALT_SELECT | ALT_CALLBACK));
  if (!waits || alt->own.waiter.chan != ch || alt->own.waiter.is_put || !alt_is_active(alt)) return false;
  if (!withdraw(L, S, go)) return false;
  lua_pushnil(alt->co);
  alt_complete(L, S, alt, 1);
  return true;
}

void go_open(lua_State *L) {
  lua_pushliteral(L, "the coroutine of the go block was closed or resumed by other code");
  lua_setiuservalue(L, SCHED_SELF, SCHED_BURIED);
  lua_newuserdatauv(L, 0, 0);
  setup_push_meta(L, "__close", on_guard_closed);
  lua_setmetatable(L, -2);
  lua_setiuservalue(L, SCHED_SELF, SCHED_GUARD);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushliteral(L, "out of memory"); /* so short that a shared channel needs no memory for it */
  lua_pushcclosure(L, close_special, 2);
  lua_setiuservalue(L, SCHED_SELF, SCHED_CLOSE);
  go_close_open(L);
}
