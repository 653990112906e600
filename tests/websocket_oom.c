/* websocket_oom: sessions of WebSocket (runnel.websocket.core) while allocations fail: of Lua, of the C module and of zlib.
   tests/websocket_oom.lua does the work: once for each allocation that fails, alone and with seven that follow, until none
   does; and once with a full collection after each instruction. The address sanitizer looks for what is not freed. */
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"

int luaopen_runnel_websocket_core(lua_State *L);

enum { PATIENCE = 60 }; /* seconds for one attempt */

static const luaL_Reg MODULES[] = {{"runnel.websocket.core", luaopen_runnel_websocket_core}, {NULL, NULL}};

typedef struct Run {
  const char *file;
  bool collects; /* after each instruction */
  Memory memory;
} Run;

/* arm(on): allocations fail from now on, or no more. */
static int arm(lua_State *L) {
  memory_of(L)->armed = lua_toboolean(L, 1);
  return 0;
}

static void collect(lua_State *L, lua_Debug *ar) {
  (void)ar;
  (void)lua_gc(L, LUA_GCCOLLECT);
}

static void attempt(void *data) {
  Run *run = (Run *)data;
  memory_here = &run->memory;
  memory_now(&run->memory, PATIENCE, "websocket_oom");
  lua_State *L = memory_open(&run->memory, MODULES);
  lua_register(L, "arm", arm);
  int status = luaL_loadfile(L, run->file);
  if (run->collects) lua_sethook(L, collect, LUA_MASKCOUNT, 1);
  if (status == LUA_OK) status = lua_pcall(L, 0, 0, 0);
  run->memory.armed = false;
  memory_must(L, status);
  memory_close(L);
  memory_here = NULL;
}

int main(int argc, char **argv) {
  if (argc != 2) return EXIT_FAILURE;
  Run run = {.file = argv[1]};
  uint32_t far = UINT32_MAX, attempts = 0;
  for (uint32_t count = 1; count <= 8; count *= 8) {
    attempts += memory_each(&run.memory, count, &far, MEMORY_MOST, attempt, &run);
  }
  run.collects = true;
  run.memory = (Memory){0};
  attempt(&run);
  (void)printf("%u attempts\n", (unsigned)attempts);
  return EXIT_SUCCESS;
}
