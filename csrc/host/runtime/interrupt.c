/* interrupt.c: see interrupt.h. */
#include "host/runtime/interrupt.h"

#include <lauxlib.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "blocks/driver.h"
#include "host/runtime/core.h"
#include "port/ending.h"
#include "port/former.h"

enum { ANY_EVENT = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, PATIENCE = 1000000 };

/* How many seconds after SIGTERM a program may take to write the trace. */
enum { END_S = 2 };

/* The state of the signal handlers, which have no argument for it. */
static lua_State *main_thread;
static volatile sig_atomic_t pending; /* Ctrl-C has had no effect yet */
static volatile sig_atomic_t came;    /* Ctrl-C was pressed */
static volatile sig_atomic_t wanted;  /* SIGQUIT has arrived, and its report has not been written */
static lua_State *traced;             /* the main thread of a program that --trace records, or NULL */
static volatile sig_atomic_t ending;  /* the signal that ends that program, or 0 */

/* The hook of the main thread. While the scheduler runs there, it raises only in the function that the scheduler calls
   for this purpose: elsewhere, for example while an error is reported, the interrupt would be lost. */
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

/* The hook of a go block that was running when the signal arrived. */
static void stop_long(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  if (pending) luaL_error(L, "interrupted!");
}

/* ---- SIGQUIT ---- */

/* Protected, in the hook: () -> writes the report. */
static int write_report(lua_State *L) {
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "runnel.host.blocks");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "report");
  lua_call(L, 0, 1);
  size_t size;
  const char *text = lua_tolstring(L, -1, &size);
  if (text) (void)fwrite(text, 1, size, stderr);
  return 0;
}

/* The hook that SIGQUIT sets on the main thread and on the running go block: writes the report. The script
   continues. */
static void report(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  if (!wanted) return;
  wanted = 0;
  if (!lua_checkstack(L, LUA_MINSTACK)) return;
  int top = lua_gettop(L);
  (void)fflush(stdout);
  (void)fprintf(stderr, "SIGQUIT:\n");
  if (main_thread && L != main_thread) lua_sethook(main_thread, NULL, 0, 0);
  luaL_traceback(L, L, L == main_thread ? "the main thread:" : "the go block that is running:", 0);
  (void)fprintf(stderr, "%s\n", lua_tostring(L, -1));
  lua_pushcfunction(L, write_report);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) {
    const char *message = lua_tostring(L, -1); /* uncovered: only when memory runs out */
    (void)fprintf(stderr, "no report of go blocks: %s\n", message ? message : "?");
  }
  lua_settop(L, top);
}

static void handle_quit(int signal_number) {
  (void)signal_number;
  if (pending || !main_thread) return; /* Ctrl-C is pending, and will list the go blocks, too */
  wanted = 1;
  lua_sethook(main_thread, report, ANY_EVENT, 1);
  const Sched *S = core_sched();
  const Go *go = S ? S->current : NULL;
  lua_State *co = go ? go->alt.co : NULL;
  if (co) lua_sethook(co, report, ANY_EVENT, 1);
}

/* ---- Ctrl-C ---- */

static void handle(int signal_number) {
  if (pending && main_thread) {
    /* seldom covered: the process may end before the coverage of these lines is written */
    ending_by(signal_number);
    return; /* uncovered: the process has ended */
  }
  pending = 1;
  came = 1;
  if (main_thread) lua_sethook(main_thread, stop, ANY_EVENT, 1);
  const Sched *S = core_sched();
  const Go *go = S ? S->current : NULL;
  lua_State *co = go ? go->alt.co : NULL;
  if (co) lua_sethook(co, stop_long, LUA_MASKCOUNT, PATIENCE);
}

/* ---- SIGTERM and SIGHUP while --trace records ---- */

/* The hook that such a signal sets on the main thread and on the running go block: the file is written first. */
static void end(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  (void)alarm(0);
  core_end_trace(L);
  ending_by(ending);
}

/* A second such signal; or the alarm: the hook was not called, since the program is in a long C function, or computes
   in a coroutine of its own. */
static void end_now(int signal_number) { ending_by(signal_number == SIGALRM ? ending : signal_number); }

static void handle_end(int signal_number) {
  if (ending) {
    end_now(signal_number);
    return; /* uncovered: the process has ended */
  }
  ending = signal_number;
  struct sigaction action = {.sa_handler = end_now};
  (void)sigemptyset(&action.sa_mask);
  (void)sigaction(SIGALRM, &action, NULL);
  (void)alarm(END_S);
  lua_sethook(traced, end, ANY_EVENT, 1);
  const Sched *S = core_sched();
  const Go *go = S ? S->current : NULL;
  lua_State *co = go ? go->alt.co : NULL;
  if (co) lua_sethook(co, end, ANY_EVENT, 1);
}

/* SIGTERM and SIGHUP. */
static sigset_t ends(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

/* Sets the actions of SIGTERM and SIGHUP. `old`: the present one. Each handler blocks both signals: otherwise, if both
   are pending, the kernel runs the handler of the second one first. */
static void replace_ends(void (*old)(int), void (*handler)(int)) {
  static const int signals[] = {SIGTERM, SIGHUP};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    struct sigaction action;
    if (!former_get(signals[i], &action) || action.sa_handler != old) continue;
    action = (struct sigaction){.sa_handler = handler, .sa_mask = ends()};
    former_set(signals[i], &action);
  }
}

void interrupt_end_trace(lua_State *L) {
  traced = L;
  replace_ends(SIG_DFL, handle_end);
}

void interrupt_close(lua_State *L) {
  sigset_t set = ends(), old;
  (void)sigprocmask(SIG_BLOCK, &set, &old);
  lua_close(L);
  replace_ends(handle_end, SIG_DFL);
  (void)sigprocmask(SIG_SETMASK, &old, NULL);
}

/* A signal that the host handles while Lua code runs. */
typedef struct Handled {
  int number;
  void (*handler)(int);
  struct sigaction before; /* the action that the handler has replaced */
  bool is_taken;           /* a library of the program has set another action, which stays */
} Handled;

static Handled ctrl_c = {.number = SIGINT, .handler = handle};
static Handled quit = {.number = SIGQUIT, .handler = handle_quit};

/* Whether its present action is one that neither the host nor the system has set. */
static bool is_foreign(const Handled *h) {
  struct sigaction now;
  if (!former_get(h->number, &now)) return false;
  return now.sa_handler != h->handler && now.sa_handler != SIG_IGN && !ending_is_default(&now);
}

static void begin_handling(Handled *h) {
  h->is_taken = h->is_taken && is_foreign(h);
  if (h->is_taken) return;
  struct sigaction action = {.sa_handler = h->handler};
  sigemptyset(&action.sa_mask);
  (void)former_get(h->number, &h->before);
  former_set(h->number, &action);
}

static void end_handling(Handled *h) {
  h->is_taken = is_foreign(h);
  if (!h->is_taken) former_set(h->number, &h->before);
}

void interrupt_catch(lua_State *L) {
  main_thread = L;
  pending = 0;
  came = 0;
  begin_handling(&ctrl_c);
  if (L) begin_handling(&quit);
}

void interrupt_release(lua_State *L) {
  end_handling(&ctrl_c);
  if (L) end_handling(&quit);
  if ((pending || wanted) && L) lua_sethook(L, NULL, 0, 0);
  main_thread = NULL;
  wanted = 0;
  pending = 0;
}

bool interrupt_pending(void) { return pending; }

bool interrupt_came(void) { return came; }
