/* blocking.c: Lua's own functions that block the thread, such as os.execute, and those of LuaSocket: each is replaced by
   one that calls it, and warns of a call in a go block that took long, since no other go block ran meanwhile. It calls
   the C function itself, so that names and lines in errors stay; so it replaces only C functions without upvalues. What
   blocks in other libraries only a profile finds (profile/profile_blocked.h). */
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/thread.h"
#include "lua/module.h"
#include "profile/profile_state.h"

enum { REAL = 2, NAME = 3 }; /* upvalues of the replacing functions, after the scheduler */

static const int64_t LEAST = 50 * CLOCK_MS;  /* what takes less is not told */
static const int64_t LATE = 1000 * CLOCK_MS; /* what takes longer is told while it runs, if there is a server */

static const char *const SOCKET = "socket.core";

/* Whether the caller is a go block, for which time is real. */
static bool is_watched(const Sched *S) { return S->current && !S->world.clock.is_virtual; }

/* Pushes a function of the module that tells, and returns true; or pushes nothing. */
static bool push_teller(lua_State *L, const char *name) {
  if (!lua_checkstack(L, LUA_MINSTACK)) return false;
  lua_getglobal(L, "require");
  lua_pushliteral(L, "runnel.internal.errors.blocked");
  if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_istable(L, -1)) {
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
    return true;
  }
  lua_pop(L, 1);
  return false;
}

/* The profile measures what blocks the thread when a function returns: the C function has, but Lua has not called it. Its
   hook must see that before the functions that tell return. */
static void tell_profile(lua_State *L) {
  const Profile *p = profile_active(sched_self(L));
  lua_Debug ar = {.event = LUA_HOOKRET};
  if (p && lua_gethook(L) == p->hook && lua_getstack(L, 0, &ar)) p->hook(L, &ar);
}

/* A call that began at `began` has returned: tells of it if it took long. `is_told`: it was told while it ran. Leaves
   the stack as it was. */
static void finish(lua_State *L, int64_t began, bool is_told) {
  int64_t took = clock_ns() - began;
  if (LIKELY(took < LEAST)) return;
  int top = lua_gettop(L);
  tell_profile(L);
  if (push_teller(L, "ended")) {
    lua_pushvalue(L, lua_upvalueindex(NAME));
    lua_pushinteger(L, took / CLOCK_MS);
    lua_pushboolean(L, is_told);
    (void)lua_pcall(L, 3, 0, 0);
  }
  lua_settop(L, top);
}

/* A thread that tells of a call while it runs: it may wait for this program's own server, and then for ever. */
typedef struct Alarm {
  pthread_mutex_t lock;
  pthread_cond_t cond;
  bool is_over;     /* the call has returned */
  bool is_told;     /* it has not, for a second */
  const char *text; /* what to tell */
} Alarm;

static void *watch(void *data) {
  Alarm *alarm = (Alarm *)data;
  struct timespec until = cond_after(LATE);
  int error = 0;
  (void)pthread_mutex_lock(&alarm->lock);
  while (!alarm->is_over && error == 0) error = pthread_cond_timedwait(&alarm->cond, &alarm->lock, &until);
  alarm->is_told = !alarm->is_over;
  if (alarm->is_told) (void)!write(STDERR_FILENO, alarm->text, strlen(alarm->text));
  (void)pthread_mutex_unlock(&alarm->lock);
  return NULL;
}

/* An error that a function raised whose caller was in C: it gets the caller's line, and the function's name. */
static int raise_as(lua_State *L) {
  if (lua_type(L, -1) == LUA_TSTRING) {
    int err = lua_gettop(L);
    const char *name = strpbrk(lua_tostring(L, lua_upvalueindex(NAME)), ".:") + 1;
    luaL_where(L, 1);
    name = lua_pushfstring(L, "'%s'", name);
    luaL_gsub(L, lua_tostring(L, err), "'?'", name);
    lua_remove(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

/* Calls the function, below whose arguments is the text to tell if it takes long. */
static int call_with_alarm(lua_State *L) {
  Alarm alarm = {.text = lua_tostring(L, 1)};
  pthread_t id;
  (void)pthread_mutex_init(&alarm.lock, NULL);
  cond_init(&alarm.cond);
  bool is_watched = thread_spawn(&id, "runnel-blocked", watch, &alarm) == 0;
  int64_t began = clock_ns();
  int status = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
  if (is_watched) {
    (void)pthread_mutex_lock(&alarm.lock);
    alarm.is_over = true;
    (void)pthread_cond_signal(&alarm.cond);
    (void)pthread_mutex_unlock(&alarm.lock);
    (void)pthread_join(id, NULL);
  }
  (void)pthread_cond_destroy(&alarm.cond);
  (void)pthread_mutex_destroy(&alarm.lock);
  finish(L, began, alarm.is_told);
  if (status != LUA_OK) return raise_as(L);
  return lua_gettop(L) - 1;
}

/* Whether a call of a file's method can wait: of a regular file it cannot. */
static bool may_wait(lua_State *L) {
  const luaL_Stream *stream = (const luaL_Stream *)luaL_testudata(L, 1, LUA_FILEHANDLE);
  struct stat status;
  return !stream || (stream->closef && fstat(fileno(stream->f), &status) == 0 && !S_ISREG(status.st_mode));
}

/* Pushes what is to be told if a call takes long; or nothing: there is no server, or it has been told. */
static bool push_text(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  bool has_server = lua_getfield(L, -1, "runnel.http.server") == LUA_TTABLE;
  lua_pop(L, 2);
  if (!has_server || !may_wait(L) || !push_teller(L, "text")) return false;
  lua_pushvalue(L, lua_upvalueindex(NAME));
  if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING) return true;
  lua_pop(L, 1);
  return false;
}

static int measured(lua_State *L) {
  lua_CFunction real = lua_tocfunction(L, lua_upvalueindex(REAL));
  if (!is_watched(sched_self(L))) return real(L);
  if (push_text(L)) {
    lua_insert(L, 1);
    lua_pushvalue(L, lua_upvalueindex(REAL));
    lua_insert(L, 2);
    return call_with_alarm(L);
  }
  int64_t began = clock_ns();
  int n = real(L);
  finish(L, began, false);
  return n;
}

/* The same for a function with upvalues: an iterator. */
static int measured_iterator(lua_State *L) {
  int64_t began = is_watched(sched_self(L)) ? clock_ns() : 0;
  lua_pushvalue(L, lua_upvalueindex(REAL));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  if (began) finish(L, began, false);
  return lua_gettop(L);
}

/* io.lines, file:lines: the iterator is measured. */
static int lines(lua_State *L) {
  bool waits = lua_isnoneornil(L, 1) || (!lua_isstring(L, 1) && may_wait(L));
  int n = lua_tocfunction(L, lua_upvalueindex(REAL))(L);
  if (!waits) return n;
  int at = lua_gettop(L) - n + 1;
  lua_pushvalue(L, SCHED_SELF);
  lua_pushvalue(L, at);
  lua_pushvalue(L, lua_upvalueindex(NAME));
  lua_pushcclosure(L, measured_iterator, NAME);
  lua_replace(L, at);
  return n;
}

/* Replaces a function in the table on top of the stack. `name`: what is told. */
static void replace(lua_State *L, const char *key, const char *name, lua_CFunction by) {
  lua_pushstring(L, key);
  lua_rawget(L, -2);
  bool is_plain = lua_iscfunction(L, -1);
  if (is_plain && lua_getupvalue(L, -1, 1)) {
    lua_pop(L, 1);
    is_plain = false;
  }
  if (is_plain) {
    lua_pushstring(L, key);
    lua_pushvalue(L, SCHED_SELF);
    lua_pushvalue(L, -3);
    lua_pushstring(L, name);
    lua_pushcclosure(L, by, NAME);
    lua_rawset(L, -4);
  }
  lua_pop(L, 1);
}

/* Replaces methods of the class with that metatable, if there is one. */
static void replace_methods(lua_State *L, const char *class, const luaL_Reg *methods, const char *object) {
  int top = lua_gettop(L);
  if (luaL_getmetatable(L, class) == LUA_TTABLE && lua_getfield(L, -1, "__index") == LUA_TTABLE) {
    for (const luaL_Reg *m = methods; m->name; m++) {
      const char *name = lua_pushfstring(L, "%s:%s", object, m->name);
      lua_pushvalue(L, top + 2);
      replace(L, m->name, name, m->func);
      lua_settop(L, top + 2);
    }
  }
  lua_settop(L, top);
}

/* io.popen: from now on files may wait for a process. */
static int with_process(lua_State *L) {
  static const luaL_Reg methods[] = {{"read", measured}, {"close", measured}, {"lines", lines}, {NULL, NULL}};
  replace_methods(L, LUA_FILEHANDLE, methods, "file");
  return measured(L);
}

/* Replaces functions of LuaSocket, whose module is on top of the stack. */
static void replace_socket(lua_State *L) {
  static const char *const classes[] = {"tcp{master}", "tcp{client}", "udp{connected}", "udp{unconnected}",
                                        "tcp{server}"};
  static const luaL_Reg methods[] = {{"accept", measured},      {"connect", measured}, {"receive", measured},
                                     {"receivefrom", measured}, {"send", measured},    {NULL, NULL}};
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) replace_methods(L, classes[i], methods, "socket");
  if (!lua_istable(L, -1)) return;
  replace(L, "select", "socket.select", measured);
  replace(L, "sleep", "socket.sleep", measured);
  if (lua_getfield(L, -1, "dns") == LUA_TTABLE) replace(L, "toip", "socket.dns.toip", measured);
  lua_pop(L, 1);
}

/* The loader of LuaSocket in package.preload, which goes: (name) -> module */
static int load_socket(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushnil(L);
  lua_setfield(L, -2, SOCKET);
  lua_getglobal(L, "require");
  lua_pushstring(L, SOCKET);
  lua_call(L, 1, 1);
  replace_socket(L);
  return 1;
}

void lua_blocking_open(lua_State *L) {
  int top = lua_gettop(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_OSLIBNAME) == LUA_TTABLE) replace(L, "execute", "os.execute", measured);
  lua_pop(L, 1);
  if (lua_getfield(L, -1, LUA_IOLIBNAME) == LUA_TTABLE) {
    replace(L, "read", "io.read", measured);
    replace(L, "lines", "io.lines", lines);
    replace(L, "popen", "io.popen", with_process);
  }
  lua_pop(L, 1);
  if (lua_getfield(L, -1, SOCKET) == LUA_TTABLE) {
    replace_socket(L);
  } else {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    if (lua_getfield(L, -1, SOCKET) == LUA_TNIL) {
      lua_pushvalue(L, SCHED_SELF);
      lua_pushcclosure(L, load_socket, 1);
      lua_setfield(L, -3, SOCKET);
    }
  }
  lua_settop(L, top);
}
