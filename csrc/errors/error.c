/* error.c: see error.h. */
#include "errors/error.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "core/attr.h"
#include "core/observe.h"
#include "core/setup.h"
#include "errors/leaks.h"
#include "errors/name.h"
#include "errors/origin.h"
#include "errors/traceback.h"

/* ---- the text of an error ---- */

enum { MAX_FIELDS = 16 }; /* how many fields of a table are shown */

/* Pushes the key of the table at index `at` that follows the key at index `last` (nil: the first one) in alphabetical
   order; nil if there is none. Only keys that are strings, and whose values can be shown, count. */
static void push_next_key(lua_State *L, int at, int last) {
  lua_pushnil(L);
  int best = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) {
    int type = lua_type(L, -1);
    if (lua_type(L, -2) != LUA_TSTRING) continue;
    if (type != LUA_TSTRING && type != LUA_TNUMBER && type != LUA_TBOOLEAN) continue;
    if (!lua_isnil(L, last) && !lua_compare(L, last, -2, LUA_OPLT)) continue;
    if (!lua_isnil(L, best) && !lua_compare(L, -2, best, LUA_OPLT)) continue;
    lua_pushvalue(L, -2);
    lua_replace(L, best);
  }
}

/* Pushes the text of an error that is a table: its message, if it has one, and its other fields. Returns false if it
   has neither; the text is then what tostring gives. */
static bool push_table_text(lua_State *L, int at) {
  luaL_Buffer b;
  lua_getfield(L, at, "message");
  bool has_message = lua_type(L, -1) == LUA_TSTRING;
  lua_pushnil(L); /* the last key */
  int message = lua_gettop(L) - 1, key = message + 1;
  luaL_buffinit(L, &b);
  if (has_message) {
    lua_pushvalue(L, message);
    luaL_addvalue(&b);
  }
  bool is_first = true;
  for (int n = 0; n < MAX_FIELDS; n++) {
    push_next_key(L, at, key); /* keeps what the buffer has on the stack */
    lua_replace(L, key);
    if (lua_isnil(L, key)) break;
    if (has_message && strcmp(lua_tostring(L, key), "message") == 0) continue;
    luaL_addstring(&b, is_first ? (has_message ? " (" : "{ ") : ", ");
    is_first = false;
    lua_pushvalue(L, key);
    luaL_addvalue(&b);
    luaL_addstring(&b, " = ");
    lua_pushvalue(L, key);
    lua_rawget(L, at);
    luaL_tolstring(L, -1, NULL);
    lua_remove(L, -2);
    luaL_addvalue(&b);
  }
  if (!is_first) luaL_addstring(&b, has_message ? ")" : " }");
  luaL_pushresult(&b);
  lua_replace(L, message);
  lua_settop(L, message);
  if (lua_rawlen(L, message) > 0) return true;
  luaL_tolstring(L, at, NULL);
  lua_replace(L, message);
  return false;
}

/* Protected: (error) -> its text, and what error_push_text returns. */
static int text_of(lua_State *L) {
  bool is_plain = lua_istable(L, 1) && luaL_getmetafield(L, 1, "__tostring") == LUA_TNIL, is_known = true;
  lua_settop(L, 1);
  if (is_plain) is_known = push_table_text(L, 1);
  else luaL_tolstring(L, 1, NULL);
  lua_pushboolean(L, is_known);
  return 2;
}

bool error_push_text(lua_State *L, int at) {
  lua_pushcfunction(L, text_of);
  lua_pushvalue(L, at);
  int status = lua_pcall(L, 1, 2, 0);
  if (status == LUA_OK) {
    bool is_known = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return is_known;
  }
  if (status == LUA_ERRMEM) (void)lua_error(L);
  (void)error_defer_interrupt(L);
  const char *why = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : luaL_typename(L, -1);
  lua_pushfstring(L, "(error object whose text cannot be made: %s)", why);
  lua_remove(L, -2);
  return true;
}

/* ---- raising and reporting ---- */

/* Pops a function. Whether it is a C function of the library, whose first upvalue is the scheduler, and was called by
   the program: not while the scheduler calls user code. */
static bool pop_is_core(lua_State *L) {
  bool is = !sched_self(L)->inside && lua_iscfunction(L, -1) && lua_getupvalue(L, -1, 1);
  if (is) {
    is = lua_rawequal(L, -1, SCHED_SELF);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return is;
}

int error_raise(lua_State *L) {
  if (lua_type(L, -1) != LUA_TSTRING) return lua_error(L);
  lua_Debug ar;
  bool in_c = false, in_core = false; /* whether the frame above is that of a C function, and one of the library */
  for (int level = 1; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sf", &ar);
    bool is_core = pop_is_core(L), is_c = ar.what[0] == 'C', is_library = !is_c && origin_is_library(L, &ar);
    if (in_c && !is_library && (is_c || !in_core)) break;
    if (!is_c && !is_library) {
      luaL_where(L, level);
      lua_insert(L, -2);
      lua_concat(L, 2);
      break;
    }
    in_c = is_c;
    in_core = is_core;
  }
  return lua_error(L);
}

/* The upvalue of describe_death that has the names of functions for tracebacks. */
enum { NAMES = 2 };

void error_push_here(lua_State *L) {
  if (!lua_checkstack(L, TRACEBACK_SLOTS + 1)) {
    luaL_traceback(L, L, NULL, 1); /* seldom covered: the stack has overflowed */
    return;
  }
  lua_getiuservalue(L, SCHED_SELF, SCHED_DESCRIBE);
  lua_getupvalue(L, -1, NAMES);
  lua_remove(L, -2);
  traceback_push(L, L, 1, lua_gettop(L));
  lua_remove(L, -2);
}

/* The message handler: keeps the traceback of the error, and returns the error. */
static int keep_traceback(lua_State *L) {
  error_push_here(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_TRACEBACK);
  lua_settop(L, 1);
  return 1;
}

void error_push_traceback(lua_State *L) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_TRACEBACK);
  lua_pushnil(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_TRACEBACK);
}

void error_set_elsewhere(lua_State *L) { lua_setiuservalue(L, SCHED_SELF, SCHED_ELSEWHERE); }

/* The upvalue of `report` that has the ErrorWriter, or nil. */
enum { WRITER = 2 };

ErrorWriter error_writer(lua_State *L) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_REPORT);
  lua_getupvalue(L, -1, WRITER);
  const ErrorWriter *found = (const ErrorWriter *)lua_touserdata(L, -1);
  lua_pop(L, 2);
  return found ? *found : (ErrorWriter){NULL, NULL};
}

void error_set_writer(lua_State *L, const ErrorWriter *writer) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_REPORT);
  *(ErrorWriter *)lua_newuserdatauv(L, sizeof *writer, 0) = *writer;
  lua_setupvalue(L, -2, WRITER);
  lua_pop(L, 1);
}

static void write_error(lua_State *L, const char *message, const char *where, const char *traceback) {
  ErrorWriter writer = error_writer(L);
  if (writer.write) {
    writer.write(writer.data, message, where, traceback);
    return;
  }
  sched_self(L)->printed++;
  fprintf(stderr, "runnel: error in %s: %s\n", where, message);
  if (traceback) fprintf(stderr, "%s\n", traceback);
}

/* Protected: (error, traceback or nil, name or channel or nil, whether to write it in any case): calls the error
   handler, or writes the error. */
static int report(lua_State *L) {
  bool is_written = lua_toboolean(L, 4);
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_ELSEWHERE) != LUA_TNIL) {
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 2, 1);
    lua_replace(L, 2);
  }
  lua_settop(L, 3);
  if (lua_isfunction(L, 3)) {
    name_write(L, 3); /* seldom covered: unhandled.c had no memory for the error's record */
  } else if (lua_type(L, 3) == LUA_TUSERDATA) {
    attr_push_name(L, (Chan *)lua_touserdata(L, 3), 3);
    lua_replace(L, 3);
  } else if (lua_isnil(L, 3)) {
    lua_pushliteral(L, "the scheduler");
    lua_replace(L, 3);
  }
  if (!is_written && lua_getiuservalue(L, SCHED_SELF, SCHED_ON_ERROR) != LUA_TNIL) {
    lua_insert(L, 1);
    lua_call(L, 3, 0);
    return 0;
  }
  lua_settop(L, 3);
  error_push_text(L, 1);
  const char *message = lua_tostring(L, -1);
  (void)luaL_tolstring(L, 3, NULL);
  attr_push_shown(L, lua_gettop(L));
  write_error(L, message, lua_tostring(L, -1), lua_isstring(L, 2) ? lua_tostring(L, 2) : NULL);
  return 0;
}

/* Calls `report`, protected, with the three values from index `error` on. If it raises, leaves the error on top of L
   and returns false. */
static bool try_report(lua_State *L, int error, bool is_written) {
  lua_settop(L, error + 2);
  lua_getiuservalue(L, SCHED_SELF, SCHED_REPORT);
  for (int i = 0; i < 3; i++) lua_pushvalue(L, error + i);
  lua_pushboolean(L, is_written);
  return lua_pcall(L, 4, 0, 0) == LUA_OK;
}

void error_report(lua_State *L) {
  Sched *S = sched_self(L);
  S->reported++;
  OBSERVE(S, report, L, S);
  int error = lua_gettop(L) - 2;
  const char *outer = S->inside;
  bool was_reporting = S->reporting;
  S->inside = "an error handler";
  S->reporting = true;
  if (!try_report(L, error, false)) {
    const char *message = lua_tostring(L, -1);
    write_error(L, message ? message : "not a string", "the error handler", NULL);
    try_report(L, error, true);
  }
  S->inside = outer;
  S->reporting = was_reporting;
  lua_settop(L, error - 1);
}

void error_report_of(lua_State *L, int at) {
  error_push_traceback(L);
  lua_pushvalue(L, at);
  error_report(L);
}

/* A hook: raises the error of Ctrl-C again, once. */
static void interrupt_again(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  luaL_error(L, "interrupted!");
}

bool error_is_interrupt(lua_State *L, int at) {
  static const char text[] = "interrupted!";
  size_t size, end = sizeof text - 1;
  const char *err = lua_type(L, at) == LUA_TSTRING ? lua_tolstring(L, at, &size) : NULL;
  if (!err || size < end || memcmp(err + size - end, text, end) != 0) return false;
  size -= end;
  if (size == 0) return true;
  if (size < 4 || memcmp(err + size - 2, ": ", 2) != 0) return false;
  size_t digits = size - 2; /* where those of the line begin */
  while (digits > 0 && isdigit((unsigned char)err[digits - 1])) digits--;
  return digits > 0 && digits < size - 2 && err[digits - 1] == ':';
}

bool error_defer_interrupt(lua_State *L) {
  bool is_interrupt = error_is_interrupt(L, -1);
  /* Not at a return: that of the loop would raise it where it cannot go to the program. */
  if (is_interrupt) lua_sethook(L, interrupt_again, LUA_MASKCALL | LUA_MASKCOUNT, 1);
  return is_interrupt;
}

/* Protected. */
static int push_overflow(lua_State *L) {
  lua_pushliteral(L, "stack overflow");
  return 1;
}

void error_name_overflow(lua_State *L, int status, int at) {
  if (LIKELY(status != LUA_ERRERR)) return;
  lua_pushcfunction(L, push_overflow);
  (void)lua_pcall(L, 0, 1, 0);
  lua_replace(L, at);
}

/* error_pcall; `shielded` goes into the Sched while the function runs. */
static bool call_inside(lua_State *L, int nargs, int nresults, const char *inside, bool shielded) {
  int base = lua_gettop(L) - nargs;
  lua_getiuservalue(L, SCHED_SELF, SCHED_MSGH);
  lua_insert(L, base);
  Sched *S = sched_self(L);
  const char *outer = S->inside;
  bool was_shielded = S->shielded;
  S->inside = inside;
  S->shielded = shielded;
  int status = lua_pcall(L, nargs, nresults, base);
  S->inside = outer;
  S->shielded = was_shielded;
  lua_remove(L, base);
  error_name_overflow(L, status, base);
  return status == LUA_OK;
}

bool error_pcall(lua_State *L, int nargs, int nresults, const char *inside) {
  return call_inside(L, nargs, nresults, inside, false);
}

bool error_call(lua_State *L, int nargs, const char *inside, int at) {
  bool ok = call_inside(L, nargs, 0, inside, true);
  if (UNLIKELY(!ok)) error_report_of(L, at);
  return ok;
}

/* Whether the traceback of the go block at index 1 is never shown: it feeds a table whose field `tries_again` is true
   (workers.lua). */
static bool tries_again(lua_State *L, const Go *go) {
  if (!(go->chan.flags & CHAN_FEEDS) || lua_getiuservalue(L, 1, GO_FED) != LUA_TTABLE) return false;
  lua_pushliteral(L, "tries_again");
  lua_rawget(L, -2);
  return lua_toboolean(L, -1);
}

/* Protected: (go block's userdata, whether it was cancelled) -> traceback or nil, name or the function that stands for it.
   Writing the name of a cancelled go block would take a fifth of its life, and seldom anybody reads it. */
static int describe_death(lua_State *L) {
  Go *go = (Go *)lua_touserdata(L, 1);
  bool is_cancelled = lua_toboolean(L, 2);
  if (is_cancelled || tries_again(L, go)) lua_pushnil(L);
  else traceback_push(L, go->alt.co, 0, lua_upvalueindex(NAMES));
  if (is_cancelled && name_push_function(L, go, 1)) return 2;
  name_push_go(L, go, 1);
  /* It keeps its name while its variables are being closed, when its function is no longer on its stack. */
  lua_pushvalue(L, -1);
  attr_set(L, 1, ATTR_GO);
  return 2;
}

void error_describe_death(lua_State *L, int at, bool is_cancelled) {
  error_name_overflow(L, lua_status(((const Go *)lua_touserdata(L, at))->alt.co), at - 1);
  lua_getiuservalue(L, SCHED_SELF, SCHED_DESCRIBE);
  lua_pushvalue(L, at);
  lua_pushboolean(L, is_cancelled);
  if (lua_pcall(L, 2, 2, 0) != LUA_OK) {
    lua_pop(L, 1);
    lua_pushnil(L);
    lua_pushnil(L);
  }
}

void error_open(lua_State *L) {
  leaks_open(L);
  setup_keep_function(L, SCHED_MSGH, keep_traceback);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushnil(L);
  lua_pushcclosure(L, report, WRITER);
  lua_setiuservalue(L, SCHED_SELF, SCHED_REPORT);
  lua_pushvalue(L, SCHED_SELF);
  setup_push_weak(L, "v");
  lua_pushcclosure(L, describe_death, 2);
  lua_setiuservalue(L, SCHED_SELF, SCHED_DESCRIBE);
}
