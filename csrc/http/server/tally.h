/* tally.h: how many requests a server has had, with which status, and how long they took. */
#ifndef RUNNEL_HTTP_TALLY_H
#define RUNNEL_HTTP_TALLY_H

#include <lua.h>
#include <stdint.h>

enum { TALLY_STATUSES = 600, TALLY_TIMES = 13 };

/* Begins as zeros. */
typedef struct Tally {
  uint64_t statuses[TALLY_STATUSES]; /* by status: the requests that have ended with it */
  uint64_t times[TALLY_TIMES + 1];   /* those that took at most as long as tally_push tells; the last: longer */
  uint64_t ns;                       /* how long they took, all together */
  uint32_t running;                  /* requests that have begun, and have not ended */
} Tally;

/* Counts a request that was refused before it began. */
void tally_refused(Tally *tally, unsigned status);

/* Counts the end of a request that has taken this time. One whose connection got another protocol (status 101) does not
   count among the times. */
void tally_ended(Tally *tally, unsigned status, int64_t ns);

/* Pushes a table: statuses, a table from status to number; running; seconds, the sum; and times, a list of { seconds,
   number of requests that took at most these }, the last with math.huge. */
void tally_push(lua_State *L, const Tally *tally);

#endif
