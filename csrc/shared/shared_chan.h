/* shared_chan.h: a channel between threads. Any number of lua_States may use it; none owns it. Knows no Lua.
   shared_alt.h has the operations, csrc/states/shared_ops.h what a state does with them. */
#ifndef RUNNEL_SHARED_CHAN_H
#define RUNNEL_SHARED_CHAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/chan_stats.h"
#include "shared/owner.h"
#include "shared/value.h"

typedef struct SharedChan SharedChan;

/* The limit of waiting puts, and of waiting takes, as of a local channel. */
enum { SHARED_MAX_PENDING = 1024 };

/* A new channel with one hold, and with a buffer of `limit` values (kind BUFFER_NONE to BUFFER_PROMISE). NULL when
   memory runs out. */
SharedChan *shared_chan_new(BufferKind kind, uint32_t limit, Budget *budget);

/* Adds a hold; drops one. Any thread. Dropping the last hold frees the channel and the values in its buffer. Dropping
   the last but one wakes an owner that waits on the channel, since no other thread may be left to complete its
   operation. */
SharedChan *shared_chan_hold(SharedChan *chan);
void shared_chan_release(SharedChan *chan);

/* Drops a hold, in two steps: the last one adds the channel to a list, and shared_chan_free frees all channels of a list,
   and those that then nothing holds. A buffer may have a channel whose buffer has another one, and so on, as many as a
   program likes: freeing one within the other would need a stack as deep. */
void shared_chan_let_go(SharedChan *chan, SharedChan **unheld);
void shared_chan_free(SharedChan *unheld);

/* Holds on the channel: of states, of values on their way, of packed tables. */
uint32_t shared_chan_holds(const SharedChan *chan);

/* Sets its name; gets it, or an empty string. Any thread. */
enum { SHARED_NAME_MAX = 200 };
void shared_chan_set_name(SharedChan *chan, const char *name);
void shared_chan_get_name(SharedChan *chan, char name[SHARED_NAME_MAX + 1]);

/* Its id, which no other shared channel of the process has or had; the size of its buffer. */
uint64_t shared_chan_id(const SharedChan *chan);
uint32_t shared_chan_limit(const SharedChan *chan);

/* Waits until the thread that uses the channel now, if there is one, has left it: that thread may have pushed to an
   owner's inbox and still use the owner. To be called before an owner ends, for each of its channels. */
void shared_chan_pass(SharedChan *chan);

/* Its statistics. */
ChanStats shared_chan_stats(SharedChan *chan);

/* How many takes, and puts, of one owner wait on a channel. */
typedef struct SharedCounts {
  uint32_t takes;
  uint32_t puts;
} SharedCounts;
SharedCounts shared_chan_waiting(SharedChan *chan, const Owner *owner);

/* Asserts invariant 4 of shared_alt.h and the counts of the queues. Only for tests: it locks the channel. */
void shared_chan_check(SharedChan *chan);

#endif
