/* runner: runs a Lua script with the core, and then checks that nothing is left behind.

     runner SCRIPT [ARGUMENT...]

   The script's global `t` has
     invariants()    raises an error if an invariant of the scheduler is broken;
     bytes()         returns how many bytes the state has allocated, in all and in blocks of less than 4 KB (which no
                     table that doubles is in);
     tracked(f)      returns a value whose finalizer calls f, if f is given;
     limit(s)        ends the process unless it is called again within s seconds of an idle machine (patience.h);
     memory(n)       limits the state to n bytes more than now; without n, lifts the limit;
     fail(k, seed)   makes one allocation in k fail, at random; without k, none;
     collect(is)     if `is` is true, collects all garbage before each instruction of Lua, also in coroutines that are
                     made from now on;
     command         is the shell command that runs the script without arguments.
   When the script has ended, the state is closed with everything that is still parked; then every tracked value must
   have been finalized once, and all memory freed. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "invariants.h"
#include "memory.h"

int luaopen_runnel_core(lua_State *L);

enum { LARGE = 4096 };

/* The state's memory, and the tracked values by number. */
typedef struct Track {
  Memory memory;      /* the first field (memory_allocate) */
  size_t small;       /* bytes in use, in blocks of less than LARGE bytes */
  size_t limit;       /* most bytes in use, or 0 for no limit */
  unsigned char *ran; /* how often each finalizer ran, at most 255 times */
  size_t count;       /* how many values are tracked */
  size_t capacity;    /* of `ran` */
} Track;

static void *allocate(void *ud, void *block, size_t old_size, size_t new_size) {
  Track *track = (Track *)ud;
  if (!block) old_size = 0; /* it is the type of the object then */
  if (new_size > old_size && track->limit && track->memory.used + new_size - old_size > track->limit) return NULL;
  void *moved = memory_allocate(track, block, old_size, new_size);
  if (!moved && new_size) return NULL;
  if (old_size < LARGE) track->small -= old_size;
  if (new_size < LARGE) track->small += new_size;
  return moved;
}

static Track *track_of(lua_State *L) { return (Track *)memory_of(L); }

/* bytes() -> bytes in use, and of them in blocks of less than LARGE bytes */
static int t_bytes(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)track_of(L)->memory.used);
  lua_pushinteger(L, (lua_Integer)track_of(L)->small);
  return 2;
}

/* limit(seconds) */
static int t_limit(lua_State *L) {
  memory_limit((unsigned)luaL_checkinteger(L, 1));
  return 0;
}

/* memory(bytes or nil) */
static int t_memory(lua_State *L) {
  Track *track = track_of(L);
  track->limit = lua_isnoneornil(L, 1) ? 0 : track->memory.used + (size_t)luaL_checkinteger(L, 1);
  return 0;
}

/* fail(k or nil, seed) */
static int t_fail(lua_State *L) {
  Memory *m = memory_of(L);
  m->odds = (uint32_t)luaL_optinteger(L, 1, 0);
  m->random = (uint64_t)luaL_optinteger(L, 2, 1) * UINT64_C(0x9E3779B97F4A7C15) | 1;
  m->armed = m->odds != 0;
  return 0;
}

/* collect(is) */
static int t_collect(lua_State *L) {
  memory_collect(L, lua_toboolean(L, 1) ? 1 : 0);
  return 0;
}

/* __gc of a tracked value: calls its function. */
static int finalized(lua_State *L) {
  Track *track = track_of(L);
  size_t number = *(const size_t *)lua_touserdata(L, 1);
  if (track->ran[number] < 255) track->ran[number]++;
  if (lua_getiuservalue(L, 1, 1) == LUA_TNIL) return 0;
  lua_call(L, 0, 0);
  return 0;
}

/* tracked(f or nil) -> a value */
static int t_tracked(lua_State *L) {
  Track *track = track_of(L);
  lua_settop(L, 1);
  if (track->count == track->capacity) {
    size_t capacity = track->capacity ? track->capacity * 2 : 1024;
    unsigned char *ran = (unsigned char *)realloc(track->ran, capacity);
    if (!ran) return luaL_error(L, "not enough memory");
    track->ran = ran;
    track->capacity = capacity;
  }
  size_t *number = (size_t *)lua_newuserdatauv(L, sizeof *number, 1);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  *number = track->count;
  lua_pushvalue(L, lua_upvalueindex(1));
  track->ran[track->count++] = 0;
  lua_setmetatable(L, -2);
  return 1;
}

static int with_traceback(lua_State *L) {
  luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
  return 1;
}

/* Opens the libraries, the core and t. */
static void open_all(lua_State *L, char **argv) {
  luaL_openlibs(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_runnel_core);
  lua_setfield(L, -2, "runnel.core");
  static const luaL_Reg functions[] = {
      {"bytes", t_bytes}, {"collect", t_collect}, {"fail", t_fail}, {"invariants", invariants_check},
      {"limit", t_limit}, {"memory", t_memory},   {NULL, NULL}};
  luaL_newlib(L, functions);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, finalized);
  lua_setfield(L, -2, "__gc");
  lua_pushcclosure(L, t_tracked, 1);
  lua_setfield(L, -2, "tracked");
  lua_pushfstring(L, "'%s' '%s'", argv[0], argv[1]);
  lua_setfield(L, -2, "command");
  lua_setglobal(L, "t");
  lua_settop(L, 0);
}

/* Runs the script with its arguments. */
static int run(lua_State *L, int argc, char **argv) {
  lua_pushcfunction(L, with_traceback);
  int status = luaL_loadfile(L, argv[0]);
  if (status == LUA_OK) {
    luaL_checkstack(L, argc, "too many arguments");
    for (int i = 1; i < argc; i++) lua_pushstring(L, argv[i]);
    status = lua_pcall(L, argc - 1, 0, 1);
  }
  if (status != LUA_OK) (void)fprintf(stderr, "%s\n", lua_tostring(L, -1));
  return status == LUA_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
  Track track = {0};
  if (argc < 2) {
    (void)fprintf(stderr, "usage: runner SCRIPT [ARGUMENT...]\n");
    return EXIT_FAILURE;
  }
  lua_State *L = lua_newstate(allocate, &track);
  if (!L) return EXIT_FAILURE;
  (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  open_all(L, argv);
  int status = run(L, argc - 1, argv + 1);
  lua_close(L);
  for (size_t i = 0; i < track.count && status == EXIT_SUCCESS; i++) {
    if (track.ran[i] == 1) continue;
    (void)fprintf(stderr, "%s: the finalizer of tracked value %zu of %zu ran %d times\n", argv[1], i + 1, track.count,
                  track.ran[i]);
    status = EXIT_FAILURE;
  }
  free(track.ran);
  if (track.memory.used) {
    (void)fprintf(stderr, "%s: closing the state left %zu bytes\n", argv[1], track.memory.used);
    status = EXIT_FAILURE;
  }
  return status;
}
