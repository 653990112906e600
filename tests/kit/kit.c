/* kit.c: the smallest C module over a library with a thread, made of the parts in csrc/base and csrc/kit. Its "library"
   doubles numbers, in the thread. spec/kit/kit_spec.lua compiles and uses it. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "kit/events.h"

#define DOUBLER_TYPE "test.doubler"

typedef struct Doubler {
  Handle handle;        /* held also by each Job */
  Events events;        /* of Jobs that are done */
  Thread thread;        /* does them */
  pthread_mutex_t lock; /* guards the next one */
  List asked;           /* Jobs that are not done, with a hold */
} Doubler;

typedef struct Job {
  Handle handle;      /* has no userdata: held by Doubler.asked, then by the queue of events */
  Link link;          /* in Doubler.asked */
  Doubler *doubler;   /* with a hold */
  lua_Integer number; /* to be doubled */
} Job;

static atomic_int closed, freed, jobs; /* Doublers that were closed, and freed; Jobs that exist */

/* ---- any thread ---- */

static void free_job(void *object) {
  Job *job = (Job *)object;
  handle_release(job->doubler);
  free(job);
  atomic_fetch_sub(&jobs, 1);
}

static const HandleType job_type = {"test.job", NULL, free_job};

static void free_doubler(void *object) {
  Doubler *d = (Doubler *)object;
  events_free(&d->events);
  thread_close(&d->thread);
  (void)pthread_mutex_destroy(&d->lock);
  free(d);
  atomic_fetch_add(&freed, 1);
}

static Job *next_job(Doubler *d) {
  (void)pthread_mutex_lock(&d->lock);
  Link *first = d->asked.first;
  if (first) list_remove(&d->asked, first);
  (void)pthread_mutex_unlock(&d->lock);
  return first ? CONTAINER_OF(first, Job, link) : NULL;
}

/* ---- the thread ---- */

static void *run(void *data) {
  Doubler *d = (Doubler *)data;
  while (!thread_ends(&d->thread)) {
    Job *job = next_job(d);
    if (job) {
      job->number *= 2;
      events_add(&d->events, job, 1);
      handle_release(job);
      continue;
    }
    bool is_told = events_post(&d->events);
    struct pollfd fd = {.fd = wakeup_fd(d->thread.wakeup), .events = POLLIN};
    (void)poll(&fd, 1, is_told ? -1 : 10);
    (void)wakeup_consume(d->thread.wakeup);
  }
  return NULL;
}

/* ---- the Lua thread ---- */

/* Events.deliver: the result of one Job, which is put on the channel. Is called again while there are more. */
static int deliver(lua_State *L) {
  Doubler *d = (Doubler *)lua_touserdata(L, 1);
  unsigned events;
  Job *job = (Job *)events_take(&d->events, &events);
  if (!job) return 0;
  lua_pushinteger(L, job->number);
  handle_release(job);
  return 1;
}

static void close_doubler(lua_State *L, void *object) {
  Doubler *d = (Doubler *)object;
  Job *job;
  (void)L;
  thread_end(&d->thread);
  events_close(&d->events);
  while ((job = next_job(d)) != NULL) handle_release(job);
  atomic_fetch_add(&closed, 1);
}

static const HandleType doubler_type = {DOUBLER_TYPE, close_doubler, free_doubler};

/* open(channel) -> doubler */
static int open_doubler(lua_State *L) {
  const runnel_functions *rn = runnel_get_functions(L);
  Doubler *d = (Doubler *)handle_new(L, &doubler_type, sizeof *d, 0);
  (void)pthread_mutex_init(&d->lock, NULL);
  events_init(&d->events, rn, d, deliver, &d->thread);
  if (!thread_open(&d->thread)) return luaL_error(L, "%s", strerror(errno));
  int code = events_open(L, &d->events, 1, RUNNEL_CLOSE_CHANNEL);
  if (code != RUNNEL_OK) return events_refuse(L, rn, code);
  int error = thread_start(&d->thread, "test-doubler", run, d);
  return error ? luaL_error(L, "%s", strerror(error)) : 1;
}

/* doubler:double(n): the result will be put on the channel. */
static int double_number(lua_State *L) {
  Doubler *d = (Doubler *)handle_check(L, 1, DOUBLER_TYPE);
  lua_Integer number = luaL_checkinteger(L, 2);
  Job *job = (Job *)calloc(1, sizeof *job);
  if (!job) return luaL_error(L, "not enough memory");
  handle_init(job, &job_type);
  job->doubler = (Doubler *)handle_hold(d);
  job->number = number;
  atomic_fetch_add(&jobs, 1);
  (void)pthread_mutex_lock(&d->lock);
  list_append(&d->asked, &job->link);
  (void)pthread_mutex_unlock(&d->lock);
  thread_wake(&d->thread);
  return 0;
}

/* doubler:close() */
static int close_method(lua_State *L) {
  handle_close(L, 1, DOUBLER_TYPE);
  return 0;
}

/* counts() -> doublers that were closed, doublers that were freed, jobs that exist */
static int counts(lua_State *L) {
  lua_pushinteger(L, atomic_load(&closed));
  lua_pushinteger(L, atomic_load(&freed));
  lua_pushinteger(L, atomic_load(&jobs));
  return 3;
}

int luaopen_kit(lua_State *L);
int luaopen_kit(lua_State *L) {
  static const luaL_Reg methods[] = {{"close", close_method}, {"double", double_number}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"counts", counts}, {"open", open_doubler}, {NULL, NULL}};
  (void)runnel_get_functions(L);
  handle_open(L, &doubler_type, methods);
  luaL_newlib(L, functions);
  return 1;
}
