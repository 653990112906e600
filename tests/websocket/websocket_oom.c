/* websocket_oom: sessions of WebSocket (runnel.websocket.core) while allocations fail: of Lua, of the C module and of zlib.
   tests/websocket/websocket_oom.lua has the only scenario (scenarios.h).

     websocket_oom SCENARIOS */
#include <stdlib.h>

#include "../scenarios.h"

int luaopen_runnel_websocket_core(lua_State *L);

static const luaL_Reg MODULES[] = {{"runnel.websocket.core", luaopen_runnel_websocket_core}, {NULL, NULL}};

int main(int argc, char **argv) {
  if (argc != 2) return EXIT_FAILURE;
  const Scenarios scenarios = {.program = "websocket_oom", .file = argv[1], .modules = MODULES};
  return scenarios_run(&scenarios, 0);
}
