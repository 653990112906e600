/* interrupt.c: see interrupt.h. */
#include "interrupt.h"

#include <lauxlib.h>
#include <signal.h>
#include <stddef.h>

#include "core.h"
#include "driver.h"

enum { ANY_EVENT = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, PATIENCE = 1000000 };

/* What the handler must know; one process, one terminal. */
static lua_State *main_thread;
static volatile sig_atomic_t pending; /* one has come and was not noticed yet */
static volatile sig_atomic_t came;    /* one has come */
static struct sigaction before;       /* what Ctrl-C did before */

/* The hook of the main thread. While the scheduler runs there, it raises where the scheduler has asked for it only: in the
   middle of a report of an error, for instance, it would be lost. */
static void stop(lua_State *L, lua_Debug *ar) {
  const Sched *S = core_sched();
  if (S && S->running) {
    lua_getinfo(L, "f", ar);
    bool asked = lua_tocfunction(L, -1) == driver_nothing;
    lua_pop(L, 1);
    if (!asked) return;
  }
  lua_sethook(L, NULL, 0, 0);
  pending = 0;
  luaL_error(L, "interrupted!");
}

/* The hook of a go block that was running when the signal came. */
static void stop_long(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  if (pending) luaL_error(L, "interrupted!");
}

static void handle(int signal_number) {
  if (pending && main_thread) {
    (void)signal(signal_number, SIG_DFL); /* it is blocked until this returns */
    (void)raise(signal_number);
    return;
  }
  pending = 1;
  came = 1;
  if (main_thread) lua_sethook(main_thread, stop, ANY_EVENT, 1);
  const Sched *S = core_sched();
  const Go *go = S ? S->current : NULL;
  lua_State *co = go ? go->alt.co : NULL;
  if (co) lua_sethook(co, stop_long, LUA_MASKCOUNT, PATIENCE);
}

void interrupt_catch(lua_State *L) {
  main_thread = L;
  pending = 0;
  came = 0;
  struct sigaction action = {.sa_handler = handle};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before);
}

void interrupt_release(lua_State *L) {
  sigaction(SIGINT, &before, NULL);
  if (pending && L) lua_sethook(L, NULL, 0, 0);
  pending = 0;
}

bool interrupt_pending(void) { return pending; }

bool interrupt_came(void) { return came; }
