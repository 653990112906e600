/* conn.c: opening, events and closing; see conn.h. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/loaded.h"
#include "nats/conn.h"

/* Events that wait for the Lua thread, at most; and how long closing waits for libnats' threads. */
enum { EVENT_LIMIT = 1000, PORT_LIMIT = 2 * EVENT_LIMIT, PATIENCE_S = 10 };

/* Bytes that wait while the connection is lost, at most: libnats' own limit. */
enum { RECONNECT_BUFFER = 8 * 1024 * 1024 };

/* For how long the network may accept no bytes: the default of options.lua. */
enum { WRITE_TIMEOUT_MS = 2000 };

/* The longest time, in ms: a hundred years. */
#define LONGEST_MS 3155760000000.0

/* The registry key of the metatable. */
#define CONN_TYPE "runnel.nats.conn"

/* The user value of a connection: the function that gets the events. */
enum { CONN_HANDLER = 1 };

void conn_release(Conn *conn) {
  if (atomic_fetch_sub(&conn->holds, 1) > 1) return;
  sub_destroy_spent(conn);
  if (conn->events) (void)conn->rn->port_release(conn->events);
  natsOptions_Destroy(conn->options);
  outbox_free(&conn->outbox);
  io_free(&conn->io);
  (void)pthread_mutex_destroy(&conn->direct_lock);
  (void)pthread_mutex_destroy(&conn->lock);
  (void)pthread_cond_destroy(&conn->changed);
  free(conn);
}

void conn_block(sigset_t *old) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, old);
}

void conn_unblock(const sigset_t *old) { pthread_sigmask(SIG_SETMASK, old, NULL); }

Conn *conn_check(lua_State *L) {
  Conn *conn = *(Conn **)luaL_checkudata(L, 1, CONN_TYPE);
  if (!conn) luaL_error(L, "the connection is closed"); /* a finalizer uses it after its own */
  return conn;
}

int64_t conn_ms(lua_State *L, int at) {
  lua_Number ms = luaL_checknumber(L, at);
  return ms >= 1 ? (int64_t)(ms < LONGEST_MS ? ms : LONGEST_MS) : 1;
}

int conn_int(lua_State *L, int at) {
  lua_Integer n = luaL_checkinteger(L, at);
  return n > INT_MAX ? INT_MAX : (int)n;
}

int conn_fail(lua_State *L, natsStatus status) {
  lua_pushnil(L);
  lua_pushstring(L, natsStatus_GetText(status));
  return 2;
}

int conn_refuse(lua_State *L, const char *format, ...) {
  va_list args;
  lua_pushnil(L);
  va_start(args, format);
  lua_pushvfstring(L, format, args);
  va_end(args);
  lua_pushboolean(L, 1);
  return 3;
}

/* libnats' text for an error without the place in its sources: "(conn.c:2088): No server available". */
static const char *plain_text(const char *text, natsStatus status) {
  const char *after = *text == '(' ? strstr(text, "): ") : NULL;
  if (after) text = after + 3;
  return *text ? text : natsStatus_GetText(status);
}

/* ---- events ---- */

typedef struct Event {
  Conn *conn;           /* with a hold */
  const char *name;     /* what has happened; static */
  char text[TEXT_SIZE]; /* the error; or empty */
  char url[256];        /* of the server; or empty */
  const void *sub;      /* the natsSubscription that it is about, which may be gone; or NULL */
} Event;

static void drop_event(void *data) {
  Event *event = (Event *)data;
  atomic_fetch_sub(&event->conn->nevents, 1);
  conn_release(event->conn);
  free(event);
}

static void set_text(lua_State *L, const char *field, const char *text) {
  if (!text || !*text) return; /* libnats has no subject for a closed subscription */
  lua_pushstring(L, text);
  lua_setfield(L, -2, field);
}

/* Protected: (event) -> what the handler returns for it */
static int handle(lua_State *L) {
  const Event *event = (const Event *)lua_touserdata(L, 1);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, event->conn) != LUA_TUSERDATA) return 0;
  lua_getiuservalue(L, -1, CONN_HANDLER);
  lua_createtable(L, 0, 4);
  set_text(L, "event", event->name);
  set_text(L, "error", event->text);
  set_text(L, "url", event->url);
  Sub *sub = event->sub ? sub_find(event->conn, event->sub) : NULL;
  if (sub) {
    set_text(L, "subject", natsSubscription_GetSubject(sub->sub));
    lua_pushinteger(L, sub_dropped(sub));
    lua_setfield(L, -2, "dropped");
  }
  lua_call(L, 1, 1);
  return 1;
}

/* runnel_push */
static int push_event(lua_State *L, void *data) {
  Conn *conn = ((Event *)data)->conn;
  conn->is_connected = conn->io.is_started; /* the first event is the result of connecting */
  lua_pushcfunction(L, handle);
  lua_pushlightuserdata(L, data);
  int top = lua_gettop(L) - 2;
  int status = lua_pcall(L, 1, LUA_MULTRET, 0);
  drop_event(data);
  return status == LUA_OK ? lua_gettop(L) - top : lua_error(L);
}

static Event *new_event(Conn *conn, const char *name) {
  Event *event = (Event *)calloc(1, sizeof *event);
  if (!event) return NULL;
  atomic_fetch_add(&conn->holds, 1);
  atomic_fetch_add(&conn->nevents, 1);
  event->conn = conn;
  event->name = name;
  return event;
}

static void post_event(Event *event) {
  if (event && event->conn->rn->post_call(event->conn->events, push_event, drop_event, event) != RUNNEL_OK)
    drop_event(event);
}

static void copy_text(char *to, size_t size, const char *text) { (void)snprintf(to, size, "%s", text ? text : ""); }

/* The connection's last error, or NULL: without those that it survives, which on_error has told. */
static const char *fatal_error(natsConnection *nc) {
  const char *text = NULL;
  natsStatus s = natsConnection_GetLastError(nc, &text);
  return s == NATS_OK || s == NATS_SLOW_CONSUMER || s == NATS_NOT_PERMITTED || s == NATS_TIMEOUT ? NULL : text;
}

/* Posts an event of the connection. When the Lua thread does not keep up, events are dropped, but not the last one. */
static void tell(natsConnection *nc, Conn *conn, const char *name, bool is_last) {
  if (!is_last && atomic_load(&conn->nevents) >= EVENT_LIMIT) return;
  Event *event = new_event(conn, name);
  if (!event) return;
  if (natsConnection_GetConnectedUrl(nc, event->url, sizeof event->url) != NATS_OK) *event->url = 0;
  copy_text(event->text, sizeof event->text, fatal_error(nc));
  post_event(event);
}

static void on_disconnected(natsConnection *nc, void *closure) {
  Conn *conn = (Conn *)closure;
  outbox_lost(&conn->outbox);
  /* Nothing of the connection may be looked at here: it is locked while libnats connects. */
  Event *event = atomic_load(&conn->nevents) < EVENT_LIMIT ? new_event(conn, "disconnected") : NULL;
  (void)nc;
  post_event(event);
}

static void on_reconnected(natsConnection *nc, void *closure) {
  Conn *conn = (Conn *)closure;
  outbox_send(&conn->outbox, nc);
  tell(nc, conn, "reconnected", false);
}

static void on_discovered(natsConnection *nc, void *closure) { tell(nc, (Conn *)closure, "discovered", false); }

static void on_lame_duck(natsConnection *nc, void *closure) { tell(nc, (Conn *)closure, "lame_duck", false); }

static void on_error(natsConnection *nc, natsSubscription *sub, natsStatus status, void *closure) {
  Conn *conn = (Conn *)closure;
  if (atomic_load(&conn->nevents) >= EVENT_LIMIT) return;
  Event *event = new_event(conn, status == NATS_SLOW_CONSUMER ? "dropped" : "error");
  if (!event) return;
  const char *error = NULL; /* the server's words, where the error is the connection's last one */
  bool is_last = natsConnection_GetLastError(nc, &error) == status && error && *error;
  copy_text(event->text, sizeof event->text, is_last ? error : natsStatus_GetText(status));
  event->sub = sub; /* not to be used here: libnats does not keep it until this callback has returned */
  post_event(event);
}

/* The last callback of a connection. */
static void on_closed(natsConnection *nc, void *closure) {
  Conn *conn = (Conn *)closure;
  tell(nc, conn, "closed", true);
  (void)pthread_mutex_lock(&conn->lock);
  conn->has_ended = true;
  (void)pthread_cond_broadcast(&conn->changed);
  (void)pthread_mutex_unlock(&conn->lock);
  conn_release(conn);
}

static natsStatus set_callbacks(Conn *conn) {
  natsOptions *o = conn->options;
  natsStatus s = natsOptions_SetClosedCB(o, on_closed, conn);
  if (s == NATS_OK) s = natsOptions_SetDisconnectedCB(o, on_disconnected, conn);
  if (s == NATS_OK) s = natsOptions_SetReconnectedCB(o, on_reconnected, conn);
  if (s == NATS_OK) s = natsOptions_SetDiscoveredServersCB(o, on_discovered, conn);
  if (s == NATS_OK) s = natsOptions_SetLameDuckModeCB(o, on_lame_duck, conn);
  if (s == NATS_OK) s = natsOptions_SetErrorHandler(o, on_error, conn);
  return s;
}

/* ---- connecting ---- */

void conn_connected(Conn *conn, natsConnection *nc, natsStatus s) {
  Event *event = new_event(conn, s == NATS_OK ? "connected" : "failed");
  if (s == NATS_OK) {
    conn->nc = nc;
    conn->max_payload = natsConnection_GetMaxPayload(nc);
    if (event) (void)natsConnection_GetConnectedUrl(nc, event->url, sizeof event->url);
  } else {
    natsStatus last = NATS_OK;
    const char *text = nats_GetLastError(&last);
    if (event)
      copy_text(event->text, sizeof event->text, last == s && text ? plain_text(text, s) : natsStatus_GetText(s));
    (void)pthread_mutex_lock(&conn->lock);
    conn->has_ended = true;
    (void)pthread_mutex_unlock(&conn->lock);
  }
  post_event(event);
  if (s != NATS_OK) conn_release(conn); /* of the callbacks, which will not be called */
}

/* Opens a port to the channel at index `at`. It is quiet: a program that only has a connection does not go on because
   of it. */
static int open_quiet(lua_State *L, const Conn *conn, int at, size_t limit, runnel_port **port) {
  runnel_chan *ch;
  int code = conn->rn->chan_get(L, at, &ch);
  if (code != RUNNEL_OK) return code;
  code = conn->rn->port_open(L, ch, limit, RUNNEL_QUIET, port);
  (void)conn->rn->chan_release(L, ch);
  return code;
}

/* conn:attend(channel) -> a light userdata, for unattend: while the connection is open, a take from the channel counts
   as waiting for something that may happen. */
static int conn_attend(lua_State *L) {
  Conn *conn = conn_check(L);
  Attended *attended = (Attended *)malloc(sizeof *attended);
  int code = attended ? open_quiet(L, conn, 2, 1, &attended->port) : RUNNEL_NO_MEMORY;
  if (code != RUNNEL_OK) {
    free(attended);
    return luaL_error(L, "cannot open a port: %s", conn->rn->strerror(code));
  }
  attended->next = conn->attended;
  conn->attended = attended;
  lua_pushlightuserdata(L, attended);
  return 1;
}

/* conn:unattend(light userdata): ends that. If the connection has been closed, it has ended already. */
static int conn_unattend(lua_State *L) {
  Conn *conn = conn_check(L);
  const void *which = lua_touserdata(L, 2);
  for (Attended **at = &conn->attended; *at; at = &(*at)->next) {
    Attended *found = *at;
    if (found != which) continue;
    *at = found->next;
    (void)conn->rn->port_release(found->port); /* which closes it */
    free(found);
    break;
  }
  return 0;
}

/* connect(options, channel, handler) -> conn | nil, message [, true]: begins to connect. The handler, which must not
   park, is called with each event: a table { event =, error =, subject =, url =, dropped = }. The first is "connected"
   or "failed". What it returns is put on the channel, unless it is nil. */
int conn_connect(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TFUNCTION);
  lua_settop(L, 3);
  Conn **at = (Conn **)lua_newuserdatauv(L, sizeof(void *), 1);
  *at = NULL;
  luaL_setmetatable(L, CONN_TYPE);
  lua_pushvalue(L, 3);
  lua_setiuservalue(L, -2, CONN_HANDLER);
  Conn *conn = (Conn *)calloc(1, sizeof *conn);
  if (!conn) return luaL_error(L, "not enough memory");
  *at = conn;
  atomic_init(&conn->holds, 1);
  atomic_init(&conn->nevents, 0);
  conn->rn = (const runnel_functions *)lua_touserdata(L, lua_upvalueindex(1));
  conn->has_ended = true;
  (void)lua_getfield(L, 1, "reconnect_buffer");
  outbox_open(&conn->outbox, (size_t)luaL_optinteger(L, -1, RECONNECT_BUFFER));
  lua_pop(L, 1);
  (void)lua_getfield(L, 1, "write_timeout");
  conn->io.write_timeout = (int64_t)luaL_optnumber(L, -1, WRITE_TIMEOUT_MS);
  (void)lua_getfield(L, 1, "send_asap");
  conn->io.collects = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
  (void)lua_getfield(L, 1, "is_secure");
  conn->io.is_secure = lua_toboolean(L, -1);
  lua_pop(L, 3);
  (void)pthread_mutex_init(&conn->lock, NULL);
  (void)pthread_cond_init(&conn->changed, NULL);
  (void)pthread_mutex_init(&conn->direct_lock, NULL);
  conn->io.task = (runnel_task){.run = io_write_published, .data = conn};
  if (!io_open(&conn->io)) return luaL_error(L, "cannot make a file descriptor: %s", strerror(errno));

  sigset_t old;
  conn_block(&old); /* for libnats' own threads, which the first natsOptions_Create starts */
  natsStatus s = natsOptions_Create(&conn->options);
  conn_unblock(&old);
  const char *name = NULL;
  if (s == NATS_OK) s = options_read(L, 1, conn->options, &name);
  lua_settop(L, 4);
  if (s != NATS_OK) {
    const char *text = nats_GetLastError(NULL);
    return conn_refuse(L, "%s: %s", name ? name : "libnats", text ? plain_text(text, s) : natsStatus_GetText(s));
  }
  s = set_callbacks(conn);
  if (s == NATS_OK) s = io_set_options(conn);
  if (s != NATS_OK) return conn_fail(L, s);
  int code = open_quiet(L, conn, 2, PORT_LIMIT, &conn->events);
  if (code != RUNNEL_OK) return luaL_error(L, "cannot open a port: %s", conn->rn->strerror(code));
  lua_pushvalue(L, 4);
  lua_rawsetp(L, LUA_REGISTRYINDEX, conn);

  stay_loaded();
  atomic_fetch_add(&conn->holds, 1); /* the callbacks' */
  conn->has_ended = false;
  int error = io_start(conn);
  if (error) {
    /* uncovered: the system has no thread left */
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, conn);
    conn->has_ended = true;
    conn_release(conn);
    lua_pushnil(L);
    lua_pushfstring(L, "cannot start a thread: %s", strerror(error));
    return 2;
  }
  return 1;
}

/* ---- closing ---- */

/* Waits until libnats calls no function of this module any more. */
static void wait_for_threads(Conn *conn) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE_S;
  (void)pthread_mutex_lock(&conn->lock);
  while (!conn->has_ended || conn->is_attached || conn->delivering) {
    if (pthread_cond_timedwait(&conn->changed, &conn->lock, &until) == ETIMEDOUT) break;
  }
  (void)pthread_mutex_unlock(&conn->lock);
}

static void close_conn(lua_State *L, Conn *conn) {
  sub_destroy_spent(conn);
  sub_close_all(conn);
  beats_free(conn->beats);
  conn->beats = NULL;
  if (conn->is_connected) io_finish(conn);
  io_end(conn); /* before libnats closes the socket from which it reads */
  if (conn->nc) {
    natsConnection_Close(conn->nc);
    wait_for_threads(conn);
    sub_destroy_ended(conn);
    natsConnection_Destroy(conn->nc);
    conn->nc = NULL;
  }
  if (conn->events) (void)conn->rn->port_close(conn->events);
  while (conn->attended) {
    Attended *first = conn->attended;
    conn->attended = first->next;
    (void)conn->rn->port_release(first->port); /* which closes it */
    free(first);
  }
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, conn);
}

/* conn:close(): no callback is called after it, and nothing posted by them delivered, but messages of subscriptions. */
static int conn_close(lua_State *L) {
  Conn *conn = *(Conn **)luaL_checkudata(L, 1, CONN_TYPE);
  if (conn) close_conn(L, conn);
  return 0;
}

static int conn_gc(lua_State *L) {
  Conn **at = (Conn **)luaL_checkudata(L, 1, CONN_TYPE);
  Conn *conn = *at;
  if (!conn) return 0;
  *at = NULL;
  close_conn(L, conn);
  conn_release(conn);
  return 0;
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
  const Conn *conn = conn_check(L);
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
  const Conn *conn = conn_check(L);
  lua_pushinteger(L, conn->max_payload);
  return 1;
}

void conn_open(lua_State *L) {
  static const luaL_Reg methods[] = {{"attend", conn_attend},
                                     {"beat", conn_beat},
                                     {"close", conn_close},
                                     {"max_payload", conn_max_payload},
                                     {"publish", conn_publish},
                                     {"publish_with", conn_publish_with},
                                     {"stats", conn_stats},
                                     {"subscribe", conn_subscribe},
                                     {"unattend", conn_unattend},
                                     {"unbeat", conn_unbeat},
                                     {NULL, NULL}};
  luaL_newmetatable(L, CONN_TYPE);
  lua_pushcfunction(L, conn_gc);
  lua_setfield(L, -2, "__gc");
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
