/* lua/pool.c: operations on shared channels for the pools of threads (lua/runnel/internal/pool.lua). */
#include "blocks/park.h"
#include "lua/check.h"
#include "lua/module.h"
#include "sharing/chan_shared.h"

/* listen(ch) -> v | nil | nil, err: a take that does not count as something that may still happen: neither rn.run nor a
   deadlock waits for it. */
static int internal_listen(lua_State *L) {
  static const Operation listen = {.name = "take", .waiter = WAITER_FREE, .is_quiet = true};
  Chan *ch = chan_to(L, 1);
  luaL_argcheck(L, ch, 1, "a channel expected");
  int n = chan_take(L, ch, 1);
  return n == TAKE_WAIT ? park_on(L, ch, 1, &listen, NULL) : n;
}

/* answer(answers, message, jobs, least, until) -> true, is_quiet | false | nil: offers a message. If more than `least`
   values are in the buffer of `jobs`, and it is not later than `until`, who takes the answers is not woken for it (see
   shared_chan_wake). The clock is asked after the put: the system may have let other threads run before. */
static int internal_answer(lua_State *L) {
  Chan *answers = check_shared(L, 1), *jobs = check_shared(L, 3);
  lua_Integer least = luaL_checkinteger(L, 4);
  lua_Number until = luaL_checknumber(L, 5);
  bool is_quiet = (lua_Integer)chan_shared_stats(L, jobs).count > least;
  PutResult result = is_quiet ? chan_shared_put_quietly(L, answers, 2) : chan_put(L, answers, 1, 2);
  Sched *S = answers->sched;
  if (is_quiet && (lua_Number)clock_now(&S->world.clock) / (lua_Number)CLOCK_MS > until) {
    shared_wait_end_quiet(S->sharing);
    is_quiet = false;
  }
  if (result == PUT_WAIT) lua_pushnil(L);
  else lua_pushboolean(L, result == PUT_DONE);
  lua_pushboolean(L, is_quiet && result == PUT_DONE);
  return 2;
}

void lua_pool_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"answer", internal_answer}, {"listen", internal_listen}, {NULL, NULL}};
  module_register(L, functions);
}
