/* capi/modules.h: the Lua modules inside the library and the executable, which scripts/embed.lua puts there: neither
   needs LUA_PATH, and the modules always fit the core. */
#ifndef RUNNEL_API_MODULES_H
#define RUNNEL_API_MODULES_H

#include <lua.h>
#include <stddef.h>

typedef struct Module {
  const char *name;          /* as `require` knows it; NULL in the entry after the last */
  const char *chunk;         /* what messages call its file */
  const unsigned char *code; /* its source */
  size_t size;               /* bytes of it */
} Module;

/* Those of lua/: a generated array. */
extern const Module runnel_modules[];

/* Puts a loader for each of the modules into package.preload, where `require` looks first. May raise. */
void modules_preload(lua_State *L, const Module *modules);

#endif
