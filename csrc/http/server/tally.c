/* tally.c: see tally.h. */
#include "http/server/tally.h"

#include <math.h>

enum { NS = 1000000000, UPGRADED = 101 };

/* The bounds of `times`, in us. */
static const int64_t bounds[TALLY_TIMES] = {1000,   2500,   5000,    10000,   25000,   50000,   100000,
                                            250000, 500000, 1000000, 2500000, 5000000, 10000000};

void tally_refused(Tally *tally, unsigned status) {
  if (status < TALLY_STATUSES) tally->statuses[status]++;
}

void tally_ended(Tally *tally, unsigned status, int64_t ns) {
  tally_refused(tally, status);
  tally->running--;
  if (status == UPGRADED) return;
  int i = 0;
  while (i < TALLY_TIMES && ns > bounds[i] * 1000) i++;
  tally->times[i]++;
  tally->ns += (uint64_t)ns;
}

void tally_push(lua_State *L, const Tally *tally) {
  lua_createtable(L, 0, 4);
  lua_newtable(L);
  for (int status = 0; status < TALLY_STATUSES; status++) {
    if (!tally->statuses[status]) continue;
    lua_pushinteger(L, (lua_Integer)tally->statuses[status]);
    lua_rawseti(L, -2, status);
  }
  lua_setfield(L, -2, "statuses");
  lua_pushinteger(L, tally->running);
  lua_setfield(L, -2, "running");
  lua_pushnumber(L, (lua_Number)tally->ns / (lua_Number)NS);
  lua_setfield(L, -2, "seconds");
  lua_createtable(L, TALLY_TIMES + 1, 0);
  uint64_t sum = 0;
  for (int i = 0; i <= TALLY_TIMES; i++) {
    sum += tally->times[i];
    lua_createtable(L, 2, 0);
    lua_pushnumber(L, i < TALLY_TIMES ? (lua_Number)bounds[i] / 1e6 : (lua_Number)INFINITY);
    lua_rawseti(L, -2, 1);
    lua_pushinteger(L, (lua_Integer)sum);
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "times");
}
