/* wait.c: see wait.h. */
#include "host/runtime/wait.h"

#include <errno.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "blocks/driver.h"
#include "blocks/sched.h"
#include "core/sched_wakeup.h"
#include "errors/unhandled.h"
#include "host/runtime/core.h"
#include "host/runtime/interrupt.h"

/* How long go blocks run between checks for input; how long a driver that cannot watch the input may wait. */
static const int64_t RUN_NS = 2 * CLOCK_MS, SLICE_NS = 5 * CLOCK_MS;

static int64_t ran;   /* when go blocks ran last, since they do not run for every pasted byte */
static int available; /* bytes that can be read without another check */

/* Waits for input for at most `ns` (negative: forever), or until other threads have news. Signals are blocked between
   the check for an interrupt and the sleep, so that none is missed in between. */
static Waited poll_input(int64_t ns) {
  sigset_t old;
  signals_block(&old);
  Waited waited = WAITED_INTERRUPT;
  if (!interrupt_pending()) {
    const Sched *S = core_sched();
    int port = S ? sched_wakeup_fd(S) : -1;
    fd_set set;
    FD_ZERO(&set);
    FD_SET(STDIN_FILENO, &set);
    if (port >= 0 && port < FD_SETSIZE) FD_SET(port, &set);
    struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    int highest = port < FD_SETSIZE && port > STDIN_FILENO ? port : STDIN_FILENO;
    int n = pselect(highest + 1, &set, NULL, NULL, ns < 0 ? NULL : &ts, &old);
    if (n == 0 || (n > 0 && !FD_ISSET(STDIN_FILENO, &set))) waited = WAITED_TIME;
    else if (n > 0 || errno != EINTR) waited = WAITED_INPUT; /* after an error, reading fails too */
    else waited = interrupt_pending() ? WAITED_INTERRUPT : WAITED_SIGNAL;
  }
  signals_restore(&old);
  return waited;
}

/* Protected: () -> ns until the next deadline, 0 if go blocks are ready, -1 if there is nothing to wait for. */
static int run_some(lua_State *L) {
  Sched *S = sched_self(L);
  int64_t next = sched_step(L, S, LUA_MAXINTEGER, RUN_NS);
  lua_pushinteger(L, next < 0 ? unhandled_left(S) : next);
  return 1;
}

/* Protected: (ns): waits in the driver, or until there is input. */
static int wait_in_driver(lua_State *L) {
  int64_t ns = lua_tointeger(L, 1);
  Sched *S = sched_self(L);
  if (!S->wakeup_is_watched && (ns < 0 || ns > SLICE_NS)) ns = SLICE_NS; /* it may not watch the input either */
  S->input_is_watched = true;
  driver_wait(L, S, ns);
  return 0;
}

/* Calls one of the protected functions with an integer; an error is written to stderr. */
static lua_Integer call(lua_State *L, lua_CFunction f, lua_Integer argument) {
  int top = lua_gettop(L);
  core_push_function(L, f);
  lua_pushinteger(L, argument);
  lua_Integer result = 0;
  if (lua_pcall(L, 1, 1, 0) == LUA_OK) {
    result = lua_tointeger(L, -1);
  } else {
    const char *message = lua_tostring(L, -1);
    (void)fprintf(stderr, "runnel: error in the scheduler: %s\n", message ? message : "not a string");
  }
  lua_settop(L, top);
  return result;
}

static bool has_driver(lua_State *L) {
  core_push_sched(L);
  bool has = lua_getiuservalue(L, -1, SCHED_DRIVER) != LUA_TNIL;
  lua_pop(L, 2);
  return has;
}

/* Sleeps until there is input, for at most `ns` (INT64_MAX: forever), or until the driver has handled an event. */
static Waited sleep_for(lua_State *L, int64_t ns) {
  if (ns > 0 && has_driver(L)) {
    (void)call(L, wait_in_driver, ns == INT64_MAX ? -1 : ns);
    core_sched()->input_is_watched = false;
    ns = 0;
  }
  return poll_input(ns == INT64_MAX ? -1 : ns);
}

Waited wait_input(lua_State *L, int64_t ns, IdleFunction idle, void *ud) {
  int64_t end = ns < 0 ? INT64_MAX : clock_ns() + ns;
  if (clock_ns() - ran < RUN_NS && !interrupt_pending()) {
    if (available > 0) return WAITED_INPUT;
    Waited waited = poll_input(0);
    if (waited != WAITED_TIME) return waited;
  }
  for (;;) {
    int64_t next = call(L, run_some, 0);
    ran = clock_ns();
    if (next < 0) next = INT64_MAX;
    if (next > end - ran) next = end > ran ? end - ran : 0; /* the go blocks may have taken longer */
    if (idle) idle(ud, next == 0);
    else (void)fflush(stdout);
    Waited waited = sleep_for(L, next);
    if (waited != WAITED_TIME) return waited;
    if (clock_ns() >= end) return WAITED_TIME;
  }
}

void wait_run_first(void) { ran = 0; }

int wait_pending(void) {
  if (available <= 0 && ioctl(STDIN_FILENO, FIONREAD, &available) != 0) available = 0;
  return available;
}

int wait_read_byte(void) {
  unsigned char byte;
  ssize_t n = -1;
  (void)wait_pending();
  while (!interrupt_pending() && (n = read(STDIN_FILENO, &byte, 1)) < 0 && errno == EINTR) {
  }
  available = n == 1 ? available - 1 : 0; /* at Ctrl-C the terminal drops its input: the next read could block */
  return n == 1 ? byte : -1;
}

bool wait_more_input(void) { return available > 0 || poll_input(0) == WAITED_INPUT; }
