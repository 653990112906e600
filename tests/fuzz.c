/* fuzz: libFuzzer on the core. An input is a program in bytes, which tests/fuzz.lua runs in a state of its own: it
   performs operations of all kinds, inside go blocks and outside, and checks their outcome. Each of these ends the
   process: a failed assertion of the core's debug build, a broken invariant of the scheduler between two steps, a value
   taken more often than it was put, a sanitizer's report, and memory that closing the state has not freed.

   Time is virtual, so that an input always does the same and never waits: functions whose names begin with __wrap_
   replace those of the system (ld's --wrap). */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "invariants.h"
#include "memory.h"

int luaopen_runnel_core(lua_State *L);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int64_t time_ns; /* the virtual time; begins at 0 for each input */

/* ---- instead of the system's functions ---- */

/* NOLINTBEGIN(bugprone-reserved-identifier): ld's names */
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_ppoll(void *fds, unsigned long n, const struct timespec *ts, const void *mask);
int __wrap_pselect(int n, void *r, void *w, void *e, const struct timespec *ts, const void *mask);
int __wrap_fprintf(FILE *file, const char *format, ...);

int __wrap_clock_gettime(clockid_t id, struct timespec *ts) {
  (void)id;
  *ts = (struct timespec){.tv_sec = (time_t)(time_ns / 1000000000), .tv_nsec = (long)(time_ns % 1000000000)};
  return 0;
}

/* Advances the time. No event ever comes. */
static int sleep_for(const struct timespec *ts) {
  if (!ts) abort(); /* for ever */
  time_ns += (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec;
  return 0;
}

int __wrap_ppoll(void *fds, unsigned long n, const struct timespec *ts, const void *mask) {
  (void)fds, (void)n, (void)mask;
  return sleep_for(ts);
}

int __wrap_pselect(int n, void *r, void *w, void *e, const struct timespec *ts, const void *mask) {
  (void)n, (void)r, (void)w, (void)e, (void)mask;
  return sleep_for(ts);
}

/* Discards the core's error messages. */
int __wrap_fprintf(FILE *file, const char *format, ...) {
  (void)file, (void)format;
  return 0;
}

/* NOLINTEND(bugprone-reserved-identifier) */

/* ---- what tests/fuzz.lua calls ---- */

/* broken(message): ends the process. */
static int t_broken(lua_State *L) {
  (void)fputs(luaL_tolstring(L, 1, NULL), stderr);
  (void)fputs("\n", stderr);
  abort();
}

/* invariants() */
static int t_invariants(lua_State *L) {
  const char *broken = invariants_broken(L);
  if (!broken) return 0;
  lua_settop(L, 0);
  lua_pushfstring(L, "broken invariant: %s", broken);
  return t_broken(L);
}

/* advance(ms): time passes. */
static int t_advance(lua_State *L) {
  time_ns += luaL_checkinteger(L, 1) * 1000000;
  return 0;
}

/* fail(n): the n-th allocation from now on fails; with 0 none does. */
static int t_fail(lua_State *L) {
  Memory *m = memory_of(L);
  uint32_t n = (uint32_t)luaL_checkinteger(L, 1);
  m->armed = n > 0;
  m->first = m->asked + n;
  return 0;
}

/* ---- an input ---- */

/* The script, compiled once. */
static const char *script(size_t *size) {
  static char *code;
  static size_t length;
  if (!code) {
    lua_State *L = luaL_newstate();
    if (!L) abort();
    luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 0);
    lua_getfield(L, -1, "dump");
    if (luaL_loadfile(L, "tests/fuzz.lua") != LUA_OK) t_broken((lua_replace(L, 1), L));
    lua_call(L, 1, 1);
    const char *bytes = lua_tolstring(L, -1, &length);
    code = (char *)malloc(length);
    if (!code) abort();
    memcpy(code, bytes, length);
    lua_close(L);
  }
  *size = length;
  return code;
}

/* Protected: (input). */
static int run(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"broken", t_broken}, {"invariants", t_invariants}, {"advance", t_advance}, {"fail", t_fail}, {NULL, NULL}};
  luaL_openlibs(L);
  luaL_requiref(L, "runnel.core", luaopen_runnel_core, 0);
  invariants_sched(L)->world.random = 1; /* else it is of the time and an address */
  size_t size;
  const char *code = script(&size);
  if (luaL_loadbufferx(L, code, size, "=fuzz.lua", "b") != LUA_OK) return lua_error(L);
  luaL_newlib(L, functions);
  lua_pushvalue(L, 1);
  lua_call(L, 2, 0);
  return 0;
}

static int with_traceback(lua_State *L) {
  luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
  return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Memory m = {.count = 1};
  lua_State *L = lua_newstate(memory_allocate, &m);
  if (!L) abort();
  time_ns = 0;
  lua_pushcfunction(L, with_traceback);
  lua_pushcfunction(L, run);
  lua_pushlstring(L, (const char *)data, size);
  if (lua_pcall(L, 1, 0, 1) != LUA_OK) t_broken((lua_replace(L, 1), L));
  lua_close(L);
  if (m.used) {
    (void)fputs("closing the state left memory\n", stderr);
    abort();
  }
  return 0;
}
