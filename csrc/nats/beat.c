/* beat.c: periodic messages that continue while Lua computes: a worker reports with them that a job goes on. A thread,
   the beater, sends them; the first beat of a connection starts it.

   A beat may have a limit: it ends after that time. If Lua has not run other code since then either, the job computes
   without end, and blocks the other jobs of its worker. Only another thread can detect that: the beater gives the other
   jobs back to the server, and ends the process.

   Many jobs are so short that their beat never sends. So adding and removing a beat costs a lock and no wakeup: the
   thread sleeps until the earliest due time that it knows, and checks again then. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cond.h"
#include "kit/limit.h"
#include "nats/conn.h"

/* How long to wait before a due beat is tried again while the connection is lost, in ms. After an outage longer than
   ack_wait, the server delivers the message to another process unless a beat comes at once. */
enum { LOST_MS = 100 };

/* The limit of a beat. The strings are in the memory of the struct. */
typedef struct Limit {
  int64_t began; /* when it was set, in ms of the monotonic clock */
  int64_t ms;    /* the job's time limit from then on */
  char *text;    /* the message for stderr if the process is ended */
  char *subject; /* the subject for the job's failure */
  char *data;    /* the message about the failure */
  int size;      /* its bytes */
  bool is_over;  /* the beat is not sent any more */
} Limit;

typedef struct Beat {
  Link link;      /* in Beats.all */
  int64_t due;    /* when it is sent next, in ms of the monotonic clock */
  int64_t every;  /* ms */
  char *subject;  /* where to; in the memory of the beat, as the payload is */
  char *data;     /* the payload */
  int size;       /* its bytes */
  char *again;    /* the payload of the first one after a reconnect; in the memory of the beat */
  int again_size; /* its bytes */
  bool was_lost;  /* the connection was lost when it was due */
  Limit *limit;   /* owned; or NULL */
} Beat;

struct Beats {
  Conn *conn;            /* the connection, which ends the thread before it closes */
  pthread_t thread;      /* the beater */
  pthread_mutex_t lock;  /* guards the fields below; held while a beat is sent */
  pthread_cond_t sooner; /* `wakes_at` has changed, or `ends` */
  List all;              /* of Beat */
  int64_t wakes_at;      /* when the thread looks again */
  bool ends;             /* the thread is to end */
  int64_t alive_at;      /* when Lua last said that it runs (conn_alive) */
};

static void beat_free(Beat *beat) {
  free(beat->limit);
  free(beat);
}

/* Publishes the last messages of a process that ends: that the job over its limit has failed, and that all messages go
   back to the server. If several jobs may block Lua, none has failed. Returns whether the server has confirmed them
   within write_timeout. */
static bool publish_last(Beats *beats, const Limit *late) {
  static const char BACK[] = "-NAK";
  natsConnection *nc = beats->conn->nc;
  sub_unsubscribe_all(beats->conn); /* first: the server would redeliver the messages to this process */
  int suspects = 0;
  int64_t now = clock_ms();
  for (Link *link = beats->all.first; link; link = list_next(&beats->all, link)) {
    const Limit *limit = CONTAINER_OF(link, Beat, link)->limit;
    if (limit && limit_may_block(limit->began, limit->ms, beats->alive_at, now)) suspects++;
  }
  if (suspects == 1) (void)natsConnection_Publish(nc, late->subject, late->data, late->size);
  for (Link *link = beats->all.first; link; link = list_next(&beats->all, link))
    (void)natsConnection_Publish(nc, CONTAINER_OF(link, Beat, link)->subject, BACK, sizeof BACK - 1);
  return natsConnection_FlushTimeout(nc, beats->conn->io.write_timeout) == NATS_OK;
}

/* Ends the process: Lua has not run other code within the limit of a beat. */
static _Noreturn void end_process(Beats *beats, const Limit *limit) {
  bool has_told = !atomic_load(&beats->conn->outbox.is_lost) && publish_last(beats, limit);
  limit_end_process(limit->text,
                    has_told ? "" : "; the server has not answered, and gives its jobs to others after ack_wait");
}

/* Checks the limit of a beat. Returns the time of the next check, or INT64_MAX. */
static int64_t check_limit(Beats *beats, Beat *beat, int64_t now) {
  Limit *limit = beat->limit;
  if (now < limit->began + limit->ms) return limit->began + limit->ms;
  limit->is_over = true;
  beat->due = INT64_MAX;
  int64_t last = limit_last(limit->began, limit->ms, beats->alive_at);
  if (now >= last) end_process(beats, limit);
  return last;
}

/* Sends a due beat, or finds the connection lost. Returns after how many ms it is due again. */
static int64_t send_beat(Beats *beats, Beat *beat) {
  bool was_lost = beat->was_lost;
  beat->was_lost = atomic_load(&beats->conn->outbox.is_lost);
  if (beat->was_lost) return LOST_MS < beat->every ? LOST_MS : beat->every;
  (void)natsConnection_Publish(beats->conn->nc, beat->subject, was_lost ? beat->again : beat->data,
                               was_lost ? beat->again_size : beat->size);
  return beat->every;
}

/* Sends due beats; returns when the next one is due, or INT64_MAX. */
static int64_t send_due(Beats *beats) {
  int64_t now = clock_ms(), next = INT64_MAX;
  for (Link *link = beats->all.first; link; link = list_next(&beats->all, link)) {
    Beat *beat = CONTAINER_OF(link, Beat, link);
    if (beat->limit && beat->limit->is_over) beat->due = INT64_MAX;
    if (beat->due <= now) beat->due = now + send_beat(beats, beat);
    int64_t look = beat->limit ? check_limit(beats, beat, now) : INT64_MAX;
    if (look < next) next = look;
    if (beat->due < next) next = beat->due;
  }
  return next;
}

static void *run(void *data) {
  Beats *beats = (Beats *)data;
  (void)pthread_mutex_lock(&beats->lock);
  while (!beats->ends) {
    beats->wakes_at = send_due(beats);
    if (beats->wakes_at == INT64_MAX) {
      (void)pthread_cond_wait(&beats->sooner, &beats->lock);
      continue;
    }
    int64_t left = beats->wakes_at - clock_ms();
    struct timespec until = cond_after(left > 0 ? left * 1000000 : 0);
    (void)pthread_cond_timedwait(&beats->sooner, &beats->lock, &until);
    /* If this thread could not run for long, Lua could not either: the process was halted. */
    int64_t now = clock_ms();
    if (now - beats->wakes_at > LIMIT_HALTED_MS) beats->alive_at = now;
  }
  (void)pthread_mutex_unlock(&beats->lock);
  nats_ReleaseThreadMemory();
  return NULL;
}

/* NULL if there is no memory, or no thread. */
static Beats *new_beats(Conn *conn) {
  Beats *beats = (Beats *)calloc(1, sizeof *beats);
  if (!beats) return NULL;
  beats->conn = conn;
  beats->wakes_at = INT64_MAX;
  cond_init(&beats->sooner);
  (void)pthread_mutex_init(&beats->lock, NULL);
  if (thread_spawn(&beats->thread, "runnel-beat", run, beats) == 0) return beats;
  /* uncovered: the system has no thread left */
  (void)pthread_cond_destroy(&beats->sooner);
  (void)pthread_mutex_destroy(&beats->lock);
  free(beats);
  return NULL;
}

void beats_free(Beats *beats) {
  if (!beats) return;
  (void)pthread_mutex_lock(&beats->lock);
  beats->ends = true;
  (void)pthread_cond_signal(&beats->sooner);
  (void)pthread_mutex_unlock(&beats->lock);
  (void)pthread_join(beats->thread, NULL);
  while (beats->all.first) {
    Beat *beat = CONTAINER_OF(beats->all.first, Beat, link);
    list_remove(&beats->all, &beat->link);
    beat_free(beat);
  }
  (void)pthread_cond_destroy(&beats->sooner);
  (void)pthread_mutex_destroy(&beats->lock);
  free(beats);
}

/* A copy of a string of Lua, with its final zero, at *at, which moves behind it. */
static char *copy_to(char **at, const char *string, size_t size) {
  char *copy = *at;
  memcpy(copy, string, size + 1);
  *at += size + 1;
  return copy;
}

/* beat(subject, data, ms, again) -> a beat, for unbeat | nil, message [, true] */
int conn_beat(lua_State *L) {
  Conn *conn = (Conn *)handle_check(L, 1, CONN_TYPE);
  size_t length, size, again_size;
  const char *subject = luaL_checklstring(L, 2, &length);
  const char *data = luaL_checklstring(L, 3, &size);
  int64_t every = conn_ms(L, 4);
  const char *again = luaL_checklstring(L, 5, &again_size);
  if (!conn->nc) return conn_fail(L, NATS_CONNECTION_CLOSED);
  if (!subject_check(L, subject, length, false)) return conn_refuse(L, "%s", lua_tostring(L, -1));
  if (!conn->beats) conn->beats = new_beats(conn);
  Beats *beats = conn->beats;
  Beat *beat = beats ? (Beat *)malloc(sizeof *beat + length + size + again_size + 3) : NULL;
  if (!beat) return conn_fail(L, NATS_NO_MEMORY);
  *beat = (Beat){.every = every, .size = (int)size, .again_size = (int)again_size};
  char *at = (char *)(beat + 1);
  beat->subject = copy_to(&at, subject, length);
  beat->data = copy_to(&at, data, size);
  beat->again = copy_to(&at, again, again_size);
  (void)pthread_mutex_lock(&beats->lock);
  beat->due = clock_ms() + beat->every;
  list_append(&beats->all, &beat->link);
  if (beat->due < beats->wakes_at) {
    beats->wakes_at = beat->due;
    (void)pthread_cond_signal(&beats->sooner);
  }
  (void)pthread_mutex_unlock(&beats->lock);
  lua_pushlightuserdata(L, beat);
  return 1;
}

/* unbeat(beat): nothing is sent after this has returned. The beat must not have been removed before. */
int conn_unbeat(lua_State *L) {
  Conn *conn = (Conn *)handle_check(L, 1, CONN_TYPE);
  Beats *beats = conn->beats;
  Beat *beat = (Beat *)lua_touserdata(L, 2);
  luaL_argcheck(L, beat, 2, "a beat expected");
  if (!beats) return 0; /* the connection has been closed, which has freed the beat */
  (void)pthread_mutex_lock(&beats->lock);
  list_remove(&beats->all, &beat->link);
  (void)pthread_mutex_unlock(&beats->lock);
  beat_free(beat);
  return 0;
}

/* limit(beat, ms, text, subject, data): see runnel.Engine in engine.lua */
int conn_limit(lua_State *L) {
  Conn *conn = (Conn *)handle_check(L, 1, CONN_TYPE);
  Beats *beats = conn->beats;
  Beat *beat = (Beat *)lua_touserdata(L, 2);
  luaL_argcheck(L, beat, 2, "a beat expected");
  int64_t ms = conn_ms(L, 3);
  size_t text_size, subject_size, size;
  const char *text = luaL_checklstring(L, 4, &text_size);
  const char *subject = luaL_checklstring(L, 5, &subject_size);
  const char *data = luaL_checklstring(L, 6, &size);
  if (!beats) return 0; /* the connection has been closed, which has freed the beat */
  Limit *limit = (Limit *)malloc(sizeof *limit + text_size + subject_size + size + 3);
  if (!limit) return luaL_error(L, "not enough memory");
  char *at = (char *)(limit + 1);
  *limit = (Limit){.began = clock_ms(), .ms = ms, .size = (int)size};
  limit->text = copy_to(&at, text, text_size);
  limit->subject = copy_to(&at, subject, subject_size);
  limit->data = copy_to(&at, data, size);
  (void)pthread_mutex_lock(&beats->lock);
  free(beat->limit);
  beat->limit = limit;
  if (limit->began + ms < beats->wakes_at) {
    beats->wakes_at = limit->began + ms;
    (void)pthread_cond_signal(&beats->sooner);
  }
  (void)pthread_mutex_unlock(&beats->lock);
  return 0;
}

/* alive(): Lua runs. Must be called periodically while beats have limits. */
int conn_alive(lua_State *L) {
  const Conn *conn = (const Conn *)handle_check(L, 1, CONN_TYPE);
  Beats *beats = conn->beats;
  if (!beats) return 0;
  (void)pthread_mutex_lock(&beats->lock);
  beats->alive_at = clock_ms();
  (void)pthread_mutex_unlock(&beats->lock);
  return 0;
}
