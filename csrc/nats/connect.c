/* connect.c: opening and closing a connection; see conn.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cond.h"
#include "nats/conn.h"

/* How long closing waits for libnats' threads, in ns. */
static const int64_t PATIENCE = INT64_C(10000000000);

/* Bytes that may wait while the connection is lost: libnats' own limit. */
enum { RECONNECT_BUFFER = 8 * 1024 * 1024 };

/* How long the network may accept no bytes, and the server may be silent: the defaults of options.lua. */
enum { WRITE_TIMEOUT_MS = 2000, SILENCE_MS = 10000 };

/* HandleType.free */
static void free_conn(void *object) {
  Conn *conn = (Conn *)object;
  sub_destroy_spent(conn);
  conn_free_events(conn);
  natsOptions_Destroy(conn->options);
  outbox_free(&conn->outbox);
  if (conn->io.reader) (void)conn->rn->reader_close(conn->io.reader);
  io_free(&conn->io);
  (void)pthread_mutex_destroy(&conn->subs_lock);
  (void)pthread_mutex_destroy(&conn->lock);
  (void)pthread_cond_destroy(&conn->changed);
  free(conn);
}

/* ---- closing ---- */

/* Waits until libnats calls no function of this module any more. */
static void wait_for_threads(Conn *conn) {
  struct timespec until = cond_after(PATIENCE);
  (void)pthread_mutex_lock(&conn->lock);
  while (!conn->has_ended || conn->is_attached || conn->delivering) {
    if (pthread_cond_timedwait(&conn->changed, &conn->lock, &until) == ETIMEDOUT) break;
  }
  (void)pthread_mutex_unlock(&conn->lock);
}

/* Returns about how many bytes could not be sent. */
static size_t close_conn(lua_State *L, Conn *conn) {
  sub_destroy_spent(conn);
  sub_close_all(conn);
  beats_free(conn->beats);
  conn->beats = NULL;
  size_t left = conn->nc && conn->is_connected ? io_finish(conn) : 0;
  (void)conn->rn->task_cancel(&conn->io.task);
  thread_end(&conn->io.thread); /* before libnats closes the socket that the thread reads from */
  if (conn->nc) {
    natsConnection_Close(conn->nc);
    wait_for_threads(conn);
    sub_destroy_ended(conn);
    natsConnection_Destroy(conn->nc);
    conn->nc = NULL;
  }
  (void)io_let_lua_read(conn, false);
  conn_close_events(conn);
  handle_forget(L, conn);
  return left;
}

/* conn:close() -> about how many bytes could not be sent. Afterwards no callback is called, and no posted event is
   delivered, only messages of subscriptions. */
static int conn_close(lua_State *L) {
  Conn *conn = (Conn *)handle_get(L, 1, CONN_TYPE);
  lua_pushinteger(L, conn ? (lua_Integer)close_conn(L, conn) : 0);
  return 1;
}

/* HandleType.close: the state closes, and there is no error handler any more. */
static void end_conn(lua_State *L, void *object) {
  Conn *conn = (Conn *)object;
  size_t left = close_conn(L, conn);
  if (left)
    (void)fprintf(stderr,
                  "runnel: nats: the program has ended before %zu bytes were sent that it had published; "
                  "conn:close() writes for at most write_timeout (%lld ms)\n",
                  left, (long long)conn->io.write_timeout);
}

static const HandleType conn_type = {CONN_TYPE, end_conn, free_conn};

/* ---- connecting ---- */

/* connect(options, channel, handler) -> conn | nil, message [, true]: begins to connect. The handler, which must not
   park, is called with each event: a table { event =, error =, subject =, url =, dropped = }. The first is "connected"
   or "failed". Its result is put on the channel, unless it is nil. */
int conn_connect(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TFUNCTION);
  lua_settop(L, 3);
  const runnel_functions *rn = runnel_get_functions(L);
  Conn *conn = (Conn *)handle_new(L, &conn_type, sizeof *conn, 1);
  conn->rn = rn;
  conn->has_ended = true;
  outbox_open(&conn->outbox);
  events_init(&conn->events, rn, conn, conn_deliver, &conn->io.thread);
  (void)pthread_mutex_init(&conn->lock, NULL);
  cond_init(&conn->changed);
  (void)pthread_mutex_init(&conn->subs_lock, NULL);
  conn->io.task = (runnel_task){.run = io_write_published, .data = conn};
  if (!io_open(&conn->io)) return luaL_error(L, "cannot make a file descriptor: %s", strerror(errno));
  lua_pushvalue(L, 3);
  lua_setiuservalue(L, -2, CONN_HANDLER);
  (void)lua_getfield(L, 1, "reconnect_buffer");
  conn->outbox.limit = (size_t)luaL_optinteger(L, -1, RECONNECT_BUFFER);
  lua_pop(L, 1);
  (void)lua_getfield(L, 1, "write_timeout");
  conn->io.write_timeout = (int64_t)luaL_optnumber(L, -1, WRITE_TIMEOUT_MS);
  (void)lua_getfield(L, 1, "silence");
  conn->io.silence = (int64_t)luaL_optnumber(L, -1, SILENCE_MS);
  (void)lua_getfield(L, 1, "send_asap");
  conn->io.collects = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
  lua_pop(L, 3);

  sigset_t old;
  signals_block(&old); /* for libnats' own threads, which the first natsOptions_Create starts */
  natsStatus s = natsOptions_Create(&conn->options);
  signals_restore(&old);
  const char *name = NULL;
  if (s == NATS_OK) s = options_read(L, 1, conn->options, &name);
  lua_settop(L, 4);
  if (s != NATS_OK) {
    const char *text = nats_GetLastError(NULL);
    return conn_refuse(L, "%s: %s", name ? name : "libnats", text ? conn_plain_text(text, s) : natsStatus_GetText(s));
  }
  conn_set_callbacks(conn);
  io_set_options(conn);
  int code = conn_open_events(L, conn, 2);
  if (code != RUNNEL_OK) return events_refuse(L, conn->rn, code);
  (void)rn->reader_open(L, thread_read, conn, &conn->io.reader); /* or the connection's thread reads always */
  handle_keep(L, conn);

  (void)handle_hold(conn); /* the callbacks' */
  conn->has_ended = false;
  int error = thread_start(&conn->io.thread, "runnel-nats", thread_run, conn);
  if (error) {
    /* uncovered: the system has no thread left */
    handle_forget(L, conn);
    conn->has_ended = true;
    handle_release(conn);
    lua_pushnil(L);
    lua_pushfstring(L, "cannot start a thread: %s", strerror(error));
    return 2;
  }
  return 1;
}

/* ---- what it is ---- */

static const char *status_name(natsConnStatus status) {
  if (status == NATS_CONN_STATUS_CONNECTED) return "connected";
  return status == NATS_CONN_STATUS_CLOSED ? "closed" : "reconnecting"; /* there is no other: Lua drains, not libnats */
}

static void set_count(lua_State *L, const char *field, uint64_t n) {
  lua_pushinteger(L, (lua_Integer)n);
  lua_setfield(L, -2, field);
}

/* conn:stats() -> a table; only with the status while the connection is lost or closed */
static int conn_stats(lua_State *L) {
  const Conn *conn = (const Conn *)handle_check(L, 1, CONN_TYPE);
  bool is_lost = conn->nc && atomic_load(&conn->outbox.is_lost); /* then libnats may hold its lock for long */
  natsConnStatus status = is_lost    ? NATS_CONN_STATUS_RECONNECTING
                          : conn->nc ? natsConnection_Status(conn->nc)
                                     : NATS_CONN_STATUS_CLOSED;
  lua_createtable(L, 0, 8);
  lua_pushstring(L, status_name(status));
  lua_setfield(L, -2, "status");
  natsStatistics *stats = NULL;
  if (!conn->nc || is_lost || natsStatistics_Create(&stats) != NATS_OK) return 1;
  uint64_t in = 0, in_bytes = 0, out = 0, out_bytes = 0, reconnects = 0;
  natsStatus s = natsConnection_GetStats(conn->nc, stats);
  if (s == NATS_OK) s = natsStatistics_GetCounts(stats, &in, &in_bytes, &out, &out_bytes, &reconnects);
  natsStatistics_Destroy(stats);
  if (s != NATS_OK) return 1;
  set_count(L, "received", in);
  set_count(L, "received_bytes", in_bytes);
  set_count(L, "sent", out);
  set_count(L, "sent_bytes", out_bytes);
  set_count(L, "reconnects", reconnects);
  int buffered = natsConnection_Buffered(conn->nc);
  set_count(L, "buffered_bytes", buffered > 0 ? (uint64_t)buffered : 0);
  return 1;
}

/* conn:max_payload() -> bytes */
static int conn_max_payload(lua_State *L) {
  const Conn *conn = (const Conn *)handle_check(L, 1, CONN_TYPE);
  lua_pushinteger(L, conn->max_payload);
  return 1;
}

void conn_open(lua_State *L) {
  static const luaL_Reg methods[] = {{"alive", conn_alive},
                                     {"attend", conn_attend},
                                     {"beat", conn_beat},
                                     {"close", conn_close},
                                     {"limit", conn_limit},
                                     {"max_payload", conn_max_payload},
                                     {"publish", conn_publish},
                                     {"publish_with", conn_publish_with},
                                     {"stats", conn_stats},
                                     {"subscribe", conn_subscribe},
                                     {"unattend", conn_unattend},
                                     {"unbeat", conn_unbeat},
                                     {NULL, NULL}};
  handle_open(L, &conn_type, methods);
}
