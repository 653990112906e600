/* shared_inbox.h: what other threads have completed for this state: its alts on shared channels, and that channels were
   closed. */
#ifndef RUNNEL_SHARED_INBOX_H
#define RUNNEL_SHARED_INBOX_H

#include "channels/chan.h"
#include "states/shared_wait.h"

/* Completes what other threads have completed. Does not raise. */
void shared_inbox_drain(lua_State *L, Sched *S);

/* Drains the inbox if it has anything. The loop calls this often. */
static inline void shared_inbox_poll(lua_State *L, Sched *S) {
  if (shared_wait_has_news(S)) shared_inbox_drain(L, S);
}

/* From here on, when any state closes the shared channel of a handle, the handle's done() channel closes, if it has
   one, and its on_close function is called. At once if the channel is closed already. `done` may be NULL. May raise. */
void shared_inbox_watch(lua_State *L, Chan *ch, const Chan *done);

#endif
