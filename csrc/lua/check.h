/* lua/check.h: arguments: each function returns an argument as a C value, or raises an error that says what is wrong.
   `what` is the name of the function that was called. */
#ifndef RUNNEL_LUA_CHECK_H
#define RUNNEL_LUA_CHECK_H

#include "blocks/park.h"

/* Raises an error if the argument at index `i` is the module: the function was called with a colon. */
void check_no_module(lua_State *L, int i);

/* The same for the first argument of a function that takes none, or anything. */
static inline void check_dot(lua_State *L) {
  if (UNLIKELY(lua_istable(L, 1))) check_no_module(L, 1);
}

/* Describes the argument at index `i` for a message: the name of its type, "a channel" or "nothing". Raises an error if
   it is the module. */
const char *check_got(lua_State *L, int i);

/* Raises an error: argument `i` of `what` is not a channel; `usage` says how to call it. */
int check_raise_not_chan(lua_State *L, int i, const char *what, const char *usage);

/* The channel at index `i`. */
static inline Chan *check_chan(lua_State *L, int i, const char *what, const char *usage) {
  Chan *ch = chan_to(L, i);
  if (UNLIKELY(!ch)) check_raise_not_chan(L, i, what, usage);
  return ch;
}

/* The same for a function that looks at it, or influences its go block: an answer of the channel, or of the go block whose
   result channel it is, that the other events of an observer do not show. */
static inline Chan *check_looked(lua_State *L, int i, const char *what, const char *usage, Look look) {
  Chan *ch = check_chan(L, i, what, usage);
  OBSERVE(ch->sched, look, ch, look);
  return ch;
}

/* The shared channel at index `i`, for functions of the library's own. */
Chan *check_shared(lua_State *L, int i);

/* The buffer description at index `i`, or NULL for anything else. */
const Buffer *check_buffer(lua_State *L, int i);

/* The time in ms at index `i`, in ns; INT64_MAX if that is too long for the clock. */
int64_t check_ms(lua_State *L, int i, const char *what);

/* Pushes a time in ns as ms: an integer if it is a whole number. */
void check_push_ms(lua_State *L, int64_t ns);

/* Checks that the value at index `i` can be called. */
void check_callable(lua_State *L, int i, const char *what);

#endif
