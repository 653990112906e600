/* unpack.h: Lua values from the bytes that pack.h describes. */
#ifndef RUNNEL_CORE_UNPACK_H
#define RUNNEL_CORE_UNPACK_H

#include <lua.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/value.h"

/* Where unpacking gets the channels of extension type 1. */
typedef struct Unpacker {
  /* Pushes a shared channel, with a hold of its own; may raise. NULL where channels are not possible. */
  void (*push_chan)(lua_State *L, struct SharedChan *chan);
  struct SharedChan *const *chans; /* the channels, by number */
  uint32_t nchans;                 /* how many */
} Unpacker;

/* Pushes the value that `size` bytes at `bytes` stand for and returns NULL. Or pushes nothing and returns what is
   wrong with the bytes, which may come from anywhere. Raises when memory runs out. */
const char *unpack_bytes(lua_State *L, const char *bytes, size_t size, const Unpacker *unpacker);

/* Pushes a value. Raises when memory runs out; the value stays as it is in any case. */
void unpack_value(lua_State *L, const SharedValue *value, void (*push_chan)(lua_State *L, struct SharedChan *chan));

#endif
