/* librunnel/modules.h: the Lua modules that scripts/embed.lua compiles into the library and the executable. Neither
   needs LUA_PATH, and the modules always fit the core. */
#ifndef RUNNEL_LIBRARY_MODULES_H
#define RUNNEL_LIBRARY_MODULES_H

#include <lua.h>
#include <stddef.h>

typedef struct Module {
  const char *name;          /* as given to `require`; NULL after the last entry */
  const char *chunk;         /* its chunk name, which messages show as its file */
  const unsigned char *code; /* its source, or its bytecode */
  size_t size;               /* in bytes */
} Module;

/* The modules of lua/: a generated array. */
extern const Module runnel_modules[];

/* Has the modules run with globals of their own, from the first that is loaded on: copies of Lua's, with copies of its
   libraries but for io and os, whose functions a simulation replaces. So they work whatever a script, or the program,
   does to the globals afterwards. May raise. */
void modules_seclude(lua_State *L);

/* Adds a loader for each of the modules to package.preload, where `require` looks first. May raise. */
void modules_preload(lua_State *L, const Module *modules);

/* Adds a loader for one module to package.preload, which is on top of the stack. May raise. */
void modules_preload_one(lua_State *L, const Module *module);

#endif
