/* lead.c: see lead.h. */
#include "blocks/lead.h"

#include "channels/chan.h"

void lead_pass(lua_State *L, Sched *S) {
  Chan *turn = S->turn;
  Waiter *w = chan_first_taker(turn);
  lead_withdraw(S);
  if (!w) return;
  turn->put_total++;
  lua_pushboolean(L, 1);
  chan_complete_take(L, w);
}
