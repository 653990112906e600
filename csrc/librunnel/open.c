/* librunnel/open.c: runnel_open, which makes the core and the Lua modules known to a state; see runnel.h. */
#include <lauxlib.h>
#include <lualib.h>
#include <string.h>

#include "capi/runnel.h"
#include "librunnel/modules.h"
#include "lua/module.h"
#include "states/interruption.h"
#include "states/limits.h"

int luaopen_runnel_core(lua_State *L);

/* Its address is the registry key that says that runnel_open has been called. */
static const char opened_key = 0;

/* What to open, and how. */
typedef struct Opening {
  unsigned options; /* RUNNEL_NO_THREADS and the like */
  Budget *budget;   /* or NULL: no limit */
  bool is_limited;  /* by runnel_open_limited */
  int code;         /* the result */
} Opening;

/* Protected; its upvalue is the scheduler: (whether to count) */
static int open_interruption(lua_State *L) {
  Sched *S = sched_self(L);
  (void)interruption_open(L, S);
  if (lua_toboolean(L, 1)) interruption_count(L, S);
  return 0;
}

/* Modules that reach files, processes, the network, or what a simulation replaces. */
static bool is_of_the_system(const char *name) {
  static const char *const folders[] = {"uv",  "http",    "nats", "sqlite", "store",  "queue",
                                        "tls", "monitor", "sim",  "driver", "prompt", "search"};
  static const char prefix[] = "runnel.";
  if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
  name += sizeof prefix - 1;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    size_t n = strlen(folders[i]);
    if (strncmp(name, folders[i], n) == 0 && (name[n] == '\0' || name[n] == '.')) return true;
  }
  return false;
}

static bool is_wanted(const char *name, unsigned options) {
  return !(options & RUNNEL_NO_SYSTEM) || !is_of_the_system(name);
}

#ifdef RUNNEL_PARTS
/* The last searcher of `require`: (name) -> what its error says of a module that is not among the library's parts. */
static int say_left_out(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  bool is_ours = strncmp(name, "runnel", 6) == 0 && (name[6] == '\0' || name[6] == '.');
  if (is_ours) lua_pushfstring(L, "%s is not in this library, which has the parts: %s", name, RUNNEL_PARTS);
  return is_ours;
}

static void add_searcher(lua_State *L) {
  if (lua_getglobal(L, LUA_LOADLIBNAME) == LUA_TTABLE && lua_getfield(L, -1, "searchers") == LUA_TTABLE) {
    lua_pushcfunction(L, say_left_out);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  }
  lua_settop(L, 1);
}
#endif

/* Protected: (an Opening) */
static int open_all(lua_State *L) {
  Opening *opening = (Opening *)lua_touserdata(L, 1);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (!module_is_ours(L)) {
    opening->code = RUNNEL_FOREIGN;
    return 0;
  }
  bool is_open = opening->is_limited && module_push_sched(L);
  if (is_open || lua_rawgetp(L, LUA_REGISTRYINDEX, &opened_key) != LUA_TNIL) {
    if (opening->is_limited) opening->code = RUNNEL_BAD_ARGUMENT;
    return 0;
  }
  unsigned without = opening->options & (RUNNEL_NO_THREADS | RUNNEL_NO_EXIT | RUNNEL_NO_SYSTEM);
  if (without & RUNNEL_NO_SYSTEM) without |= RUNNEL_NO_THREADS;
  if (opening->is_limited) limits_set(L, &(Limits){.without = without, .budget = opening->budget});
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  for (const Module *module = runnel_modules; module->name; module++) {
    if (is_wanted(module->name, opening->options)) modules_preload_one(L, module);
  }
  lua_pop(L, 1);
#ifdef RUNNEL_PARTS
  add_searcher(L);
#endif
  modules_seclude(L);
  luaL_requiref(L, "runnel.core", luaopen_runnel_core, 0);
  if (!module_push_sched(L)) { /* runnel.core was loaded already, by another copy */
    opening->code = RUNNEL_FOREIGN;
    return 0;
  }
  lua_pushcclosure(L, open_interruption, 1);
  lua_pushboolean(L, (opening->options & RUNNEL_COUNT) != 0);
  lua_call(L, 1, 0);
  lua_pushboolean(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &opened_key);
  return 0;
}

static int open_by(lua_State *L, Opening *opening) {
  if (!L) return RUNNEL_BAD_ARGUMENT;
  if (!lua_checkstack(L, LUA_MINSTACK)) return RUNNEL_NO_MEMORY;
  lua_pushcfunction(L, open_all);
  lua_pushlightuserdata(L, opening);
  int status = lua_pcall(L, 1, 0, 0);
  if (status == LUA_OK) return opening->code;
  lua_pop(L, 1);
  return status == LUA_ERRMEM ? RUNNEL_NO_MEMORY : RUNNEL_RAISED;
}

int runnel_open(lua_State *L) { return open_by(L, &(Opening){.code = RUNNEL_OK}); }

int runnel_open_limited(lua_State *L, unsigned options, size_t memory) {
  enum { ALL = RUNNEL_NO_THREADS | RUNNEL_NO_EXIT | RUNNEL_NO_SYSTEM | RUNNEL_COUNT };
  if (options & ~(unsigned)ALL) return RUNNEL_BAD_ARGUMENT;
  Opening opening = {.options = options, .is_limited = true, .code = RUNNEL_OK};
  if (memory != SIZE_MAX && !(opening.budget = budget_new(memory))) return RUNNEL_NO_MEMORY;
  int code = open_by(L, &opening);
  budget_release(opening.budget);
  return code;
}
