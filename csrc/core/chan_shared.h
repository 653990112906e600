/* chan_shared.h: handles, by which a state uses a shared channel (csrc/shared).

   A handle is a channel of the state whose buffer has the kind BUFFER_SHARED. The functions of chan.h treat it like any
   other channel, and call the functions here for it. It holds no values and completes no operation itself: the shared
   channel does, which other states may use, too. A state has one handle for each shared channel.

   Values are packed before they are put and unpacked after they were taken (pack.h). If there is no memory to unpack a
   value that was taken, it goes back to the channel, and the take raises.

   A take, put or alts that has to wait is described in shared_wait.h. */
#ifndef RUNNEL_CHAN_SHARED_H
#define RUNNEL_CHAN_SHARED_H

#include "core/chan.h"
#include "core/shared_wait.h"

static inline bool chan_is_shared(const Chan *ch) { return ch->buf.kind == BUFFER_SHARED; }

/* Whether the shared channel of a handle has no buffer, so that every other operation waits. */
static inline bool chan_shared_meets(const Chan *ch) { return ch->buf.limit == 0; }

/* The name of a shared channel is an attribute of each handle (attr.h), as of any channel; a new handle gets it from
   the shared channel. */

/* Pushes the handle of a new shared channel. May raise. */
void chan_shared_new(lua_State *L, Sched *S, BufferKind kind, uint32_t limit);

/* Pushes the handle of a shared channel, which must be held meanwhile. May raise. */
void chan_shared_push(lua_State *L, Sched *S, SharedChan *shared);

/* The shared channel of a handle, without a hold; NULL once the handle has been finalized. */
SharedChan *chan_shared_get(const Chan *ch);

/* To be called before another state gets the channel of a handle: go blocks that wait on it, and that only the handle
   keeps alive, become strong roots (root.h), because other states may wake them even if nothing here refers to the
   handle any more. Needs LUA_MINSTACK free slots; does not raise. */
void chan_shared_promote(lua_State *L, const Chan *ch);

/* Pushes a list of what an owner waits for on the channels that this state has, too: tables with `operation`, which is
   "take" or "put", and `channel`. The oldest channels come first. May raise. */
void chan_shared_push_waits(lua_State *L, const Owner *owner);

/* Packs the value at index `value`, and returns true; or pushes why that cannot be done, and returns false. May
   raise. */
bool chan_shared_pack(lua_State *L, Sched *S, int value, SharedValue *packed);

/* Pushes a value that another state has packed, which stays as it is. May raise. */
void chan_shared_push_value(lua_State *L, Sched *S, const SharedValue *value);

/* ---- chan_put, chan_take, chan_close and others for handles ---- */

PutResult chan_shared_put(lua_State *L, Chan *ch, int value);
int chan_shared_take(lua_State *L, Chan *ch);

/* Like chan_shared_put, but if a take waits and its scheduler is asleep, that stays asleep until a put on the channel
   that is not quiet, or until this scheduler waits. */
PutResult chan_shared_put_quietly(lua_State *L, Chan *ch, int value);

void chan_shared_close(lua_State *L, Chan *ch, int reason);
SharedStats chan_shared_stats(lua_State *L, const Chan *ch);
bool chan_shared_is_closed(const Chan *ch);

/* Whether somebody, in any state, has taken the error with which it was closed (unhandled.h). */
bool chan_shared_is_taken(const Chan *ch);

void chan_shared_set_name(lua_State *L, const Chan *ch, const char *name);

/* From here on, when any state closes the shared channel, the handle's done() channel closes, if it has one, and its
   on_close function is called. At once if the channel is closed already. `done` may be NULL. May raise. */
void chan_shared_watch(lua_State *L, Chan *ch, const Chan *done);

/* ---- waiting ---- */

/* Begins an operation over `n` channels, which chan_shared_add adds. May raise. */
SharedWait *chan_shared_begin(lua_State *L, Sched *S, uint32_t n);

/* Adds the operation on the handle at index `at` of L; the value of a put is at the next index. In the alt's coroutine
   the handle is at index `alt_at`. If this raises, it frees `wait` first. */
void chan_shared_add(lua_State *L, SharedWait *wait, int at, int alt_at, bool is_put, const Operation *op);

/* Does one of the operations if that can be done at once. Pushes the results of an operation with these flags
   (ALT_SELECT, ALT_INDEX) and returns how many they are. If none can be done, returns 0, and with `alt` it waits on
   all of them; the caller enqueues the alt on the handles. Frees `wait`, unless it waits. Raises if a channel has no
   room for one more waiter, or the value cannot be unpacked. */
int chan_shared_do(lua_State *L, Sched *S, SharedWait *wait, Alt *alt, uint8_t flags);

/* Completes what other threads have completed. Does not raise. */
void chan_shared_drain(lua_State *L, Sched *S);

/* The same when there is something; to be called often. */
static inline void chan_shared_look(lua_State *L, Sched *S) {
  if (shared_wait_has_news(S)) chan_shared_drain(L, S);
}

#endif
