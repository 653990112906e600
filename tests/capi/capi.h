/* capi.h: what the programs that test the C API share. */
#ifndef RUNNEL_TEST_CAPI_H
#define RUNNEL_TEST_CAPI_H

#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capi/runnel.h"

#define FAIL(...)                                                                                                      \
  do {                                                                                                                 \
    (void)fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                              \
    (void)fprintf(stderr, __VA_ARGS__);                                                                                \
    (void)fputc('\n', stderr);                                                                                         \
    exit(EXIT_FAILURE);                                                                                                \
  } while (0)

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) FAIL("%s", #condition);                                                                          \
  } while (0)

/* Checks a code of the API. */
#define IS(expected, call)                                                                                             \
  do {                                                                                                                 \
    int got_ = (call);                                                                                                 \
    if (got_ != (expected)) FAIL("%s is %d (%s), not " #expected, #call, got_, runnel_strerror(got_));                 \
  } while (0)

#define OK(call) IS(RUNNEL_OK, call)

/* Makes a state with the libraries and runnel, which finds Lua modules in the library only. */
static inline lua_State *open_state(void) {
  lua_State *L = luaL_newstate();
  CHECK(L);
  luaL_openlibs(L);
  OK(runnel_open(L));
  CHECK(luaL_dostring(L, "package.path, package.cpath = '', ''; rn = require 'runnel'") == LUA_OK);
  CHECK(lua_gettop(L) == 0);
  return L;
}

/* Runs Lua code, which must not fail. */
static inline void lua(lua_State *L, const char *code) {
  if (luaL_dostring(L, code) != LUA_OK) FAIL("%s", lua_tostring(L, -1));
}

static inline void pause_us(long us) {
  struct timespec ts = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
  (void)nanosleep(&ts, NULL);
}

static inline pthread_t start(void *(*f)(void *), void *arg) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, f, arg) == 0);
  return thread;
}

static inline void join(pthread_t thread) { CHECK(pthread_join(thread, NULL) == 0); }

#endif
