/* pack.h: Lua values as bytes, for shared channels and for messages between machines; unpack.h is the way back. The
   bytes are MessagePack, so that programs in other languages can read and write them:

     boolean, integer, float    as they are; an integer in the shortest form, a float always in 8 bytes
     string                     str where it is valid UTF-8, else bin
     table {1, 2, 3}            array: its keys are 1 to n, without holes
     other table                map; keys are booleans, numbers and strings
     shared channel             extension type 1: its number in SharedPacker.chans; only within a program

   What would have no meaning in another lua_State cannot be packed: functions, coroutines, userdata, tables with a
   metatable. A table that occurs twice becomes two tables; a table that contains itself is an error. */
#ifndef RUNNEL_CORE_PACK_H
#define RUNNEL_CORE_PACK_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/value.h"

/* Nested tables, at most. */
enum { PACK_MAX_DEPTH = 100 };

/* The longest message of a failed pack_table, with its path. */
enum { PACK_MESSAGE_SIZE = 256 };

/* Memory for packing, which is used again. */
typedef struct Packer {
  char *bytes;               /* what has been packed; from malloc */
  size_t size;               /* bytes in it */
  size_t capacity;           /* bytes there is room for */
  struct SharedChan **chans; /* shared channels that were met, without holds; from malloc */
  uint32_t nchans;           /* how many */
  size_t chans_capacity;     /* the number that the memory has room for */
  /* The shared channel at an index, or NULL; does not raise. NULL where channels cannot be packed. */
  struct SharedChan *(*to_chan)(lua_State *L, int index);
  Budget *budget;                  /* of which parcels are taken, or NULL */
  char message[PACK_MESSAGE_SIZE]; /* why packing failed */
} Packer;

/* Frees a packer's memory. */
void packer_free(Packer *packer);

/* Packs the value at `index` into the packer's bytes, which are emptied first. False with the message if it cannot be
   packed, or if memory runs out. `name` is what the message calls the value: "value" gives "value.items[3].f: a
   function cannot be sent". Does not raise, and runs no Lua code. */
bool pack_bytes(lua_State *L, int index, Packer *packer, const char *name);

/* Packs the value at `index` into *value, with a parcel where it needs one. As pack_bytes otherwise. */
bool pack_value(lua_State *L, int index, Packer *packer, const char *name, SharedValue *value);

#endif
