/* sim.c: see sim.h. */
#include "blocks/sim.h"

#include <lauxlib.h>

#include "base/random.h"
#include "blocks/sched.h"
#include "blocks/timer.h"
#include "errors/unhandled.h"
#include "lifetimes/root.h"

/* A go block was ready or asleep when its world ended. If it belongs to the outer world it goes on there, else it is
   dropped. */
static void leave_behind(lua_State *L, Sched *S, World *world, Alt *alt) {
  Go *go = sched_go(alt);
  if (go->chan.id < world->first_id) {
    if (alt->state == ALT_SLEEPING) alt->nresults = 0;
    alt->state = ALT_READY;
    list_append(&world->outer->ready, &alt->own.waiter.link);
    world->outer->nready++;
  } else {
    alt->state = ALT_IDLE;
    alt->nresults = 0; /* in case somebody resumes its coroutine */
    alt->flags &= (uint8_t) ~(ALT_RAISE | ALT_CANCEL);
    root_remove(L, S, go);
    lua_pop(L, 2);
  }
}

/* Ends this world and returns to the outer one. Go blocks of this world that are ready or asleep are dropped, since
   nobody will run them; go blocks of the outer world that were woken here go on there. */
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
    if (timer->is_timeout) CONTAINER_OF(timer, Timeout, timer)->chan.flags &= ~(uint32_t)CHAN_TIMEOUT;
    else leave_behind(L, S, world, CONTAINER_OF(timer, Alt, own.timer));
  }
  S->world = *world->outer;
}

/* Protected: (f, ...) -> f's results. Makes room for what sim_run pushes above them, when it is too late to raise. */
static int run(lua_State *L) {
  int n = sched_run_function(L, sched_self(L), lua_gettop(L) - 1, "sim.run");
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  return n;
}

/* User values that belong to a world. The heap's is set when the heap grows. */
static const int OF_WORLD[] = {SCHED_HEAP, SCHED_TIMEOUTS, SCHED_UNHANDLED};

bool sim_run(lua_State *L, Sched *S, int at, uint64_t seed, bool shuffle, int64_t *elapsed) {
  enum { OUTER = 3, NEW = 2, BELOW = OUTER + NEW }; /* what is put below the function: outer values, and new ones */
  int nargs = lua_gettop(L) - at;
  lua_newtable(L);
  unhandled_push_list(L);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, run, 1);
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
                     .shuffle = shuffle,
                     .unhandled_first = 1};
  random_seed(&S->world.random, seed);
  for (int i = 1; i < OUTER; i++) {
    lua_pushvalue(L, at + OUTER - 1 + i);
    lua_setiuservalue(L, SCHED_SELF, OF_WORLD[i]);
  }
  int status = lua_pcall(L, nargs + 1, LUA_MULTRET, 0);
  (void)lua_checkstack(L, LUA_MINSTACK); /* `run` has made room, but Lua asserts that it was asked for here */
  *elapsed = S->world.clock.virtual_ns;
  unhandled_report(L, S, INT64_MAX);
  end_world(L, S);
  for (int i = 0; i < OUTER; i++) {
    lua_pushvalue(L, at + i);
    lua_setiuservalue(L, SCHED_SELF, OF_WORLD[i]);
  }
  lua_rotate(L, at, -BELOW);
  lua_pop(L, BELOW);
  return status == LUA_OK;
}
