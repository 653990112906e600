/* go.c: see go.h. */
#include "core/go.h"

#include <lauxlib.h>

#include "core/anchor.h"
#include "core/closing.h"
#include "core/error.h"
#include "core/unhandled.h"

enum {
  MAX_ARGUMENTS = 65000,             /* of a go block's function, at most: Alt.nresults counts them */
  FEW_ARGUMENTS = LUA_MINSTACK / 2 /* for so many a new coroutine has room */
};

/* Slots for give_up, those of an error's report included. */
enum { STACK_TO_GIVE_UP = 12 };

/* Makes the userdata and the coroutine of a go block, holds it, and moves the `n` values on top of L to the coroutine,
   above the guard (closing.h). The callers are functions that Lua calls, and have pushed no more than a few values:
   there is room on their stack. */
static Go *new_go(lua_State *L, Sched *S, int n, int nuvalues) {
  Go *go = (Go *)lua_newuserdatauv(L, sizeof(Go), nuvalues);
  int at = lua_gettop(L);
  chan_init(&go->chan, S);
  go->chan.buf = (Buffer){.kind = BUFFER_FIXED, .limit = 1, .size = 1, .base = CHAN_VALUES};
  go->chan.flags = CHAN_RESULT | CHAN_GO;
  lua_getiuservalue(L, SCHED_SELF, SCHED_CHAN_META);
  lua_setmetatable(L, at);
  lua_State *co = lua_newthread(L);
  go->alt = (Alt){.co = co, .state = ALT_NEW, .flags = ALT_BARE};
  go->origin = S->current ? S->current->origin : 0;
  lua_setiuservalue(L, at, CHAN_VALUES);
  if (UNLIKELY(n > FEW_ARGUMENTS) && !lua_checkstack(co, n + LUA_MINSTACK)) luaL_error(L, "too many arguments for a go block");
  closing_guard(L, co);
  anchor_hold(L, S, go, at); /* the last that may raise */
  lua_insert(L, at - n);
  lua_xmove(L, co, n);
  return go;
}

static inline Go *spawn(lua_State *L, Sched *S, int nargs, int nuvalues) {
  if (UNLIKELY(nargs > MAX_ARGUMENTS)) luaL_error(L, "too many arguments for a go block");
  Go *go = new_go(L, S, nargs + 1, nuvalues);
  go->alt.nresults = (uint16_t)nargs;
  sched_ready(S, &go->alt);
  return go;
}

Go *go_spawn(lua_State *L, Sched *S, int nargs) { return spawn(L, S, nargs, GO_WAITS); }

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
  Go *go = new_go(L, S, n, GO_WAITS);
  go->alt.flags |= ALT_CALLBACK;
  return go;
}

/* Calls the give_up function of a go block, whose userdata is on top of L, that has died for the reason at that index;
   `is_reported`: whether that error is reported. Does not raise: an error in give_up goes to on_error. */
static void give_up(lua_State *L, int reason, bool is_reported) {
  int at = lua_gettop(L);
  if (LIKELY(!(((const Chan *)lua_touserdata(L, at))->flags & CHAN_FEEDS)) || !lua_checkstack(L, STACK_TO_GIVE_UP)) return;
  lua_getiuservalue(L, at, GO_GIVE_UP);
  lua_getiuservalue(L, at, GO_FED);
  lua_pushvalue(L, reason);
  lua_pushvalue(L, at);
  lua_pushboolean(L, is_reported);
  error_call(L, 4, "a function that is called when a go block dies", at);
}

/* Ends a go block: its coroutine is done with. Pushes its userdata, which the scheduler lets go of; it closes with the
   value at index `result` of L as its one value, or at `reason` as its error (0: none). Does not raise: nothing here
   allocates. */
static void end(lua_State *L, Sched *S, Go *go, int result, int reason) {
  anchor_pop(L, S, go);
  int at = lua_gettop(L);
  go->alt.state = ALT_DEAD;
  go->alt.co = NULL;
  go->chan.flags &= ~(uint32_t)CHAN_RESULT;
  lua_pushnil(L);
  lua_setiuservalue(L, at, CHAN_VALUES); /* lets go of the coroutine */
  if (result && !lua_isnil(L, result)) chan_put(L, &go->chan, at, result);
  chan_close(L, &go->chan, at, reason);
  if (go == S->root) S->stop = true;
}

/* A go block's function has returned `n` values, which are on its stack. */
static void ended_well(lua_State *L, Sched *S, Go *go, int n) {
  lua_State *co = go->alt.co;
  int top = lua_gettop(L), result = 0;
  if (LIKELY(go != S->root)) {
    if (n > 0 && !(go->alt.flags & ALT_CALLBACK)) {
      if (n > 1) lua_settop(co, -n); /* the first result is on top */
      lua_xmove(co, L, 1);
      result = top + 1;
    }
    closing_finish(S, go, co);
  } /* else they are all wanted: sched_run's caller takes them from the coroutine, which it holds */
  end(L, S, go, result, 0);
  lua_settop(L, top);
}

bool go_is_cancellation(lua_State *L, int at, int err) {
  bool is = false;
  for (ChanExtra key = EXTRA_CANCEL; key <= EXTRA_CANCEL_2 && !is; key++) {
    chan_extra(L, at, key);
    is = !lua_isnil(L, -1) && lua_rawequal(L, -1, err);
    lua_pop(L, 1);
  }
  return is;
}

/* Makes the error on top of L, which is popped, that of the root: whoever runs it raises it. */
static void fail_root(lua_State *L, Sched *S, Go *root) {
  root->alt.flags |= ALT_RAISE;
  lua_settop(S->outside.co, 0);
  lua_xmove(L, S->outside.co, 1);
}

/* A go block has died, and all its variables are closed. On top of L, and popped: the error, the traceback, the
   name. */
static void ended_badly(lua_State *L, Sched *S, Go *go) {
  int top = lua_gettop(L) - 3;
  bool is_root = go == S->root;
  S->current = NULL;
  end(L, S, go, 0, top + 1);
  give_up(L, top + 1, !is_root && !go_is_cancellation(L, lua_gettop(L), top + 1));
  lua_insert(L, top + 1); /* result channel, error, traceback, name */
  if (is_root) {
    lua_settop(L, top + 2);
    fail_root(L, S, go);
  } else if (!go_is_cancellation(L, top + 1, top + 2)) {
    bool is_callback = go->alt.flags & ALT_CALLBACK && go->alt.flags & ALT_BARE;
    if (is_callback || lua_isnil(L, top + 2)) error_report(L); /* nobody can take it, or know nil from a close */
    else unhandled_add(L, S, top + 1);
  }
  lua_settop(L, top);
}

/* A go block dies of the error on top of L, which is popped. Its own stack may have no room for one value more. Returns
   how many values its closer is to be resumed with, or 0 when there is nothing left to close, and it has ended. */
static int dies(lua_State *L, Sched *S, Go *go) {
  int err = lua_gettop(L);
  anchor_push(L, go);
  error_describe_death(L, err + 1, go_is_cancellation(L, err + 1, err));
  lua_remove(L, err + 1); /* error, traceback, name */
  go->chan.flags = (go->chan.flags | CHAN_DYING) & ~(uint32_t)CHAN_KILLED;
  int n = closing_start(L, S, go);
  if (n == 0) ended_badly(L, S, go);
  return n;
}

/* Protected: there may be no memory for the message, and then it is that which the go block dies of. */
static int raise_yielded(lua_State *L) {
  return luaL_error(L, "a go block was left by coroutine.yield, and nobody would resume it: use rn.yield to let others run, "
                       "or call the code that yields in a coroutine of its own");
}

/* A go block's coroutine has yielded `n` values, but not by an operation of ours: it dies, as of dies(). */
static int yielded(lua_State *L, Sched *S, Go *go, int n) {
  uint8_t is_callback = go->alt.flags & ALT_CALLBACK;
  lua_pop(go->alt.co, n);
  go->alt.flags |= ALT_CALLBACK; /* a finalizer may resume it before it is closed; it cannot park any more */
  if (go->chan.flags & CHAN_KILLED) {
    lua_getiuservalue(L, SCHED_SELF, SCHED_BURIED);
  } else {
    lua_pushcfunction(L, raise_yielded);
    lua_pcall(L, 0, 0, 0);
  }
  n = dies(L, S, go);
  go->alt.flags = (uint8_t)((go->alt.flags & ~ALT_CALLBACK) | is_callback);
  return n;
}

void go_left(lua_State *L, Sched *S, Go *go, int status, int n) {
  if (UNLIKELY(status > LUA_YIELD && lua_status(go->alt.co) <= LUA_YIELD)) {
    /* It could not be resumed, since somebody else has resumed it, and it is running now. */
    lua_pop(go->alt.co, 1);
    go_bury_unfit(L, S, go);
    return;
  }
  while (status != LUA_OK) {
    if (status == LUA_YIELD) {
      if (go->alt.state != ALT_IDLE) return; /* a variable that is being closed waits */
      n = yielded(L, S, go, n);
    } else {
      lua_xmove(go->alt.co, L, 1);
      n = dies(L, S, go);
    }
    if (n == 0) return;
    S->current = go;
    status = lua_resume(go->alt.co, go_resumer(L), n, &n);
  }
  if (go->chan.flags & CHAN_DYING) {
    lua_State *co = go->alt.co;
    lua_xmove(co, L, 3);
    closing_finish(S, go, co);
    ended_badly(L, S, go);
  } else {
    ended_well(L, S, go, n - 1); /* Lua counts the guard among them */
  }
}

void go_bury(lua_State *L, Sched *S, Go *go) {
  int at = lua_gettop(L);
  /* While a coroutine is being closed its stack holds nothing any more, not even the channels that it waits on. */
  if (go->alt.flags & ALT_AWAY) anchor_reclaim(L, S, go, at);
  sched_withdraw(S, &go->alt);
  lua_pushnil(L);
  lua_setiuservalue(L, at, GO_WAITS);
  lua_getiuservalue(L, SCHED_SELF, SCHED_BURIED);
  bool is_root = go == S->root;
  end(L, S, go, 0, at + 1);
  give_up(L, at + 1, false);
  lua_settop(L, at + 1);
  if (is_root) fail_root(L, S, go);
  lua_settop(L, at);
}

void go_bury_unfit(lua_State *L, Sched *S, Go *go) {
  int top = lua_gettop(L);
  anchor_push(L, go);
  go->alt.state = ALT_IDLE; /* it is not in the run queue any more */
  S->current = NULL;
  go_bury(L, S, go);
  lua_settop(L, top);
}

/* What a go block does that was killed, whoever resumes it. */
static int stay_killed(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  lua_settop(L, 0);
  return lua_yieldk(L, 0, 0, stay_killed);
}

int go_kill(lua_State *L, Go *go) {
  Sched *S = go->chan.sched;
  if (go->alt.flags & ALT_AWAY) anchor_bring_back(L, S, go);
  if (go->alt.state != ALT_READY) {
    sched_withdraw(S, &go->alt);
    sched_ready(S, &go->alt);
  }
  go->alt.nresults = 0;
  go->chan.flags |= CHAN_KILLED;
  return stay_killed(L, LUA_YIELD, 0);
}

/* Whether there is something left to cancel. Not in a go block that has ended, or was left behind by a simulation; nor
   where somebody is closing its coroutine; nor in a callback that will be called, and cannot wait. */
static bool is_cancellable(const Go *go) {
  const Alt *alt = &go->alt;
  if (!go->chan.slot || alt->state == ALT_NEW) return false;
  if (alt->state == ALT_SLEEPING || (alt->state == ALT_PARKED && alt->count)) return chan_is_active(alt);
  return !(alt->flags & ALT_CALLBACK);
}

/* Whether a go block waits, but somebody has closed its coroutine with a hook that kept us from noticing. */
static bool is_defunct(const Go *go) {
  const Alt *alt = &go->alt;
  lua_Debug ar;
  if (!go->chan.slot || (alt->state != ALT_SLEEPING && alt->state != ALT_PARKED)) return false;
  return !(alt->flags & ALT_BARE) && lua_status(alt->co) != LUA_YIELD && !lua_getstack(alt->co, 0, &ar);
}

bool go_cancel(lua_State *L, Sched *S, Go *go, int at, int reason) {
  Alt *alt = &go->alt;
  if (UNLIKELY(is_defunct(go))) {
    lua_pushvalue(L, at);
    go_bury(L, S, go);
    lua_pop(L, 1);
    return true;
  }
  if (!is_cancellable(go)) return false;
  if (alt->flags & ALT_CANCEL) return true;
  chan_extras(L, at);
  /* That may have run finalizers, which may have done anything. */
  if (!is_cancellable(go)) return false;
  if (alt->flags & ALT_CANCEL) return true;
  lua_pushvalue(L, reason);
  lua_rawseti(L, -2, go->chan.flags & CHAN_DYING ? EXTRA_CANCEL_2 : EXTRA_CANCEL);
  lua_pop(L, 1);
  /* Parked but in no queue: committed, and what completes it has called code of the user's. */
  bool is_parked = alt->state == ALT_PARKED && alt->count;
  if (is_parked) sched_claim(L, S, alt);
  if (is_parked && alt->flags & ALT_CALLBACK) {
    end(L, S, go, 0, reason);
    lua_pop(L, 1);
    return true;
  }
  alt->flags |= ALT_CANCEL;
  if (alt->state == ALT_SLEEPING) sched_withdraw(S, alt);
  else if (!is_parked) return true;
  sched_wake(S, alt, 0);
  return true;
}

void go_open(lua_State *L) {
  lua_pushliteral(L, "the coroutine of the go block was closed or resumed by somebody else");
  lua_setiuservalue(L, SCHED_SELF, SCHED_BURIED);
  closing_open(L);
}
