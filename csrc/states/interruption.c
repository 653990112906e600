/* interruption.c: see interruption.h. */
#include "states/interruption.h"

#include <errno.h>
#include <lauxlib.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/loaded.h"
#include "core/setup.h"

enum { ANY_EVENT = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT };

/* What an interrupt is doing. */
enum {
  QUIET,  /* nothing */
  COMING, /* somebody writes `why` */
  SENT    /* it has been written; the Lua thread has not read it */
};

struct Interruption {
  Interruption *next;              /* in `all`; never changes */
  atomic_uint holds;               /* 0: free, to be used for another state */
  _Atomic(lua_State *) state;      /* the main thread; NULL once it is closed */
  Sched *sched;                    /* of this state; for the Lua thread */
  bool counts;                     /* on_count is the hook of its coroutines: no signal is needed */
  atomic_bool runs;                /* the scheduler runs, in `thread` */
  _Atomic(pthread_t) thread;       /* where the scheduler runs, or has last run */
  bool has_run;                    /* in `thread`, whose id may have been that of another one before */
  atomic_uint senders;             /* those that may be about to send it a signal */
  pid_t process;                   /* where the scheduler has run; for the Lua thread */
  atomic_int phase;                /* see above */
  char why[INTERRUPTION_WHY + 1];  /* the error; whoever has set COMING writes it, the Lua thread reads it after SENT */
  char told[INTERRUPTION_WHY + 1]; /* what the hook raises, and */
  uint64_t told_to;                /* the id of the go block, and */
  const lua_State *told_at;        /* the coroutine where it does, and */
  bool told_reporting;             /* whether the last one came while an error was being reported; for the Lua thread */
};

/* How many instructions a state that counts runs between two looks. */
enum { COUNT = 1000 };

#if defined(__linux__)
/* The thread sanitizer, if the program is linked with it: it hands a signal to a thread only when the thread calls the
   system. A thread that computes would get none. */
extern void __tsan_init(void) __attribute__((weak)); /* NOLINT(bugprone-reserved-identifier): its name */
static bool signals_are_late(void) { return __tsan_init != NULL; }
#else
static bool signals_are_late(void) { return false; }
#endif

/* All of the process: see interruption.h. */
static _Atomic(Interruption *) all;

/* The action of SIGURG before ours. It is written before ours is set. */
static struct sigaction before;
static atomic_flag is_setting = ATOMIC_FLAG_INIT;

/* ---- in the Lua thread ---- */

/* Whether the go block's own function is not on the stack: only the guard (go_close.h) is called below nothing, when
   the scheduler closes the coroutine; an error there would go to nobody. A C function alone counts as that, too. */
static bool is_at_the_end(lua_State *co, lua_Debug *ar) {
  lua_Debug caller;
  lua_getinfo(co, "S", ar);
  return *ar->what == 'C' && !lua_getstack(co, 1, &caller);
}

/* The go block that is to end, if it runs; else NULL. */
static const Go *told_go(const Sched *S) {
  const Interruption *interruption = S->interruption;
  const Go *go = interruption ? S->current : NULL;
  return go && interruption->told_at == go->alt.co && interruption->told_to == go->chan.id ? go : NULL;
}

bool interruption_has_ended(const Sched *S) { return told_go(S) != NULL; }

static const Sched *sched_of(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &chan_tag);
  const Sched *S = (const Sched *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return S;
}

int interruption_throw(lua_State *L) {
  lua_pushstring(L, sched_of(L)->interruption->told);
  return lua_error(L);
}

/* The hook of a go block that is to end. It yields, and the scheduler ends the go block with the error: so no pcall
   catches it, and the variables may wait while they are closed (an error in a hook would keep go_close.c's hook from
   being called). Across a C call, where it cannot yield, and in a coroutine that the go block has resumed, it raises,
   and stays: the error gets through every pcall. Functions of the library that an operation calls run to their end, and
   so does the error handler, unless the interrupt came while it ran: its own error, too, is reported there. */
static void on_hook(lua_State *co, lua_Debug *ar) {
  const Sched *S = sched_of(co);
  const Go *go = told_go(S);
  if (S->shielded || (go && S->reporting && !S->interruption->told_reporting)) return;
  if (!go) {
    /* seldom covered: a coroutine has inherited the hook, and outlives the go block */
    lua_sethook(co, NULL, 0, 0);
  } else if (go->alt.co == co && lua_isyieldable(co)) {
    if (ar->event == LUA_HOOKCOUNT || ar->event == LUA_HOOKLINE) (void)lua_yield(co, 0);
  } else if (!is_at_the_end(co, ar)) {
    (void)interruption_throw(co);
  }
}

/* An interrupt has arrived in the Lua thread, perhaps in a signal handler. */
static void arrive(Interruption *interruption) {
  if (atomic_load(&interruption->phase) != SENT) return;
  const Sched *S = interruption->sched;
  const Go *go = S->current;
  lua_State *co = go && !S->closing ? go->alt.co : NULL; /* while it is closed it has another hook (go_close.c) */
  if (co && (interruption->told_at != co || interruption->told_to != go->chan.id)) {
    memcpy(interruption->told, interruption->why, sizeof interruption->told);
    interruption->told_to = go->chan.id;
    interruption->told_at = co;
  }
  if (co) {
    interruption->told_reporting = S->reporting;
    lua_sethook(co, on_hook, ANY_EVENT, 1);
  }
  atomic_store(&interruption->phase, QUIET);
}

/* The hook of all coroutines of a state that counts. */
static void on_count(lua_State *co, lua_Debug *ar) {
  const Sched *S = sched_of(co);
  (void)ar;
  if (S->interruption) arrive(S->interruption);
  if (told_go(S)) lua_sethook(co, on_hook, ANY_EVENT, 1); /* it may be another coroutine than the go block's */
}

static bool is_here(const Interruption *interruption) {
  return atomic_load(&interruption->runs) && pthread_equal(atomic_load(&interruption->thread), pthread_self());
}

/* The action of SIGURG. Afterwards the program's own, if it has one. */
static void on_signal(int number, siginfo_t *info, void *context) {
  int error = errno;
  for (Interruption *i = atomic_load(&all); i; i = i->next) {
    if (is_here(i)) arrive(i);
  }
  errno = error;
  if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(number, info, context);
  else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(number);
}

void interruption_begins(Interruption *interruption) {
  pthread_t self = pthread_self();
  if (!interruption->has_run ||
      !pthread_equal(atomic_load_explicit(&interruption->thread, memory_order_relaxed), self)) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGURG);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    atomic_store(&interruption->thread, self);
    interruption->has_run = true;
    interruption->process = getpid();
  }
  atomic_store(&interruption->runs, true);
}

/* Waits for those that are about to send a signal: this thread may end afterwards. */
void interruption_ends(Interruption *interruption) {
  atomic_store(&interruption->runs, false);
  while (atomic_load(&interruption->senders)) {
    if (interruption->process != getpid()) { /* after a fork: they are threads of the parent */
      interruption->process = getpid();      /* seldom covered: another thread sent one then */
      atomic_store(&interruption->senders, 0);
    }
    (void)sched_yield();
  }
  if (atomic_load_explicit(&interruption->phase, memory_order_relaxed) == SENT)
    atomic_store(&interruption->phase, QUIET);
}

/* ---- holds ---- */

/* Adds a hold unless there is none. */
static bool try_hold(Interruption *interruption) {
  unsigned holds = atomic_load(&interruption->holds);
  while (holds && !atomic_compare_exchange_weak(&interruption->holds, &holds, holds + 1)) continue;
  return holds > 0;
}

Interruption *interruption_hold(Interruption *interruption) {
  atomic_fetch_add(&interruption->holds, 1);
  return interruption;
}

void interruption_release(Interruption *interruption) { atomic_fetch_sub(&interruption->holds, 1); }

Interruption *interruption_find(const lua_State *main_thread) {
  for (Interruption *i = atomic_load(&all); i; i = i->next) {
    if (atomic_load(&i->state) != main_thread || !try_hold(i)) continue;
    if (atomic_load(&i->state) == main_thread) return i;
    interruption_release(i); /* seldom covered: the state has just been closed, in another thread */
  }
  return NULL;
}

/* One that is in the list, with a hold; NULL if there is no memory. */
static Interruption *take_one(void) {
  for (Interruption *i = atomic_load(&all); i; i = i->next) {
    unsigned none = 0;
    if (atomic_compare_exchange_strong(&i->holds, &none, 1)) return i;
  }
  Interruption *made = (Interruption *)calloc(1, sizeof *made);
  if (!made) return NULL;
  atomic_init(&made->holds, 1);
  made->next = atomic_load(&all);
  while (!atomic_compare_exchange_weak(&all, &made->next, made)) continue;
  return made;
}

/* __gc of the userdata that holds the state's Interruption, when the state is closed. */
static int end_interruption(lua_State *L) {
  Sched *S = sched_self(L);
  Interruption *interruption = S->interruption;
  S->interruption = NULL;
  if (!interruption) return 0;
  atomic_store(&interruption->state, NULL);
  interruption_ends(interruption);
  interruption_release(interruption);
  return 0;
}

void interruption_count(lua_State *L, Sched *S) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua_sethook(lua_tothread(L, -1), on_count, LUA_MASKCOUNT, COUNT);
  lua_pop(L, 1);
  S->interruption->counts = true;
}

bool interruption_counts(const Sched *S) { return S->interruption && S->interruption->counts; }

Interruption *interruption_open(lua_State *L, Sched *S) {
  if (S->interruption) return S->interruption;
  lua_newuserdatauv(L, 0, 0);
  setup_push_meta(L, "__gc", end_interruption);
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &all);
  if (S->interruption) return S->interruption; /* seldom covered: a finalizer has made it meanwhile */
  Interruption *made = stay_loaded() ? take_one() : NULL;
  if (!made) {
    luaL_error(L, "not enough memory"); /* seldom covered: only when memory runs out */
    return NULL;
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  made->sched = S;
  made->told_at = NULL;
  made->counts = false;
  made->has_run = false;
  atomic_store(&made->phase, QUIET);
  atomic_store(&made->state, lua_tothread(L, -1));
  lua_pop(L, 1);
  S->interruption = made;
  if (signals_are_late()) interruption_count(L, S);
  return made;
}

/* ---- any thread, and signal handlers ---- */

/* Makes on_signal the action of SIGURG, if it is not. No signal may come while this sets it: its handler would wait for
   itself. */
static void catch_signal(void) {
  struct sigaction present, ours = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  if (sigaction(SIGURG, NULL, &present) == 0 && present.sa_flags & SA_SIGINFO && present.sa_sigaction == on_signal)
    return;
  sigset_t everything, old;
  sigfillset(&everything);
  sigemptyset(&ours.sa_mask);
  (void)pthread_sigmask(SIG_SETMASK, &everything, &old);
  while (atomic_flag_test_and_set(&is_setting)) (void)sched_yield();
  if (sigaction(SIGURG, NULL, &present) == 0 && !(present.sa_flags & SA_SIGINFO && present.sa_sigaction == on_signal)) {
    before = present;
    (void)sigaction(SIGURG, &ours, NULL);
  }
  atomic_flag_clear(&is_setting);
  (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Writes the error, unless one is on its way. */
static void write_why(Interruption *interruption, const char *why) {
  int phase = QUIET;
  if (!atomic_compare_exchange_strong(&interruption->phase, &phase, COMING)) return;
  size_t size = 0;
  for (; size < INTERRUPTION_WHY && why[size]; size++) interruption->why[size] = why[size];
  interruption->why[size] = '\0';
  atomic_store(&interruption->phase, SENT);
}

bool interruption_raise(Interruption *interruption, const char *why) {
  atomic_fetch_add(&interruption->senders, 1);
  bool runs = atomic_load(&interruption->runs);
  if (runs) {
    write_why(interruption, why);
    if (is_here(interruption)) {
      arrive(interruption);
    } else if (!interruption->counts) {
      catch_signal();
      (void)pthread_kill(atomic_load(&interruption->thread), SIGURG);
    }
  }
  atomic_fetch_sub(&interruption->senders, 1);
  return runs;
}
