/* pool.c: operations on shared channels for the pools of threads (lua/runnel/threads/pool.lua). */
#include "blocks/park.h"
#include "core/attr.h"
#include "lua/check.h"
#include "lua/module.h"
#include "shared/status.h"
#include "states/shared_ops.h"

/* listen(ch) -> v | nil | nil, err: a take that does not count as a pending event: neither rn.run nor a deadlock waits
   for it. */
static int internal_listen(lua_State *L) {
  static const Operation listen = {.name = "take", .waiter = WAITER_UNCOUNTED, .is_quiet = true};
  Chan *ch = chan_to(L, 1);
  luaL_argcheck(L, ch, 1, "a channel expected");
  int n = chan_take(L, ch, 1);
  return n == TAKE_WAIT ? park_on(L, ch, 1, &listen, NULL) : n;
}

/* begin_job(number) -> now: records for job_of that this thread begins a job. */
static int internal_begin_job(lua_State *L) {
  Sched *S = sched_self(L);
  luaL_argcheck(L, S->sharing, 1, "a thread of a pool expected");
  atomic_store_explicit(&S->sharing->owner->job, luaL_checkinteger(L, 1), memory_order_relaxed);
  check_push_ms(L, clock_now(&S->world.clock));
  return 1;
}

/* job_of(block) -> the number of the last job begun by the thread that the go block stands for, or 0 */
static int internal_job_of(lua_State *L) {
  luaL_argcheck(L, chan_to(L, 1), 1, "the result channel of a go block expected");
  attr_push(L, 1, ATTR_THREAD);
  const StatusHold *held = (const StatusHold *)lua_touserdata(L, -1);
  const Owner *owner = held ? status_owner(held->status) : NULL;
  lua_pushinteger(L, owner ? atomic_load_explicit(&owner->job, memory_order_relaxed) : 0);
  return 1;
}

void lua_pool_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"begin_job", internal_begin_job},
      {"job_of", internal_job_of},
      {"listen", internal_listen},
      {NULL, NULL},
  };
  module_register(L, functions);
}
