/* preload.h: package.preload for a thread: those loaders of the starting state that do not depend on that state. */
#ifndef RUNNEL_LUA_PRELOAD_H
#define RUNNEL_LUA_PRELOAD_H

#include <lua.h>
#include <stdbool.h>

/* One of them. */
typedef struct Preload {
  struct Preload *next; /* the next one */
  lua_CFunction loader; /* a C function */
  void *data;           /* its one upvalue, a light userdata; or NULL if it has none */
  char name[];          /* the module */
} Preload;

/* Adds those in package.preload to the list. False if memory runs out. */
bool preload_copy(lua_State *L, Preload **first);

/* Adds the list to the table on top of L. May raise. */
void preload_set(lua_State *L, const Preload *first);

/* Frees the list. */
void preload_free(Preload *first);

#endif
