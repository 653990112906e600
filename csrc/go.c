/* go.c: see go.h. */
#include "go.h"

#include <lauxlib.h>

#include "anchor.h"
#include "report.h"
#include "unheard.h"

/* Arguments of a go block's function, at most: Alt.nresults counts them. */
enum { MAX_ARGUMENTS = 65000 };

/* Slots for give_up, those of an error's report included. */
enum { STACK_TO_GIVE_UP = 12 };

/* Makes the userdata and the coroutine of a go block, holds it, and moves the `n` values on top of L to the coroutine.

   Below them its stack has the scheduler, to be closed: where somebody closes the coroutine behind our back, its __close
   (on_coroutine_closed) ends the go block properly. */
static Go *new_go(lua_State *L, Sched *S, int n, int nuvalues) {
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  Go *go = (Go *)lua_newuserdatauv(L, sizeof(Go), nuvalues);
  int at = lua_gettop(L);
  chan_init(&go->chan, S);
  go->chan.buf = (Buffer){.kind = BUFFER_FIXED, .limit = 1, .size = 1, .base = CHAN_VALUES};
  go->chan.flags = CHAN_RESULT | CHAN_GO;
  lua_getiuservalue(L, SCHED_SELF, SCHED_CHAN_META);
  lua_setmetatable(L, at);
  lua_State *co = lua_newthread(L);
  go->alt = (Alt){.co = co, .state = ALT_NEW};
  go->origin = S->current ? S->current->origin : 0;
  lua_setiuservalue(L, at, CHAN_VALUES);
  if (UNLIKELY(!lua_checkstack(co, n + LUA_MINSTACK))) luaL_error(L, "too many arguments for a go block");
  lua_pushvalue(L, SCHED_SELF);
  lua_xmove(L, co, 1);
  lua_toclose(co, 1);
  anchor_hold(L, S, go, at); /* the last that may raise */
  lua_insert(L, at - n);
  lua_xmove(L, co, n);
  return go;
}

static inline Go *spawn(lua_State *L, Sched *S, int nargs, int nuvalues) {
  if (UNLIKELY(nargs > MAX_ARGUMENTS)) luaL_error(L, "too many arguments for a go block");
  nargs = unwind_wrap(L, nargs);
  Go *go = new_go(L, S, nargs + 1, nuvalues);
  go->alt.nresults = (uint16_t)nargs;
  sched_ready(S, &go->alt);
  return go;
}

Go *go_spawn(lua_State *L, Sched *S, int nargs) { return spawn(L, S, nargs, CHAN_VALUES); }

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
  Go *go = new_go(L, S, n, CHAN_VALUES);
  go->alt.flags = ALT_CALLBACK | ALT_BARE;
  return go;
}

void go_empty(Sched *S, Go *go, lua_State *co) {
  go->alt.co = co;
  S->current = go;
  lua_settop(co, 0);
  S->current = NULL;
}

/* Calls what wants to know that a go block, whose userdata is on top of L, has died for the reason at that index; tells it
   whether on_error hears of that. Does not raise: an error in it goes to on_error. */
static void give_up(lua_State *L, int reason, bool is_reported) {
  int at = lua_gettop(L);
  if (LIKELY(!(((const Chan *)lua_touserdata(L, at))->flags & CHAN_FEEDS)) || !lua_checkstack(L, STACK_TO_GIVE_UP)) return;
  lua_getiuservalue(L, at, GO_GIVE_UP);
  lua_getiuservalue(L, at, GO_FED);
  lua_pushvalue(L, reason);
  lua_pushvalue(L, at);
  lua_pushboolean(L, is_reported);
  report_call(L, 4, "a function that is called when a go block dies", at);
}

/* Ends a go block: its coroutine is done with. Pushes its userdata, which the scheduler lets go of; it closes with the value at
   index `result` of L as its one value, or at `reason` as its error (0: none). Does not raise: nothing here allocates. */
static void end(lua_State *L, Sched *S, Go *go, int result, int reason) {
  anchor_pop(L, S, go);
  int at = lua_gettop(L);
  go->alt.state = ALT_DEAD;
  go->alt.co = NULL;
  go->chan.flags &= (uint16_t)~CHAN_RESULT;
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
      lua_settop(co, -n); /* the first result is on top */
      lua_xmove(co, L, 1);
      result = top + 1;
    }
    go_empty(S, go, co);
  } /* else they are all wanted: sched_run's caller takes them from the coroutine, which it holds */
  end(L, S, go, result, 0);
  lua_settop(L, top);
}

bool go_is_cancellation(lua_State *L, int at, int err) {
  chan_extra(L, at, EXTRA_CANCEL);
  bool is = !lua_isnil(L, -1) && lua_rawequal(L, -1, err);
  lua_pop(L, 1);
  return is;
}

/* A go block has raised the error on top of L, which is popped. Its own stack may have no room for one value more. */
static void ended_badly(lua_State *L, Sched *S, Go *go) {
  lua_State *co = go->alt.co;
  int top = lua_gettop(L) - 1;
  anchor_push(L, go);
  report_death(L, top + 2, go_is_cancellation(L, top + 2, top + 1));
  lua_remove(L, top + 2); /* error, traceback, name */
  /* Runs the __close of its variables, which may replace the error. They belong to the go block, but cannot park. */
#if LUA_VERSION_RELEASE_NUM >= 50406
  int status = lua_closethread(co, L);
#else
  int status = lua_resetthread(co);
#endif
  S->current = NULL;
  if (status != LUA_OK) {
    lua_xmove(co, L, 1);
    lua_replace(L, top + 1);
  }
  bool is_root = go == S->root;
  end(L, S, go, 0, top + 1);
  give_up(L, top + 1, !is_root && !go_is_cancellation(L, lua_gettop(L), top + 1));
  lua_insert(L, top + 1); /* result channel, error, traceback, name */
  if (is_root) {
    /* Whoever runs it raises the error. */
    go->alt.flags |= ALT_RAISE;
    lua_settop(L, top + 2);
    lua_xmove(L, co, 1);
  } else if (!go_is_cancellation(L, top + 1, top + 2)) {
    bool is_callback = go->alt.flags & ALT_CALLBACK && go->alt.flags & ALT_BARE;
    if (is_callback || lua_isnil(L, top + 2)) report_error(L); /* nobody can take it, or see that it is one */
    else unheard_add(L, S, top + 1);
  }
  lua_settop(L, top);
}

/* Protected: there may be no memory for the message, and then it is that which the go block dies of. */
static int raise_yielded(lua_State *L) {
  return luaL_error(L, "a go block was left by coroutine.yield, and nobody would resume it: use rn.yield to let others run, "
                       "or call the code that yields in a coroutine of its own");
}

/* A go block's coroutine has yielded, but not by an operation of ours. */
static void yielded(lua_State *L, Sched *S, Go *go, int n) {
  lua_pop(go->alt.co, n);
  go->alt.flags |= ALT_CALLBACK; /* a finalizer may resume it before it is closed; it cannot park any more */
  lua_pushcfunction(L, raise_yielded);
  lua_pcall(L, 0, 0, 0);
  ended_badly(L, S, go);
}

void go_bury(lua_State *L, Sched *S, Go *go) {
  int at = lua_gettop(L);
  /* While a coroutine is being closed its stack holds nothing any more, not even the channels that it waits on: to allocate
     before it has left them might free them. */
  if (go->alt.flags & ALT_AWAY) anchor_reclaim(L, S, go, at);
  sched_withdraw(S, &go->alt);
  lua_getiuservalue(L, SCHED_SELF, SCHED_BURIED);
  if (go == S->root) go->alt.flags |= ALT_RAISE | ALT_BARE; /* its coroutine has neither results nor the error */
  end(L, S, go, 0, at + 1);
  give_up(L, at + 1, false);
  lua_settop(L, at);
}

/* Whether there is something left to cancel. Not in a go block that has ended, or was left behind by a simulation; nor where
   somebody is closing its coroutine; nor in a callback that will be called, and cannot wait. */
static bool is_cancellable(const Go *go) {
  const Alt *alt = &go->alt;
  if (!go->chan.slot || alt->state == ALT_NEW) return false;
  if (alt->state == ALT_SLEEPING || (alt->state == ALT_PARKED && alt->count)) return chan_is_active(alt);
  return !(alt->flags & ALT_CALLBACK);
}

bool go_cancel(lua_State *L, Sched *S, Go *go, int at, int reason) {
  Alt *alt = &go->alt;
  if (!is_cancellable(go)) return false;
  if (alt->flags & ALT_CANCEL) return true;
  chan_extras(L, at);
  /* That may have run finalizers, which may have done anything. */
  if (!is_cancellable(go)) return false;
  if (alt->flags & ALT_CANCEL) return true;
  lua_pushvalue(L, reason);
  lua_rawseti(L, -2, EXTRA_CANCEL);
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

/* __close of the scheduler, at the bottom of every go block's coroutine: (scheduler, error). */
static int on_coroutine_closed(lua_State *L) {
  Sched *S = sched_self(L);
  if (S->current && S->current->alt.co == L) return 0; /* it has ended, and this is us */
  for (uint32_t slot = 1; slot <= S->anchors.size; slot++) {
    lua_settop(L, 0);
    anchor_push_slot(L, slot);
    Go *go = (Go *)lua_touserdata(L, -1);
    if (go && go->alt.co == L) {
      go_bury(L, S, go);
      break;
    }
  }
  return 0;
}

void go_left(lua_State *L, Sched *S, Go *go, int status, int n) {
  if (status == LUA_YIELD) {
    yielded(L, S, go, n);
  } else if (status == LUA_OK) {
    ended_well(L, S, go, n - 1); /* Lua counts what the stack began with among them */
  } else {
    lua_xmove(go->alt.co, L, 1);
    ended_badly(L, S, go);
  }
}

void go_open(lua_State *L) {
  unwind_open(L);
  lua_pushvalue(L, SCHED_SELF);
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, on_coroutine_closed, 1);
  lua_setfield(L, -2, "__close");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
  lua_pushliteral(L, "the coroutine of the go block was closed or resumed by somebody else");
  lua_setiuservalue(L, SCHED_SELF, SCHED_BURIED);
}
