/* profile.c: see profile.h. */
#include "profile/profile.h"

#include <errno.h>
#include <lauxlib.h>
#include <string.h>

#include "base/random.h"
#include "channels/chan.h"
#include "core/setup.h"
#include "profile/profile_blocked.h"
#include "profile/profile_waits.h"

enum {
  PERIOD = 1000000, /* ns of processor time between two samples of what runs */
  PATIENCE = 16,    /* signals until a program that computes all the time counts as busy */
  ANY_EVENT = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT
};

/* ---- what runs ---- */

/* The program has run until now since the loop's last look at its clock: what waits next does not wait since then. */
static void set_ticked(Profile *p, int64_t now) {
  atomic_store(&p->ticked, now);
  p->is_ahead = true;
  if (!p->is_adding) p->observer.left = profile_observer.left;
}

/* The hook: Lua calls it for a coroutine that has run when the signal came, and while what blocks is sought. */
static void on_hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  if (!lua_checkstack(L, LUA_MINSTACK)) {
    lua_sethook(L, NULL, 0, 0); /* seldom covered: the stack is about to overflow */
    return;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &chan_tag);
  Sched *S = (Sched *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  Profile *p = profile_active(S);
  if (!p) { /* the profile has ended */
    lua_sethook(L, NULL, 0, 0);
    return;
  }
  /* A coroutine within a go block has the hook only for what blocks. 0 also if another coroutine's hook was faster. */
  int64_t ns = lua_gethookmask(L) == ANY_EVENT ? atomic_exchange(&p->due, 0) : 0;
  profile_blocked_set_hook(p, L, 0);
  int64_t blocked = profile_blocked_is_sought(p) ? profile_blocked_measure(p) : 0;
  if (ns) {
    p->ran += ns;
    lua_pushnil(L);
    profile_add(L, &(ProfileSample){.go = S->current, .co = L, .first = 1, .ns = ns});
    if (profile_active(S) != p) return;
  }
  if (!blocked) return;
  set_ticked(p, clock_ns());
  lua_pushnil(L);
  profile_add(L, &(ProfileSample){.go = S->current, .co = L, .first = 1, .ns = blocked, .is_blocked = true});
}

/* Called by the signal's handler. A hook that the program, or a debugger, has set stays. */
static void on_tick(void *data, int64_t ns) {
  Profile *p = (Profile *)data;
  const Go *go = p->S->current;
  int64_t now = clock_ns();
  profile_blocked_tick(p, now, ns);
  set_ticked(p, now);
  if (p->is_adding) return;
  if (!go && p->S->running) {
    atomic_fetch_add(&p->loop, ns);
    return;
  }
  atomic_fetch_add(&p->due, ns);
  lua_State *L = go ? go->alt.co : p->main_thread;
  if (L) profile_blocked_set_hook(p, L, ANY_EVENT);
}

/* ---- the beginning and the end ---- */

/* __gc: a profile that has not been stopped when the state closes. */
static int on_closed(lua_State *L) {
  Profile *p = (Profile *)lua_touserdata(L, 1);
  if (profile_active(p->S) != p) return 0;
  profile_timer_stop(&p->timer);
  observe_seat(p->S, SEAT_PROFILE, NULL);
  return 0;
}

/* Pushes a new profile. May raise. */
static Profile *new_profile(lua_State *L, Sched *S, int namers) {
  Profile *p = (Profile *)lua_newuserdatauv(L, sizeof *p, PROFILE_NUSER);
  int at = lua_gettop(L);
  memset(p, 0, sizeof *p);
  p->observer = profile_observer;
  p->S = S;
  p->hook = on_hook;
  p->patience = PATIENCE;
  for (int key = PROFILE_RUNNING; key <= PROFILE_NAMES; key++) {
    lua_newtable(L);
    lua_setiuservalue(L, at, key);
  }
  lua_pushvalue(L, namers);
  lua_setiuservalue(L, at, PROFILE_NAMERS);
  lua_newtable(L);
  lua_setiuservalue(L, at, PROFILE_LABELS);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushvalue(L, at);
  lua_pushcclosure(L, profile_tree_add, 2);
  lua_setiuservalue(L, at, PROFILE_HELP);
  setup_push_meta(L, "__gc", on_closed);
  lua_setmetatable(L, at);
  return p;
}

static void fail(lua_State *L, const char *message) {
  lua_pushstring(L, message);
  lua_error(L);
}

void profile_start(lua_State *L, Sched *S, int namers) {
  Profile *p = new_profile(L, S, namers);
  if (profile_active(S)) fail(L, "a profile is being made already");
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  p->main_thread = lua_tothread(L, -1);
  lua_pop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &profile_key);
  p->began = clock_ns();
  p->ticked = p->signalled = p->began;
  if (!S->world.clock.is_virtual) S->world.looked = p->began;
  p->waits_since = S->world.looked;
  random_seed(&p->random, (uint64_t)p->began);
  profile_choose_step(p);
  p->timer = (ProfileTimer){.tick = on_tick, .data = p, .period = PERIOD};
  observe_seat(S, SEAT_PROFILE, &p->observer);
  int error = profile_timer_start(&p->timer);
  if (!error) {
    profile_blocked_enter(p, L);
    return;
  }
  observe_seat(S, SEAT_PROFILE, NULL);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &profile_key);
  if (error == ENOSYS) fail(L, "only Linux has a timer of a thread's processor time");
  fail(L, error == EBUSY ? "the program uses the signal SIGPROF for something else" : strerror(error));
}

int64_t profile_passed(const Sched *S) {
  const Profile *p = profile_active(S);
  return p ? clock_ns() - p->began : -1;
}

static void set_integer(lua_State *L, const char *name, int64_t n) {
  lua_pushinteger(L, n);
  lua_setfield(L, -2, name);
}

void profile_stop(lua_State *L, Sched *S) {
  Profile *p = profile_active(S);
  if (!p) {
    lua_pushnil(L);
    return;
  }
  int top = lua_gettop(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &profile_key);
  profile_timer_stop(&p->timer);
  profile_blocked_leave(p, L);
  atomic_store(&p->ticked, clock_ns());
  p->is_ahead = true;
  profile_add_present(L, p);
  if (profile_active(S) == p) observe_seat(S, SEAT_PROFILE, NULL);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &profile_key);
  lua_createtable(L, 0, 8);
  static const char *const tables[] = {"running", "waiting", "names"};
  for (int i = 0; i < 3; i++) {
    lua_getiuservalue(L, top + 1, PROFILE_RUNNING + i);
    lua_setfield(L, -2, tables[i]);
  }
  set_integer(L, "ran", p->ran + atomic_load(&p->due));
  set_integer(L, "loop", atomic_load(&p->loop));
  set_integer(L, "blocked", p->blocked);
  set_integer(L, "waited", p->waited);
  set_integer(L, "elapsed", atomic_load(&p->ticked) - p->began);
  lua_replace(L, top + 1);
}
