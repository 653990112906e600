/* api.c: the C API: calls into Lua, and running the scheduler; see api.h and runnel.h. */
#include "capi/api.h"

#include <errno.h>
#include <lauxlib.h>
#include <string.h>

#include "base/wakeup.h"
#include "blocks/driver.h"
#include "blocks/sched.h"
#include "core/sched_wakeup.h"
#include "errors/unhandled.h"
#include "port/reader.h"
#include "states/interruption.h"

/* Its address is the registry key of `perform`. */
static const char call_key = 0;

/* Upvalue of `perform` that has the last message (runnel_message), or nil. */
enum { AT_MESSAGE = 2 };

/* If the program has the descriptor of runnel_fd, it is readable while go blocks are ready: the program may poll it at
   any time, whatever it has done since the last step. */
static void tell_ready(const Sched *S) {
  if (S->world.ready.first && !S->running && S->wakeup && wakeup_more(S->wakeup)->is_kept) wakeup_signal(S->wakeup);
}

/* Sched.inside of a state that an exception has left. */
static const char left_text[] = "a lua_State that a C++ exception has left";

/* Called when api_call is left; `call->sched` is not NULL if that is by a C++ exception. Lua has not restored what it
   restores when a call ends or fails: nothing may be called any more but lua_close, which does. */
static void on_left(Call **call) {
  Sched *S = (*call)->sched;
  if (!S) return;
  if (S->interruption) interruption_ends(S->interruption);
  S->running = false;
  S->current = NULL;
  S->inside = left_text;
}

/* This file is compiled with -fexceptions. */
#ifdef __GNUC__
#define WHEN_LEFT(f) __attribute__((cleanup(f)))
#else
#define WHEN_LEFT(f)
#endif

/* Protected: (call, values...) -> results */
static int perform(lua_State *L) {
  Call *call = (Call *)lua_touserdata(L, 1);
  Sched *S = sched_self(L);
  if (S->inside == left_text) return luaL_error(L, "a C++ exception has left a call of runnel: close the lua_State");
  call->sched = S;
  S->deadlocked = NULL;
  int n = call->body(L, S, call);
  if (n != API_MESSAGE) return n;
  lua_replace(L, lua_upvalueindex(AT_MESSAGE));
  return 0;
}

/* The message handler: makes a string of the error. */
static int to_string(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  return 1;
}

/* Why runnel_reader_watch, which takes no lua_State, has failed: an error number, once; or 0. `perform` is on top. */
static int take_reader_error(lua_State *L) {
  lua_getupvalue(L, -1, 1);
  const Sched *S = (const Sched *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return S->wakeup ? readers_take_error(S->wakeup) : 0;
}

/* Makes that error the last message. */
static int note_reader_error(lua_State *L, Sched *S, Call *call) {
  (void)S;
  int error = call->option;
  const char *why = error == EEXIST  ? "another reader waits for it"
                    : error == EPERM ? "it can always be read, as a regular file"
                                     : strerror(error);
  lua_pushfstring(L, "a reader cannot wait for this descriptor: %s", why);
  return API_MESSAGE;
}

int api_call(lua_State *L, int n, Call *call) {
  if (!L || n < 0 || lua_gettop(L) < n) return RUNNEL_BAD_ARGUMENT;
  int base = lua_gettop(L) - n;
  if (!lua_checkstack(L, LUA_MINSTACK)) {
    lua_settop(L, base);
    return RUNNEL_NO_MEMORY;
  }
  lua_pushcfunction(L, to_string);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &call_key) != LUA_TFUNCTION) {
    lua_settop(L, base);
    return RUNNEL_NOT_OPEN;
  }
  lua_pushlightuserdata(L, call);
  lua_rotate(L, base + 1, 3);
  WHEN_LEFT(on_left) Call *watched = call;
  int status = lua_pcall(L, n + 1, LUA_MULTRET, base + 1);
  const Sched *S = watched->sched; /* NULL if the body has not begun */
  if (S) tell_ready(S);            /* also after an error, which may have ended a step */
  watched->sched = NULL;
  if (status == LUA_OK) {
    lua_remove(L, base + 1);
    return call->code;
  }
  bool is_deadlock = S && call->operation && S->deadlocked == call->operation->name;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &call_key);
  lua_insert(L, -2);
  lua_setupvalue(L, -2, AT_MESSAGE);
  (void)take_reader_error(L);
  lua_settop(L, base);
  /* The core raises what Lua does when memory runs out: lua_error tells that by the error. */
  return status == LUA_ERRMEM ? RUNNEL_NO_MEMORY : is_deadlock ? RUNNEL_IDLE : RUNNEL_RAISED;
}

int api_call_with(lua_State *L, int index, Call *call) {
  if (!L || lua_type(L, index) != LUA_TUSERDATA) return RUNNEL_BAD_ARGUMENT;
  if (!lua_checkstack(L, 1)) return RUNNEL_NO_MEMORY;
  lua_pushvalue(L, index);
  return api_call(L, 1, call);
}

bool api_set_buffer(Buffer *buffer, int kind, size_t size) {
  static const BufferKind kinds[] = {BUFFER_FIXED, BUFFER_DROPPING, BUFFER_SLIDING};
  if (kind < RUNNEL_FIXED || kind > RUNNEL_SLIDING || size > BUFFER_MAX) return false;
  *buffer = (Buffer){.kind = (uint8_t)(size ? kinds[kind] : BUFFER_NONE), .limit = (uint32_t)size};
  return size || kind == RUNNEL_FIXED;
}

const char *runnel_strerror(int code) {
  enum { LOWEST = RUNNEL_FOREIGN, HIGHEST = RUNNEL_CLOSED };
  static const char *const texts[] = {
      [RUNNEL_OK - LOWEST] = "ok",
      [RUNNEL_IDLE - LOWEST] = "no go block is ready, no timer is pending, no event can come",
      [RUNNEL_EMPTY - LOWEST] = "no value to take now",
      [RUNNEL_FULL - LOWEST] = "no room now",
      [RUNNEL_CLOSED - LOWEST] = "closed",
      [RUNNEL_BAD_ARGUMENT - LOWEST] = "invalid argument",
      [RUNNEL_NO_MEMORY - LOWEST] = "out of memory",
      [RUNNEL_RAISED - LOWEST] = "Lua code or the system failed (see runnel_message)",
      [RUNNEL_RUNNING - LOWEST] = "called from within the scheduler or a callback",
      [RUNNEL_NOT_OPEN - LOWEST] = "runnel is not open in this lua_State (call runnel_open)",
      [RUNNEL_FOREIGN - LOWEST] = "another copy of runnel is open in this lua_State (call runnel_open before require)",
  };
  return code >= LOWEST && code <= HIGHEST ? texts[code - LOWEST] : "unknown code";
}

const char *runnel_version(void) { return RUNNEL_VERSION; }

const char *runnel_message(lua_State *L) {
  const char *message = NULL;
  if (!L || !lua_checkstack(L, 2)) return NULL;
  int top = lua_gettop(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &call_key) == LUA_TFUNCTION) {
    int error = take_reader_error(L);
    if (error) (void)api_call(L, 0, &(Call){.body = note_reader_error, .option = error});
    lua_getupvalue(L, -1, AT_MESSAGE);
    /* Not a number: lua_tostring would convert it in place, which allocates. */
    if (lua_type(L, -1) == LUA_TSTRING) message = lua_tostring(L, -1);
  }
  lua_settop(L, top);
  return message;
}

/* ---- opening ---- */

void api_open(lua_State *L) {
  lua_pushvalue(L, SCHED_SELF);
  lua_pushnil(L);
  lua_pushcclosure(L, perform, AT_MESSAGE);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &call_key);
}

/* ---- running ---- */

/* Hands the result of sched_next to the caller. If the scheduler is idle, the next thing to do may be to report an
   unhandled error. */
static int tell_next(const Sched *S, Call *call, int64_t ns) {
  int64_t left = ns < 0 ? unhandled_left(S) : ns;
  if (call->next_us) *call->next_us = left < 0 || left == INT64_MAX ? -1 : left / 1000 + (left % 1000 != 0);
  return api_code(call, ns < 0 ? RUNNEL_IDLE : RUNNEL_OK);
}

static int step(lua_State *L, Sched *S, Call *call) {
  if (S->running || S->current || S->inside) return api_code(call, RUNNEL_RUNNING);
  return tell_next(S, call, sched_step(L, S, (lua_Integer)call->resumes, call->ns));
}

int runnel_step(lua_State *L, int64_t resumes, int64_t *next_us) {
  if (resumes < 0) return RUNNEL_BAD_ARGUMENT;
  return api_call(L, 0, &(Call){.body = step, .resumes = resumes, .ns = INT64_MAX, .next_us = next_us});
}

int runnel_step_for(lua_State *L, int64_t us, int64_t *next_us) {
  if (us < 0) return RUNNEL_BAD_ARGUMENT;
  return api_call(L, 0, &(Call){.body = step, .resumes = INT64_MAX, .ns = api_ns(us), .next_us = next_us});
}

static int next(lua_State *L, Sched *S, Call *call) {
  return tell_next(S, call, driver_has_news(S) ? 0 : sched_next(L, S));
}

int runnel_next(lua_State *L, int64_t *next_us) {
  if (!next_us) return RUNNEL_BAD_ARGUMENT;
  return api_call(L, 0, &(Call){.body = next, .next_us = next_us});
}

static int fd(lua_State *L, Sched *S, Call *call) {
  Wakeup *wakeup = sched_wakeup(L, S);
  if (!wakeup) return api_code(call, RUNNEL_NO_MEMORY);
  *call->fd = readers_lasting_fd(wakeup);
  return 0;
}

int runnel_fd(lua_State *L, int *fd_out) {
  if (!fd_out) return RUNNEL_BAD_ARGUMENT;
  return api_call(L, 0, &(Call){.body = fd, .fd = fd_out});
}

int runnel_interrupt(lua_State *L, const char *why) {
  if (!L) return RUNNEL_BAD_ARGUMENT;
  Interruption *interruption = interruption_find(L);
  if (!interruption) return RUNNEL_NOT_OPEN;
  bool runs = interruption_raise(interruption, why ? why : "interrupted");
  interruption_release(interruption);
  return runs ? RUNNEL_OK : RUNNEL_IDLE;
}
