/* lua_thread.c: core.internal.start_thread, on which lua/runnel/rn/thread.lua is built: an OS thread with a Lua state
   of its own.

   When the state that has started threads is closed, it asks those that still run to end, by closing their control
   channel, and waits for them a little. One that does not end, since it computes and never looks at its channels, is
   left to itself: it has nothing of the state that has started it. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): it is how sched_getaffinity is asked for */
#endif
#include <assert.h>
#include <errno.h>
#include <lualib.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cond.h"
#include "base/loaded.h"
#include "base/thread.h"
#include "core/attr.h"
#include "core/setup.h"
#include "errors/error.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/state/preload.h"
#include "shared/status.h"
#include "states/family.h"
#include "states/interruption.h"
#include "states/limits.h"
#include "states/shared_handle.h"
#include "states/shared_inbox.h"
#include "states/shared_pack.h"

/* The error of a go block that has gone on computing in a cancelled thread. Nobody is told it: see thread_main.lua. */
static const char INTERRUPTED[] = "the thread was cancelled, and has gone on computing";

/* How long a state that is being closed waits for its threads, in ns. */
static const int64_t PATIENCE = 1000 * CLOCK_MS;

/* How much time of a processor a cancelled thread may use before it looks at its channels, in ns; and afterwards, when it
   closes its variables, in one go: more, since that is useful. */
static const int64_t COMPUTES = 50 * CLOCK_MS, CLOSES = 1000 * CLOCK_MS;

typedef struct LuaThread {
  atomic_uint holds;     /* the thread's, and the starting state's */
  pthread_t id;          /* the thread */
  pthread_mutex_t lock;  /* guards `ended` */
  pthread_cond_t ending; /* it has ended */
  bool ended;            /* its state is closed */
  SharedChan *control;   /* closed when the thread is to end */
  SharedChan *result;    /* closed with an error if the thread cannot even begin; has the thread's name */
  SharedChan *reports;   /* likewise; the starting state receives errors from there */
  Status *status;        /* the thread's status */
  _Atomic(Interruption *) interruption; /* with a hold; NULL until it has a state */
  bool counts;            /* the starting state's coroutines count instructions (interruption.h), so its own do, too */
  int64_t cancelled;      /* when interrupt_thread was first called, in ns; or 0 */
  int64_t looked, used;   /* at its last call: when the thread had last looked; the time it had used then, in ns */
  Member *member;         /* its place in the family of threads, until it has ended */
  SharedValue job;        /* the argument of BOOT */
  lua_CFunction open;     /* luaopen_runnel_core */
  Limits limits;          /* of the starting state, with a hold on the budget */
  ErrorWriter writer;     /* of the starting state */
  Preload *preloads;      /* for its package.preload */
  struct LuaThread *next; /* in Threads.first */
} LuaThread;

/* The threads that a state has started: a userdata, made with the first of them. */
typedef struct Threads {
  LuaThread *first;      /* the threads that have not been joined */
  struct timespec until; /* once they were asked to end: their deadline */
} Threads;

/* The main function of a thread: (job). It finds modules as in the starting state; the library's own may come as
   bytecode. The last call is a tail call, since this chunk would count as a line of the program. */
static const char BOOT[] = "local job = ...\n"
                           "package.path, package.cpath = job.path, job.cpath\n"
                           "for name, code in pairs(job.modules and job.modules:take() or {}) do\n"
                           "  package.preload[name] = function(...) return assert(load(code, name, 'b'))(...) end\n"
                           "end\n"
                           "return require(job.main)(job)";

static void release(LuaThread *t) {
  if (atomic_fetch_sub(&t->holds, 1) > 1) return;
  preload_free(t->preloads);
  shared_value_drop(&t->job);
  if (t->control) shared_chan_release(t->control);
  if (t->result) shared_chan_release(t->result);
  if (t->reports) shared_chan_release(t->reports);
  if (t->status) status_release(t->status);
  if (atomic_load(&t->interruption)) interruption_release(atomic_load(&t->interruption));
  budget_release(t->limits.budget);
  (void)pthread_mutex_destroy(&t->lock);
  (void)pthread_cond_destroy(&t->ending);
  free(t);
}

/* ---- in the thread ---- */

/* (thread) -> the value of its job. Its upvalue is the scheduler. */
static int push_job(lua_State *L) {
  LuaThread *t = (LuaThread *)lua_touserdata(L, 1);
  Sched *S = sched_self(L);
  Interruption *interruption = interruption_open(L, S);
  if (t->counts) interruption_count(L, S);
  if (t->writer.write) error_set_writer(L, &t->writer);
  atomic_store(&t->interruption, interruption_hold(interruption));
  shared_pack_push(L, S, &t->job);
  S->sharing->member = t->member;
  status_begin(t->status, S->sharing->owner);
  return 1;
}

/* Protected: (thread) */
static int run_job(lua_State *L) {
  LuaThread *t = (LuaThread *)lua_touserdata(L, 1);
  limits_set(L, &t->limits);
  luaL_openlibs(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  preload_set(L, t->preloads);
  lua_pushcfunction(L, t->open);
  lua_setfield(L, -2, "runnel.core");
  luaL_requiref(L, "runnel.core", t->open, 0);
  if (luaL_loadbufferx(L, BOOT, sizeof BOOT - 1, "=thread", "t") != LUA_OK) return lua_error(L);
  (void)module_push_sched(L);
  lua_pushcclosure(L, push_job, 1);
  lua_pushlightuserdata(L, t);
  lua_call(L, 1, 1);
  shared_value_drop(&t->job);
  lua_call(L, 1, 0);
  return 0;
}

/* The message handler: makes a string of the error. */
static int to_text(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  return 1;
}

/* Closes the result and the reports with an error, if they are still open. */
static void fail(LuaThread *t, const char *text) {
  static const char no_memory[] = "out of memory"; /* so short that it needs none */
  static_assert(sizeof no_memory - 1 <= SHARED_SHORT_MAX, "a short string");
  SharedValue reason;
  bool ok = shared_value_set_string(&reason, text, strlen(text), NULL);
  if (!ok) (void)shared_value_set_string(&reason, no_memory, sizeof no_memory - 1, NULL);
  shared_close(t->result, shared_value_copy(&reason));
  shared_close(t->reports, reason);
}

/* A state whose memory is taken of the budget, if there is one. */
static lua_State *new_state(Budget *budget) {
  if (!budget) return luaL_newstate();
#if LUA_VERSION_NUM >= 505
  return lua_newstate(budget_allocate, budget, luaL_makeseed(NULL));
#else
  return lua_newstate(budget_allocate, budget);
#endif
}

static void *run(void *data) {
  LuaThread *t = (LuaThread *)data;
  lua_State *L = new_state(t->limits.budget);
  if (L) {
    lua_warning(L, "@off", 0); /* from Lua 5.5 on, warnings of a new state are on */
    lua_pushcfunction(L, to_text);
    lua_pushcfunction(L, run_job);
    lua_pushlightuserdata(L, t);
    if (lua_pcall(L, 1, 0, 1) != LUA_OK) {
      const char *text = lua_tostring(L, -1);
      fail(t, text ? text : "not enough memory");
    }
    lua_close(L);
  }
  status_end(t->status);
  shared_value_drop(&t->job); /* drop now, so that other threads see that the channels in it have lost an owner */
  fail(t, L ? "the thread has ended without a result" : "not enough memory");
  family_leave(t->member);
  (void)pthread_mutex_lock(&t->lock);
  t->ended = true;
  (void)pthread_cond_signal(&t->ending);
  (void)pthread_mutex_unlock(&t->lock);
  release(t);
  return NULL;
}

/* ---- in the state that starts it ---- */

/* Whether the thread has ended by then; `until` NULL: by now. */
static bool has_ended(LuaThread *t, const struct timespec *until) {
  (void)pthread_mutex_lock(&t->lock);
  while (!t->ended && until) {
    if (pthread_cond_timedwait(&t->ending, &t->lock, until) == ETIMEDOUT) break;
  }
  bool ended = t->ended;
  (void)pthread_mutex_unlock(&t->lock);
  return ended;
}

/* Forgets the threads that have ended. */
static void join_ended(Threads *threads) {
  for (LuaThread **link = &threads->first; *link;) {
    LuaThread *t = *link;
    if (!has_ended(t, NULL)) {
      link = &t->next;
      continue;
    }
    *link = t->next;
    (void)pthread_join(t->id, NULL);
    release(t);
  }
}

/* Says that a thread is left running. */
static void report_left(lua_State *L, const LuaThread *t) {
  char name[SHARED_NAME_MAX + 1];
  const char *where = (shared_chan_get_name(t->result, name), name[0] ? name : "?");
  ErrorWriter writer = error_writer(L);
  if (writer.write) writer.write(writer.data, "a thread is still running, and left", where, NULL);
  else fprintf(stderr, "runnel: a thread is still running, and left: %s\n", where);
}

/* Asks all threads to end, and sets their deadline, once. */
static void ask_to_end(Threads *threads) {
  for (LuaThread *t = threads->first; t; t = t->next) shared_close(t->control, (SharedValue){.kind = SHARED_NIL});
  if (threads->until.tv_sec) return;
  threads->until = cond_after(PATIENCE);
}

/* stop_threads(): at the end of the program: asks its threads to end, and waits for them a little. Their puts on shared
   channels have arrived then. */
static int internal_stop_threads(lua_State *L) {
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_THREADS) == LUA_TNIL) return 0;
  Threads *threads = (Threads *)lua_touserdata(L, -1);
  ask_to_end(threads);
  for (LuaThread *t = threads->first; t; t = t->next) (void)has_ended(t, &threads->until);
  shared_inbox_drain(L, sched_self(L));
  return 0;
}

/* How much time of a processor the thread has used, in ns. Elsewhere than on Linux it counts as always having one. */
static int64_t used_by(const LuaThread *t) {
#if defined(__linux__)
  clockid_t clock;
  struct timespec used;
  if (pthread_getcpuclockid(t->id, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0; /* it is ending */
  return used.tv_sec * INT64_C(1000000000) + used.tv_nsec;
#else
  (void)t;
  return clock_ns();
#endif
}

/* interrupt_thread(status): the thread was cancelled. If it goes on computing all the same, the go block that runs there
   ends with the error INTERRUPTED: to be called again and again until the thread has ended, and first when it is
   cancelled. */
static int internal_interrupt_thread(lua_State *L) {
  luaL_checktype(L, 1, LUA_TUSERDATA);
  const Status *status = ((StatusHold *)lua_touserdata(L, 1))->status;
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_THREADS) == LUA_TNIL) return 0;
  LuaThread *t = ((Threads *)lua_touserdata(L, -1))->first;
  while (t && t->status != status) t = t->next;
  if (!t) return 0; /* it has ended */
  int64_t since, used = used_by(t);
  bool computes = status_look(t->status, &since) == STATUS_COMPUTING;
  if (!t->cancelled) t->cancelled = clock_ns();
  if (!computes || since != t->looked) {
    t->looked = since;
    t->used = used;
  }
  Interruption *interruption = atomic_load(&t->interruption);
  if (interruption && computes && used - t->used >= (since > t->cancelled ? CLOSES : COMPUTES))
    (void)interruption_raise(interruption, INTERRUPTED);
  return 0;
}

/* hears_cancel(): in a thread, when it hears that it is cancelled: interrupt_thread sees this as its last look. */
static int internal_hears_cancel(lua_State *L) {
  shared_wait_looked(sched_self(L), clock_ns());
  return 0;
}

/* __gc of Threads, when the state is closed. */
static int end_threads(lua_State *L) {
  Threads *threads = (Threads *)lua_touserdata(L, 1);
  ask_to_end(threads);
  while (threads->first) {
    LuaThread *t = threads->first;
    threads->first = t->next;
    if (has_ended(t, &threads->until)) {
      (void)pthread_join(t->id, NULL);
    } else {
      (void)pthread_detach(t->id);
      report_left(L, t);
    }
    release(t);
  }
  return 0;
}

/* The state's threads, made if they do not exist. May raise. */
static Threads *get_threads(lua_State *L) {
  int top = lua_gettop(L);
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_THREADS) == LUA_TNIL) {
    Threads *made = (Threads *)lua_newuserdatauv(L, sizeof *made, 0);
    *made = (Threads){.first = NULL};
    setup_push_meta(L, "__gc", end_threads);
    lua_setmetatable(L, -2);
    /* Or a finalizer has made it meanwhile. */
    if (lua_getiuservalue(L, SCHED_SELF, SCHED_THREADS) == LUA_TNIL) {
      lua_pushvalue(L, -2);
      lua_setiuservalue(L, SCHED_SELF, SCHED_THREADS);
    }
    lua_getiuservalue(L, SCHED_SELF, SCHED_THREADS);
  }
  Threads *threads = (Threads *)lua_touserdata(L, -1);
  lua_settop(L, top);
  return threads;
}

/* The shared channel at index i. */
static SharedChan *shared_at(lua_State *L, int i) { return shared_handle_get(check_shared(L, i)); }

/* __gc of the userdata with a thread's status. */
static int end_status(lua_State *L) {
  status_release(((StatusHold *)lua_touserdata(L, 1))->status);
  return 0;
}

/* Pushes a userdata with a new status. May raise. */
static Status *push_status(lua_State *L) {
  StatusHold *held = (StatusHold *)lua_newuserdatauv(L, sizeof *held, 0);
  setup_push_meta(L, "__gc", end_status);
  held->status = status_new();
  if (!held->status) luaL_error(L, "not enough memory");
  lua_setmetatable(L, -2);
  return held->status;
}

/* A member for the thread, in the family of the state that starts it. NULL when memory runs out. */
static Member *join_family(Sharing *sharing, const LuaThread *t) {
  if (!sharing->member) sharing->member = family_new();
  if (!sharing->member) return NULL;
  return family_add(sharing->member->family, (SharedChan *const[]){t->control, t->result, t->reports});
}

/* Upvalue of start_thread, behind the scheduler: what opens the core. */
enum { AT_OPEN = 2 };

/* start_thread(job, control, result, reports) -> a userdata with the thread's status | nil, why not */
static int internal_start_thread(lua_State *L) {
  Limits limits = limits_get(L);
  if (limits.without & LIMITS_THREADS) {
    lua_pushliteral(L, "threads: the program that runs this script does not allow them");
    return error_raise(L);
  }
  luaL_checktype(L, 1, LUA_TTABLE);
  SharedChan *control = shared_at(L, 2), *result = shared_at(L, 3), *reports = shared_at(L, 4);
  lua_settop(L, 4);
  Threads *threads = get_threads(L);
  join_ended(threads);
  Status *status = push_status(L);
  SharedValue job;
  if (!shared_pack_message(L, sched_self(L), 1, &job)) { /* leaves a message */
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
  }
  LuaThread *t = (LuaThread *)calloc(1, sizeof *t);
  if (!t) {
    shared_value_drop(&job);                   /* seldom covered: only when memory runs out */
    return luaL_error(L, "not enough memory"); /* seldom covered: likewise */
  }
  atomic_init(&t->holds, 1);
  (void)pthread_mutex_init(&t->lock, NULL);
  cond_init(&t->ending);
  t->open = lua_tocfunction(L, lua_upvalueindex(AT_OPEN));
  t->job = job;
  t->limits = limits;
  t->writer = error_writer(L);
  t->counts = interruption_counts(sched_self(L));
  if (limits.budget) (void)budget_hold(limits.budget);
  t->control = shared_chan_hold(control);
  t->result = shared_chan_hold(result);
  t->reports = shared_chan_hold(reports);
  t->status = status_hold(status);
  t->member = join_family(sched_self(L)->sharing, t);
  if (!t->member || !preload_copy(L, &t->preloads)) {
    if (t->member) family_leave(t->member);
    release(t);
    return luaL_error(L, "not enough memory");
  }
  stay_loaded(); /* the thread may outlive the state */
  atomic_fetch_add(&t->holds, 1);
  int error = thread_spawn(&t->id, "runnel-thread", run, t);
  if (error) {
    family_leave(t->member);
    atomic_store(&t->holds, 1); /* without the thread's */
    release(t);
    lua_pushnil(L);
    lua_pushfstring(L, "cannot start a thread: %s", strerror(error));
    return 2;
  }
  t->next = threads->first;
  threads->first = t;
  return 1;
}

/* stands_for(block, status, name, result): the go block shows as the thread in ps, and is cancelled in its place. */
static int internal_stands_for(lua_State *L) {
  Chan *ch = chan_to(L, 1);
  luaL_argcheck(L, ch, 1, "the result channel of a go block expected");
  luaL_checktype(L, 2, LUA_TUSERDATA);
  luaL_checktype(L, 3, LUA_TSTRING);
  luaL_argcheck(L, chan_to(L, 4), 4, "the result channel of the thread expected");
  lua_settop(L, 4);
  lua_pushvalue(L, 1);
  attr_set(L, 4, ATTR_THREAD);
  lua_settop(L, 3);
  attr_set(L, 1, ATTR_GO);
  attr_set(L, 1, ATTR_THREAD);
  return 0;
}

/* cores() -> how many processors this process may use */
static int internal_cores(lua_State *L) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
#endif
  lua_pushinteger(L, n > 0 ? (lua_Integer)n : 1);
  return 1;
}

void lua_thread_open(lua_State *L, lua_CFunction open_core) {
  static const luaL_Reg functions[] = {
      {"cores", internal_cores},
      {"hears_cancel", internal_hears_cancel},
      {"interrupt_thread", internal_interrupt_thread},
      {"stands_for", internal_stands_for},
      {"stop_threads", internal_stop_threads},
      {NULL, NULL},
  };
  module_register(L, functions);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcfunction(L, open_core);
  lua_pushcclosure(L, internal_start_thread, AT_OPEN);
  lua_setfield(L, -2, "start_thread");
  lua_pushstring(L, INTERRUPTED);
  lua_setfield(L, -2, "INTERRUPTED");
}
