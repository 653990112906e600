/* shared_handle.h: handles, by which a state uses a shared channel (csrc/shared).

   A handle is a channel of the state whose buffer has the kind BUFFER_SHARED. chan.h treats it like any other channel,
   and calls the functions of shared_ops.h for it. It holds no values and completes no operation itself: the shared
   channel does, which other states may use, too. A state has one handle for each shared channel.

   The name of a shared channel is an attribute of each handle (attr.h), as of any channel; a new handle copies it from
   the shared channel. */
#ifndef RUNNEL_SHARED_HANDLE_H
#define RUNNEL_SHARED_HANDLE_H

#include <lauxlib.h>
#include <stdlib.h>

#include "channels/chan.h"
#include "states/shared_wait.h"

static inline SharedHandle *shared_handle_of(const Chan *ch) { return CONTAINER_OF(ch, SharedHandle, chan); }

/* The functions of a handle (shared_ops.c). Unpacking a value may make handles. */
extern const ChanOps shared_handle_ops;

/* Pushes the handle of a new shared channel. May raise. */
void shared_handle_new(lua_State *L, Sched *S, BufferKind kind, uint32_t limit);

/* Pushes the handle of a shared channel, which must be held meanwhile. May raise. */
void shared_handle_push(lua_State *L, Sched *S, SharedChan *shared);

/* Pushes such a handle in a state that has a Sharing. May raise. */
void shared_handle_push_held(lua_State *L, SharedChan *shared);

/* The shared channel of a handle, without a hold; NULL once the handle has been finalized. */
SharedChan *shared_handle_get(const Chan *ch);

/* The shared channel of a handle; raises if a finalizer uses a handle that was finalized before. */
SharedChan *shared_handle_chan(lua_State *L, const Chan *ch);

/* To be called before another state gets the channel of a handle: promotes the go blocks that wait on it, and that only
   the handle keeps alive (root.h), because other states may wake them even if this state drops the handle. Needs
   LUA_MINSTACK free slots; does not raise. */
void shared_handle_promote(lua_State *L, const Chan *ch);

/* Pushes a list of an owner's waits on the channels that this state has, too: tables with `operation`, "take" or "put",
   and `channel`, the oldest channels first. May raise. */
void shared_handle_push_waits(lua_State *L, const Owner *owner);

/* ---- the Sharing ---- */

/* Makes the state's Sharing if it does not exist. May raise. */
void shared_handle_open(lua_State *L, Sched *S);

/* Raises an error: memory runs out. */
_Noreturn static inline void shared_handle_no_memory(lua_State *L) {
  luaL_error(L, "not enough memory");
  abort(); /* uncovered: luaL_error does not return */
}

#endif
