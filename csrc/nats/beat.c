/* beat.c: messages that are sent again and again while Lua computes: a worker says with them that a job goes on. A
   thread sends them, the beater, which the first beat of a connection starts.

   Many jobs are so short that their beat never sends. So adding and removing one costs a lock and no wakeup: the thread
   sleeps until the time at which it last saw that something is due, and looks again then. */
#include <stdlib.h>
#include <string.h>

#include "base/cond.h"
#include "nats/conn.h"

typedef struct Beat {
  Link link;     /* in Beats.all */
  int64_t due;   /* when it is sent next, in ms of the monotonic clock */
  int64_t every; /* ms */
  char *subject; /* where to; in the memory of the beat, as the payload is */
  char *data;    /* the payload */
  int size;      /* its bytes */
} Beat;

struct Beats {
  Conn *conn;            /* the connection, which ends the thread before it closes */
  pthread_t thread;      /* the beater */
  pthread_mutex_t lock;  /* guards the fields below; held while a beat is sent */
  pthread_cond_t sooner; /* `wakes_at` has changed, or `ends` */
  List all;              /* of Beat */
  int64_t wakes_at;      /* when the thread looks again */
  bool ends;             /* the thread is to end */
};

/* Sends what is due; returns when the next one is, or INT64_MAX. */
static int64_t send_due(Beats *beats) {
  int64_t now = conn_now_ms(), next = INT64_MAX;
  Link *link = beats->all.first;
  if (!link) return next;
  do {
    Beat *beat = CONTAINER_OF(link, Beat, link);
    if (beat->due <= now) {
      if (!atomic_load(&beats->conn->outbox.is_lost))
        (void)natsConnection_Publish(beats->conn->nc, beat->subject, beat->data, beat->size);
      beat->due = now + beat->every;
    }
    if (beat->due < next) next = beat->due;
    link = link->next;
  } while (link != beats->all.first);
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
    int64_t left = beats->wakes_at - conn_now_ms();
    struct timespec until = cond_after(left > 0 ? left * 1000000 : 0);
    (void)pthread_cond_timedwait(&beats->sooner, &beats->lock, &until);
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
  sigset_t old;
  conn_block(&old);
  int error = pthread_create(&beats->thread, NULL, run, beats);
  conn_unblock(&old);
  if (!error) return beats;
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
    free(beat);
  }
  (void)pthread_cond_destroy(&beats->sooner);
  (void)pthread_mutex_destroy(&beats->lock);
  free(beats);
}

/* beat(subject, data, ms) -> a beat, for unbeat | nil, message [, true] */
int conn_beat(lua_State *L) {
  Conn *conn = conn_check(L);
  size_t length, size;
  const char *subject = luaL_checklstring(L, 2, &length);
  const char *data = luaL_checklstring(L, 3, &size);
  int64_t every = conn_ms(L, 4);
  if (!conn->nc) return conn_fail(L, NATS_CONNECTION_CLOSED);
  if (!subject_check(L, subject, length, false)) return conn_refuse(L, "%s", lua_tostring(L, -1));
  if (!conn->beats) conn->beats = new_beats(conn);
  Beats *beats = conn->beats;
  Beat *beat = beats ? (Beat *)malloc(sizeof *beat + length + 1 + size) : NULL;
  if (!beat) return conn_fail(L, NATS_NO_MEMORY);
  *beat = (Beat){.every = every, .size = (int)size};
  beat->subject = (char *)(beat + 1);
  beat->data = beat->subject + length + 1;
  memcpy(beat->subject, subject, length + 1);
  memcpy(beat->data, data, size);
  (void)pthread_mutex_lock(&beats->lock);
  beat->due = conn_now_ms() + beat->every;
  list_append(&beats->all, &beat->link);
  if (beat->due < beats->wakes_at) {
    beats->wakes_at = beat->due;
    (void)pthread_cond_signal(&beats->sooner);
  }
  (void)pthread_mutex_unlock(&beats->lock);
  lua_pushlightuserdata(L, beat);
  return 1;
}

/* unbeat(beat): it is not sent any more once this has returned. The beat must be one that has not been removed. */
int conn_unbeat(lua_State *L) {
  Conn *conn = conn_check(L);
  Beats *beats = conn->beats;
  Beat *beat = (Beat *)lua_touserdata(L, 2);
  luaL_argcheck(L, beat, 2, "a beat expected");
  if (!beats) return 0; /* the connection has been closed, which has freed the beat */
  (void)pthread_mutex_lock(&beats->lock);
  list_remove(&beats->all, &beat->link);
  (void)pthread_mutex_unlock(&beats->lock);
  free(beat);
  return 0;
}
