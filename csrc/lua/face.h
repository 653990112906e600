/* lua/face.h: what the files of the Lua face share: checking arguments, and registering. Nothing is decided here. */
#ifndef RUNNEL_LUA_FACE_H
#define RUNNEL_LUA_FACE_H

#include <lauxlib.h>
#include <lua.h>

#include "core/sched.h"

/* The channel at index `i`, or NULL for anything else. */
static inline Chan *face_to_chan(lua_State *L, int i) { return chan_to(L, i); }

/* Raises that argument `i` of `what` is not a channel; `usage` says how to call it. */
int face_not_a_chan(lua_State *L, int i, const char *what, const char *usage);

/* The channel at index `i`; raises if it is none. */
static inline Chan *face_check_chan(lua_State *L, int i, const char *what, const char *usage) {
  Chan *ch = face_to_chan(L, i);
  if (UNLIKELY(!ch)) face_not_a_chan(L, i, what, usage);
  return ch;
}

/* The buffer description at index `i`, or NULL for anything else. */
const Buffer *face_to_buffer(lua_State *L, int i);

/* Milliseconds at index `i` as ns, saturated; raises for what is no time. */
int64_t face_check_ms(lua_State *L, int i, const char *what);

/* Pushes ns as milliseconds: an integer where it is a whole number. */
void face_push_ms(lua_State *L, int64_t ns);

/* Checks that the value at index `i` can be called. */
void face_check_callable(lua_State *L, int i, const char *what);

/* Adds functions to the module on top of L, each with the scheduler, which is at SCHED_SELF, as its upvalue. */
void face_register(lua_State *L, const luaL_Reg *functions);

/* Pushes a new channel with the buffer, which must be none or one of BUFFER_FIXED, BUFFER_DROPPING and BUFFER_SLIDING. */
void face_push_chan(lua_State *L, Buffer b);

/* Functions of core.internal that are defined beside the public ones:
   alts_index(ops, opts): alts that returns the number of the operation instead of its port. */
int face_alts_index(lua_State *L);

/* The same for the library's own go blocks: see lua/moving.c. */
int face_moving_alts(lua_State *L);

/* simulate(seed, shuffle, f, ...) -> true, elapsed ms, f's results | false, elapsed ms, error */
int face_simulate(lua_State *L);

/* Pushes the scheduler's userdata; false, and nothing is pushed, when the core is not open in the state. */
bool face_push_sched(lua_State *L);

/* Whether no other copy of the core, from another library, is open in the state. */
bool face_is_ours(lua_State *L);

/* Each adds its part to the module on top of L: the last one the table `internal`, to which lua_moving_open adds. */
void lua_chan_open(lua_State *L);
void lua_buffer_open(lua_State *L);
void lua_alts_open(lua_State *L);
void lua_go_open(lua_State *L);
void lua_run_open(lua_State *L);
void lua_moving_open(lua_State *L);
void lua_internal_open(lua_State *L);

#endif
