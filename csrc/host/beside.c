/* beside.c: see beside.h. */
#include "host/beside.h"

#include <lualib.h>
#include <unistd.h>

/* The folders of these modules relative to the executable's: in the build tree, and below the prefix, where the folder
   for libraries is lib or lib64. */
#define BELOW(lib) ";%s../" lib "/lua/" LUA_VDIR "/?.so"
#define PLACES "%s;%s../?.so" BELOW("lib") BELOW("lib64")

void beside_add_places(lua_State *L) {
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path); /* only Linux has it */
  while (n > 0 && path[n - 1] != '/') n--;
  if (n <= 0) return;
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_getfield(L, -1, "cpath");
  const char *directory = lua_pushlstring(L, path, (size_t)n);
  lua_pushfstring(L, PLACES, lua_tostring(L, -2), directory, directory, directory);
  lua_setfield(L, -4, "cpath");
  lua_pop(L, 3);
}
