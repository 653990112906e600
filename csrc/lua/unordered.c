/* lua/unordered.c: core.internal.unordered: how an unordered pipeline (lua/runnel/pipeline.lua) counts its jobs, and
   delivers their results in the order in which they come. The jobs' result channels announce what they have on a list
   (channels/announce.h), a channel from which the pipeline's deliverer takes them. */
#include "blocks/park.h"
#include "channels/announce.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/moving.h"

static const Operation TAKE = {.name = "take", .waiter = WAITER_FREE};
static const Operation PUT = {.name = "put", .is_put = true, .waiter = WAITER_FREE | WAITER_GIVES_UP};

/* ---- counting ---- */

/* The jobs of a pipeline. It is a channel on which the leader waits as long as there are `most`. */
typedef struct Jobs {
  Chan fewer;
  uint32_t most; /* jobs at a time */
  uint32_t open; /* jobs whose results have not been delivered; and 1 as long as further ones may come */
} Jobs;

/* The arguments of all functions but jobs(). */
enum { LIST = 1, JOBS };

static Jobs *check_jobs(lua_State *L) {
  check_chan(L, LIST, "take", "the list");
  Chan *ch = check_chan(L, JOBS, "take", "the jobs");
  luaL_argcheck(L, lua_rawlen(L, JOBS) == sizeof(Jobs), JOBS, "the jobs of a pipeline expected");
  return CONTAINER_OF(ch, Jobs, fewer);
}

/* jobs(n) -> a new count of jobs, at most n at a time */
static int unordered_jobs(lua_State *L) {
  lua_Integer n = luaL_checkinteger(L, 1);
  Jobs *jobs = CONTAINER_OF(chan_new(L, sched_self(L), sizeof(Jobs), CHAN_ATTRS), Jobs, fewer);
  jobs->most = n < BUFFER_MAX ? (uint32_t)n : BUFFER_MAX;
  jobs->open = 1;
  return 1;
}

static int place(lua_State *L, Jobs *jobs);

static int has_fewer(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  park_resumed(L, (Alt *)alt);
  lua_settop(L, JOBS);
  return place(L, (Jobs *)lua_touserdata(L, JOBS));
}

static int place(lua_State *L, Jobs *jobs) {
  if (jobs->open > jobs->most) return moving_park(L, &jobs->fewer, JOBS, &TAKE, has_fewer);
  announce_new(L, jobs->fewer.sched, LIST, jobs->open);
  jobs->open++;
  return 1;
}

/* place(list, jobs) -> result: counts one more job; waits until there are fewer than n. `result` is the channel for its
   results: as chan(1), but it announces what it has. */
static int unordered_place(lua_State *L) { return place(L, check_jobs(L)); }

/* A job has ended, and its results have been delivered. Closes the list after the last one. */
static void over(lua_State *L, Jobs *jobs) {
  if (--jobs->open == 0) {
    chan_close(L, (Chan *)lua_touserdata(L, LIST), LIST, 0);
  } else if (jobs->fewer.takes.first) {
    lua_pushboolean(L, 1);
    chan_put(L, &jobs->fewer, JOBS, lua_gettop(L));
    lua_pop(L, 1);
  }
}

/* over(list, jobs): counts one job less; or no further job will come. After the last one, the list is closed. */
static int unordered_over(lua_State *L) {
  over(L, check_jobs(L));
  return 0;
}

/* ---- delivering ---- */

/* The stack of deliver: its arguments, with the result channel from which it takes between them, and a value. */
enum { DELIVERER = JOBS + 1, RESULT, TO, VALUE };

/* Makes the value on top of L, which is popped, the deliverer's result channel; false: it has none. */
static void set_result(lua_State *L) {
  lua_pushvalue(L, -1);
  lua_rawseti(L, DELIVERER, 1);
  lua_replace(L, RESULT);
}

static int deliver(lua_State *L);

static int has_waited(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  park_resumed(L, (Alt *)alt);
  lua_settop(L, TO);
  return deliver(L);
}

static int deliver(lua_State *L) {
  Chan *list = (Chan *)lua_touserdata(L, LIST), *to = (Chan *)lua_touserdata(L, TO);
  Sched *S = list->sched;
  for (;; S->world.moves++, lua_settop(L, TO)) {
    if (moving_is_turn_over(S)) return moving_let_others_run(L, S, &TAKE, has_waited);
    Chan *result = (Chan *)lua_touserdata(L, RESULT);
    if (!result) {
      if (chan_take(L, list, LIST) == TAKE_WAIT) return moving_park(L, list, LIST, &TAKE, has_waited);
      if (lua_isnil(L, VALUE)) return 0;
      set_result(L);
      continue;
    }
    int n = chan_take(L, result, RESULT);
    if (n == TAKE_WAIT) {
      announce_again(L, result, RESULT);
      lua_pushboolean(L, 0);
      set_result(L);
    } else if (n == 1 && lua_isnil(L, VALUE)) {
      lua_rawgeti(L, DELIVERER, 2);
      lua_pushvalue(L, RESULT);
      lua_pushnil(L);
      lua_rawset(L, -3);
      lua_pushboolean(L, 0);
      set_result(L);
      over(L, (Jobs *)lua_touserdata(L, JOBS));
    } else if (n == 2 || !moving_is_plain(to)) {
      lua_pushboolean(L, n == 1);
      lua_insert(L, -2);
      return 2;
    } else if (chan_put(L, to, TO, VALUE) == PUT_WAIT) {
      return moving_park(L, to, TO, &PUT, has_waited);
    }
  }
}

/* deliver(list, jobs, deliverer, to) -> true, value | false, err | nothing: moves values from the result channels on the
   list to `to`, as they come. Once `to` is closed they are dropped, so that their jobs can finish. Returns when the list
   is closed; with a value if it must not put that, since a put may run the user's code; with the error of a job, for
   which the caller calls over(). deliverer[1] is the result channel that it has taken from the list, or false; the caller
   keeps it alive even if somebody closes its coroutine. deliverer[2] is a table from which it removes the result
   channels of jobs that have ended. */
static int unordered_deliver(lua_State *L) {
  check_jobs(L);
  luaL_checktype(L, DELIVERER, LUA_TTABLE);
  check_chan(L, TO - 1, "put", "deliver(list, jobs, deliverer, to)");
  lua_settop(L, TO - 1);
  lua_rawgeti(L, DELIVERER, 1);
  lua_insert(L, RESULT);
  return deliver(L);
}

void lua_unordered_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"jobs", unordered_jobs},
      {"place", unordered_place},
      {"over", unordered_over},
      {"deliver", unordered_deliver},
      {NULL, NULL},
  };
  lua_newtable(L);
  module_register(L, functions);
  lua_setfield(L, -2, "unordered");
}
