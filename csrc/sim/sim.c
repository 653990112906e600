/* sim.c: see sim.h. */
#include "sim/sim.h"

#include <lauxlib.h>

#include "base/random.h"
#include "blocks/go.h"
#include "blocks/sched.h"
#include "blocks/timer.h"
#include "channels/alt.h"
#include "core/attr.h"
#include "core/sim_rules.h"
#include "errors/inspect.h"
#include "errors/name.h"
#include "errors/unhandled.h"
#include "lifetimes/root.h"
#include "sim/busy.h"
#include "sim/explore.h"
#include "sim/next_step.h"
#include "timers/delayed.h"

/* ---- the rules ---- */

static Link *first(lua_State *L, Sched *S) {
  busy_step(L, S);
  return S->world.ready.first;
}

static Link *at_random(lua_State *L, Sched *S) {
  Link *link = first(L, S);
  for (uint32_t i = random_below(&S->world.random, S->world.nready); i > 0; i--) link = link->next;
  return link;
}

static uint32_t explore_operation(Sched *S, uint32_t n) { return explore_choose(S->world.explore, n, CHOICE_ALTS); }

/* Protected: () raises the deadlock of a simulation. */
static int raise_deadlock(lua_State *L) {
  lua_pushnil(L); /* without a description of the waiting operation */
  return inspect_raise_deadlock(L, sched_self(L)->world.explore ? "sim.explore" : "sim.run");
}

/* Its address is the registry's key of the function of sim_set_at_rest. */
static const char at_rest_key = 0;

void sim_set_at_rest(lua_State *L) { lua_rawsetp(L, LUA_REGISTRYINDEX, &at_rest_key); }

/* Pushes that function, or another value: the simulation has no world. Returns whether it has one. */
static bool push_at_rest(lua_State *L) { return lua_rawgetp(L, LUA_REGISTRYINDEX, &at_rest_key) == LUA_TFUNCTION; }

/* Tells the function of sim_set_at_rest that nothing is ready and no timer is pending, and whether the simulation's
   function has returned. Returns whether it has woken a go block. */
static bool tell_at_rest(lua_State *L, bool is_over) {
  if (!push_at_rest(L)) {
    lua_pop(L, 1);
    return false;
  }
  lua_pushboolean(L, is_over);
  bool woken = lua_pcall(L, 1, 1, 0) == LUA_OK && lua_toboolean(L, -1);
  lua_pop(L, 1);
  return woken;
}

/* SimRules.raise_deadlock: as the main program's operation does outside a simulation. */
static bool cancel_for_deadlock(lua_State *L, Sched *S, Go *awaited, int at) {
  if (tell_at_rest(L, false)) return true;
  if (!awaited->alt.count) return false;
  explore_rest(&S->world);
  Explore *explore = S->world.explore;
  if (explore && explore->on_choice) explore->on_choice(explore, CHOICE_NONE, 0, 0);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, raise_deadlock, 1);
  (void)lua_pcall(L, 0, 0, 0);
  lua_pushvalue(L, -1);
  attr_set(L, at, ATTR_DEADLOCK);
  bool cancelled = go_cancel(L, S, awaited, at, lua_gettop(L));
  lua_pop(L, 1);
  return cancelled;
}

static const SimRules IN_ORDER = {.next = first, .raise_deadlock = cancel_for_deadlock};
static const SimRules SHUFFLED = {.next = at_random, .raise_deadlock = cancel_for_deadlock};
static const SimRules EXPLORED = {
    .next = explore_next, .choose_operation = explore_operation, .raise_deadlock = cancel_for_deadlock};

/* ---- a walk over the roots of this world ---- */

/* It visits the newest roots first and ends when it has found all of this world, so it visits few roots of the outer
   worlds, which may have a million. */
typedef struct Walk {
  uint32_t strong; /* it has still to visit the strong roots from 1 to this number, */
  uint32_t weak;   /* and then the weak roots from 1 to this number */
  uint32_t left;   /* roots of this world that it has not found yet, at most */
} Walk;

static Walk walk_roots(const Sched *S) { return (Walk){S->roots.strong, S->roots.weak, S->world.living}; }

/* Pushes the userdata of the next root and returns the root; or pushes nothing and returns NULL. The caller may remove
   the root before the next call. Allocates nothing. */
static Go *next_root(lua_State *L, Walk *walk) {
  const Sched *S = sched_self(L);
  while (walk->left && (walk->strong || walk->weak)) {
    Go *go = root_push_at(L, walk->strong ? walk->strong-- : S->roots.strong + walk->weak--);
    if (go && sched_is_of_world(S, go)) {
      walk->left--;
      return go;
    }
    lua_pop(L, 1);
  }
  return NULL;
}

/* ---- the end ---- */

/* Drops a go block of this world that waits for nothing any more. If other code resumes its coroutine, the coroutine
   uses it, and so keeps it alive from here on. */
static void drop(lua_State *L, Sched *S, Go *go) {
  Alt *alt = &go->alt;
  alt->state = ALT_IDLE;
  alt->nresults = 0;
  alt->flags &= (uint8_t) ~(ALT_RAISE | ALT_CANCEL);
  root_remove(L, S, go);
  S->world.living--;
  if (lua_status(alt->co) == LUA_YIELD) lua_xmove(L, alt->co, 1);
  else lua_pop(L, 1);
  lua_pop(L, 1);
}

/* A go block was ready or asleep when its world ended. One of the outer world continues there; any other is dropped. */
static void leave_behind(lua_State *L, Sched *S, World *world, Alt *alt) {
  Go *go = sched_go(alt);
  if (go->chan.id < world->first_id) {
    if (alt->state == ALT_SLEEPING) alt->nresults = 0;
    alt->state = ALT_READY;
    list_append(&world->outer->ready, &alt->own.waiter.link);
    world->outer->nready++;
  } else {
    drop(L, S, go);
  }
}

/* A timeout whose timer has left the heap, and never fires, becomes a plain channel. */
static void forget_timeout(Timer *timer) {
  CONTAINER_OF(timer, Timeout, timer)->chan.flags &= ~(uint32_t)(CHAN_TIMEOUT | CHAN_CLOSES_ITSELF);
}

/* Drops a parked go block, whose userdata is on top of L. */
static void drop_waiting(lua_State *L, Sched *S, Go *go) {
  if (go->alt.flags & ALT_WEAK) root_make_strong(L, S, go, lua_gettop(L));
  alt_stop_waiting(S, &go->alt);
  drop(L, S, go);
}

bool sim_has_go(lua_State *L, uint32_t host) {
  const Sched *S = sched_self(L);
  int top = lua_gettop(L);
  Walk walk = walk_roots(S);
  bool has = false;
  for (const Go *go; !has && (go = next_root(L, &walk)) != NULL;) {
    AltState state = (AltState)go->alt.state;
    has = go->host == host && (state == ALT_READY || state == ALT_PARKED || state == ALT_SLEEPING);
    lua_settop(L, top);
  }
  return has;
}

void sim_crash(lua_State *L, uint32_t host) {
  Sched *S = sched_self(L);
  delayed_crash(L, S, host);
  int top = lua_gettop(L);
  Walk walk = walk_roots(S);
  for (Go *go; (go = next_root(L, &walk)) != NULL;) {
    if (go->host == host && go != S->current && go->alt.state == ALT_READY) {
      list_remove(&S->world.ready, &go->alt.own.waiter.link);
      S->world.nready--;
      drop(L, S, go);
    } else if (go->host == host && (go->alt.state == ALT_PARKED || go->alt.state == ALT_SLEEPING)) {
      drop_waiting(L, S, go);
    }
    lua_settop(L, top);
  }
}

/* Drops the go blocks of this world that are parked, after a run of a search, or of a simulated world, whose hosts end
   with it. A search runs a program a million times, so they would pile up until a sweep (root.h) finds them; and one
   that waits on a channel of the outer world could take a value of the next run. */
static void drop_parked(lua_State *L, Sched *S) {
  int top = lua_gettop(L);
  Walk walk = walk_roots(S);
  for (Go *go; (go = next_root(L, &walk)) != NULL;) {
    if (go->alt.state != ALT_READY && go->alt.state != ALT_SLEEPING) drop_waiting(L, S, go);
    lua_settop(L, top);
  }
}

/* Ends this world and returns to the outer one. Drops this world's ready and sleeping go blocks, since nothing will
   resume them; the outer world's that were woken here continue there. */
static void end_world(lua_State *L, Sched *S) {
  World *world = &S->world;
  Link *link;
  while ((link = world->ready.first) != NULL) {
    list_remove(&world->ready, link);
    world->nready--;
    leave_behind(L, S, world, CONTAINER_OF(link, Alt, own.waiter.link));
  }
  while (world->heap.count) {
    Timer *timer = heap_pop(&world->heap);
    if (timer->is_timeout) forget_timeout(timer);
    else if (timer->is_call) delayed_forget(L, timer);
    else leave_behind(L, S, world, CONTAINER_OF(timer, Alt, own.timer));
  }
  world->outer->living += world->living; /* go blocks that are left are roots there */
  S->world = *world->outer;
}

/* ---- a run ---- */

/* Runs go blocks and jumps from one deadline to the next until nothing is ready and no timer is pending. Returns false
   after ROUNDS rounds; a search has a limit of steps instead. */
static bool come_to_rest(lua_State *L, Sched *S) {
  enum { ROUNDS = 10000, ROUND = 100 }; /* deadlines, and go blocks resumed between two of them, at most */
  for (int i = 0; i < ROUNDS || S->world.explore; i++) {
    uint32_t most = explore_steps_left(&S->world, ROUND);
    if (most == 0) return false;
    int64_t ns = sched_step(L, S, most, INT64_MAX);
    if (ns < 0 || ns == INT64_MAX) return true;
    if (ns > 0) explore_rest(&S->world);
    clock_jump(&S->world.clock, S->world.clock.virtual_ns + ns);
  }
  return false;
}

/* Raises an error if a go block that the program has started is left in this world. `rests`: nothing is ready and no
   timer is pending, so the go block waits for ever; else it goes on for ever. */
static void check_leaks(lua_State *L, bool rests) {
  const Sched *S = sched_self(L);
  /* Looked for first: there is seldom a leak, and a list would take longer than the program. */
  bool is_leak = !rests && delayed_is_any(S);
  Walk walk = walk_roots(S);
  for (const Go *go; !is_leak && (go = next_root(L, &walk)) != NULL;) {
    is_leak = !(go->alt.flags & ALT_CALLBACK) && !name_is_library(L, go);
    lua_pop(L, 1);
  }
  if (!is_leak) return;
  lua_pushboolean(L, rests);
  if (inspect_write_report(L, "leak", 1)) lua_error(L);
}

/* Protected: (f, ...) -> f's results. Makes room for what sim_run pushes above them, when it is too late to raise. */
static int run(lua_State *L) {
  Sched *S = sched_self(L);
  int n = sched_run_function(L, S, lua_gettop(L) - 1, S->world.explore ? "sim.explore" : "sim.run");
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (lua_toboolean(L, lua_upvalueindex(2))) {
    (void)tell_at_rest(L, true);
    bool rests = come_to_rest(L, S);
    if (tell_at_rest(L, true)) rests = come_to_rest(L, S);
    check_leaks(L, rests);
  }
  return n;
}

/* User values that belong to a world. The heap's is set when the heap grows. */
static const int OF_WORLD[] = {SCHED_HEAP, SCHED_TIMEOUTS, SCHED_UNHANDLED};

bool sim_run(lua_State *L, Sched *S, int at, const SimOptions *options, int64_t *elapsed) {
  enum { OUTER = 3, NEW = 2, BELOW = OUTER + NEW }; /* what is put below the function: outer values, and new ones */
  int nargs = lua_gettop(L) - at;
  lua_newtable(L);
  unhandled_push_list(L);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushboolean(L, options->leaks);
  lua_pushcclosure(L, run, 2);
  lua_rotate(L, at, NEW + 1);
  /* The outer values are read last: an allocation may run finalizers, which may replace them. */
  for (int i = 0; i < OUTER; i++) lua_getiuservalue(L, SCHED_SELF, OF_WORLD[i]);
  lua_rotate(L, at, OUTER); /* heap, timeouts, unhandled, new timeouts, new unhandled, run, f, ... */
  World outer = S->world;
  S->world = (World){.outer = &outer,
                     .first_id = S->next_id,
                     .clock = {.is_virtual = true},
                     .stride = 1,
                     .left = 1,
                     .rules = options->explore   ? &EXPLORED
                              : options->shuffle ? &SHUFFLED
                                                 : &IN_ORDER,
                     .explore = options->explore,
                     .seeks_leaks = options->leaks,
                     .busy_unit = options->explore ? options->explore->limit / BUSY_UNITS + 1 : BUSY_UNIT,
                     .unhandled_first = 1};
  random_seed(&S->world.random, options->seed);
  for (int i = 1; i < OUTER; i++) {
    lua_pushvalue(L, at + OUTER - 1 + i);
    lua_setiuservalue(L, SCHED_SELF, OF_WORLD[i]);
  }
  int status = lua_pcall(L, nargs + 1, LUA_MULTRET, 0);
  (void)lua_checkstack(L, LUA_MINSTACK); /* `run` has made room, but Lua asserts that it was asked for here */
  *elapsed = S->world.clock.virtual_ns;
  S->world.rules = &IN_ORDER; /* handlers and finalizers make no choices of the search */
  S->world.explore = NULL;
  unhandled_report(L, S, INT64_MAX);
  bool has_world = push_at_rest(L);
  lua_pop(L, 1);
  if (options->leaks || options->explore || has_world) drop_parked(L, S);
  end_world(L, S);
  for (int i = 0; i < OUTER; i++) {
    lua_pushvalue(L, at + i);
    lua_setiuservalue(L, SCHED_SELF, OF_WORLD[i]);
  }
  lua_rotate(L, at, -BELOW);
  lua_pop(L, BELOW);
  return status == LUA_OK;
}
