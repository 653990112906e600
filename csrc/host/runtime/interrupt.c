/* interrupt.c: see interrupt.h. */
#include "host/runtime/interrupt.h"

#include <lauxlib.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "blocks/driver.h"
#include "host/runtime/core.h"
#include "port/ending.h"
#include "port/former.h"

enum { ANY_EVENT = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, PATIENCE = 1000000 };

/* How many seconds after a signal that ends the program it may take to reach the hook that does so in order. */
enum { END_S = 2 };

/* pcall and xpcall. */
enum { CATCHERS = 2 };

/* The state of the signal handlers, which have no argument for it. */
static lua_State *main_thread;
static volatile sig_atomic_t pending; /* Ctrl-C has had no effect yet */
static volatile sig_atomic_t came;    /* Ctrl-C was pressed */
static volatile sig_atomic_t wanted;  /* SIGQUIT has arrived, and its report has not been written */
static volatile sig_atomic_t insists; /* at the prompt: Ctrl-C came again after the error of the first */
static bool at_prompt;
static lua_CFunction catchers[CATCHERS]; /* those of the prompt's state; NULL if the program has replaced them */
static lua_State *traced;                /* the main thread of a program that --trace records, or NULL */
static volatile sig_atomic_t ending;     /* the signal that ends the program, or 0 */

/* Whether the scheduler runs: then the error of a hook on the main thread may be lost. */
static bool is_scheduling(void) {
  const Sched *S = core_sched();
  return S && S->running;
}

/* Whether the function that has called the hook is one of pcall and xpcall, and returns false: it has caught an
   error. */
static bool has_caught(lua_State *L, lua_Debug *ar) {
  if (!lua_checkstack(L, 2)) return false;
  int top = lua_gettop(L);
  lua_getinfo(L, "fr", ar);
  lua_CFunction f = lua_tocfunction(L, -1);
  bool has = false;
  for (int i = 0; f && i < CATCHERS; i++) has = has || f == catchers[i];
  has = has && lua_getlocal(L, ar, ar->ftransfer) && lua_isboolean(L, -1) && !lua_toboolean(L, -1);
  lua_settop(L, top);
  return has;
}

/* Whether the caller of the function that has called the hook belongs to the library. */
static bool is_of_library(lua_State *L) {
  static const char folder[] = "=runnel/"; /* in the chunk names of the modules inside (scripts/embed.lua) */
  lua_Debug caller;
  return lua_getstack(L, 1, &caller) && lua_getinfo(L, "S", &caller) &&
         strncmp(caller.source, folder, sizeof folder - 1) == 0;
}

/* The hook of the main thread after a second Ctrl-C at the prompt has raised its error: what the program catches is
   raised again, so that the chunk ends. The library catches errors to leave nothing behind, and variables are closed;
   neither is disturbed. */
static void pass_on(lua_State *L, lua_Debug *ar) {
  if (L != main_thread) lua_sethook(L, NULL, 0, 0); /* a coroutine made meanwhile has inherited it */
  else if (!is_scheduling() && !is_of_library(L) && has_caught(L, ar)) luaL_error(L, "interrupted!");
}

/* The hook of the main thread. While the scheduler runs there, it raises only in the function that the scheduler calls
   for this purpose: elsewhere, for example while an error is reported, the interrupt would be lost. */
static void stop(lua_State *L, lua_Debug *ar) {
  if (is_scheduling()) {
    lua_getinfo(L, "f", ar);
    bool asked = lua_tocfunction(L, -1) == driver_nothing;
    lua_pop(L, 1);
    if (!asked) return;
  }
  if (insists) lua_sethook(L, pass_on, LUA_MASKRET, 0);
  else lua_sethook(L, NULL, 0, 0);
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

/* Writes what the main thread or the go block L does, and all go blocks. */
static void report_all(lua_State *L, const char *title) {
  if (!lua_checkstack(L, LUA_MINSTACK)) return;
  int top = lua_gettop(L);
  (void)fflush(stdout);
  (void)fprintf(stderr, "%s\n", title);
  luaL_traceback(L, L, L == main_thread ? "the main thread:" : "the go block that is running:", 0);
  (void)fprintf(stderr, "%s\n", lua_tostring(L, -1));
  lua_pushcfunction(L, write_report);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) {
    const char *message = lua_tostring(L, -1); /* uncovered: only when memory runs out */
    (void)fprintf(stderr, "no report of go blocks: %s\n", message ? message : "?");
  }
  lua_settop(L, top);
}

/* The hook that SIGQUIT sets on the main thread and on the running go block: writes the report. The script
   continues. */
static void report(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  if (!wanted) return;
  wanted = 0;
  if (main_thread && L != main_thread) lua_sethook(main_thread, NULL, 0, 0);
  report_all(L, "SIGQUIT:");
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

/* ---- the end by a signal ---- */

/* The hook that such a signal sets on the main thread and on the running go block: what is to be written comes
   first. */
static void end(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  (void)alarm(0);
  if (ending == SIGINT) report_all(L, "interrupted again!");
  core_end_trace(L);
  ending_by(ending);
}

/* A further signal; or the alarm: the hook was not called, since the program is in a long C function, or computes in a
   coroutine of its own. */
static void end_now(int signal_number) { ending_by(signal_number == SIGALRM ? ending : signal_number); }

/* Ends the program of a main thread by a signal, soon. */
static void end_soon(int signal_number, lua_State *L) {
  if (ending) {
    end_now(signal_number);
    return; /* uncovered: the process has ended */
  }
  ending = signal_number;
  struct sigaction action = {.sa_handler = end_now};
  (void)sigemptyset(&action.sa_mask);
  (void)sigaction(SIGALRM, &action, NULL);
  (void)alarm(END_S);
  lua_sethook(L, end, ANY_EVENT, 1);
  const Sched *S = core_sched();
  const Go *go = S ? S->current : NULL;
  lua_State *co = go ? go->alt.co : NULL;
  if (co) lua_sethook(co, end, ANY_EVENT, 1);
}

/* ---- Ctrl-C ---- */

static void handle(int signal_number) {
  if (pending && main_thread) {
    /* seldom covered: the process may end before the coverage of these lines is written */
    ending_by(signal_number);
    return; /* uncovered: the process has ended */
  }
  bool is_caught = came && main_thread; /* the program has caught the error, or has not yet come to its end */
  if (is_caught && !at_prompt) {
    end_soon(signal_number, main_thread);
    return;
  }
  insists = is_caught;
  pending = 1;
  came = 1;
  if (main_thread) lua_sethook(main_thread, stop, ANY_EVENT, 1);
  const Sched *S = core_sched();
  const Go *go = S ? S->current : NULL;
  lua_State *co = go ? go->alt.co : NULL;
  if (co) lua_sethook(co, stop_long, LUA_MASKCOUNT, PATIENCE);
}

/* ---- SIGTERM and SIGHUP while --trace records ---- */

static void handle_end(int signal_number) { end_soon(signal_number, traced); }

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
  insists = 0;
  begin_handling(&ctrl_c);
  if (L) begin_handling(&quit);
}

void interrupt_release(lua_State *L) {
  end_handling(&ctrl_c);
  if (L) end_handling(&quit);
  if ((pending || wanted || insists) && L) lua_sethook(L, NULL, 0, 0);
  main_thread = NULL;
  wanted = 0;
  pending = 0;
}

void interrupt_at_prompt(lua_State *L) {
  static const char *const names[CATCHERS] = {"pcall", "xpcall"};
  lua_pushglobaltable(L);
  for (int i = 0; i < CATCHERS; i++) {
    lua_pushstring(L, names[i]);
    lua_rawget(L, -2);
    catchers[i] = lua_tocfunction(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  at_prompt = true;
}

bool interrupt_pending(void) { return pending; }

bool interrupt_came(void) { return came; }
