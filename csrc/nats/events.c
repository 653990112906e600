/* events.c: events of a connection. libnats' threads call the functions here, which post events to a port; a handler in
   Lua receives them. */
#include <stdio.h>
#include <stdlib.h>

#include "nats/conn.h"

/* The most events that may wait for the Lua thread. */
enum { EVENT_LIMIT = 1000 };

typedef struct Event {
  Handle handle;        /* held by the queue */
  Conn *conn;           /* which has the queue */
  const char *name;     /* the kind of event; static */
  char text[TEXT_SIZE]; /* the error; or empty */
  char url[256];        /* of the server; or empty */
  const void *sub;      /* the event's natsSubscription, which may be gone; or NULL */
  bool is_awaited;      /* go blocks wait for it: without memory, it is delivered later */
} Event;

static void free_event(void *object) {
  atomic_fetch_sub(&((Event *)object)->conn->nevents, 1);
  free(object);
}

static const HandleType event_type = {.name = "runnel.nats.event", .free = free_event};

static void set_text(lua_State *L, const char *field, const char *text) {
  if (!text || !*text) return; /* libnats has no subject for a closed subscription */
  lua_pushstring(L, text);
  lua_setfield(L, -2, field);
}

/* Protected: (event) -> the handler's result */
static int handle(lua_State *L) {
  const Event *event = (const Event *)lua_touserdata(L, 1);
  if (!handle_find(L, event->conn)) return 0;
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

int conn_deliver(lua_State *L) {
  Conn *conn = (Conn *)lua_touserdata(L, 1);
  unsigned bits;
  Event *event = (Event *)events_take(&conn->events, &bits);
  if (!event) return 0;                            /* seldom covered: it was closed meanwhile */
  conn->is_connected = conn->io.thread.is_running; /* the first event is the result of connecting */
  lua_pushcfunction(L, handle);
  lua_pushlightuserdata(L, event);
  int status = lua_pcall(L, 1, 1, 0);
  bool is_again = status == LUA_ERRMEM && event->is_awaited;
  if (is_again) events_add(&conn->events, event, bits);
  handle_release(event);
  if (status != LUA_OK && !is_again) return lua_error(L);
  return is_again ? 0 : 1;
}

/* NULL if there is no memory. */
static Event *new_event(Conn *conn, const char *name) {
  Event *event = (Event *)calloc(1, sizeof *event);
  if (!event) return NULL;
  handle_init(event, &event_type);
  atomic_fetch_add(&conn->nevents, 1);
  event->conn = conn;
  event->name = name;
  return event;
}

/* Posts an event, unless it is NULL. */
static void post_event(Event *event) {
  if (!event) return;
  Conn *conn = event->conn;
  events_add(&conn->events, event, 1);
  events_tell(&conn->events);
  handle_release(event);
}

/* Returns one of the events that were made before, which passes to the caller. */
static Event *take_event(Event **made, const char *name) {
  Event *event = *made;
  *made = NULL;
  event->name = name;
  event->is_awaited = true;
  return event;
}

static void copy_text(char *to, size_t size, const char *text) { (void)snprintf(to, size, "%s", text ? text : ""); }

/* The connection's last error, or NULL. Leaves out errors that it survives, which on_error has posted. */
static const char *fatal_error(natsConnection *nc) {
  const char *text = NULL;
  natsStatus s = natsConnection_GetLastError(nc, &text);
  return s == NATS_OK || s == NATS_SLOW_CONSUMER || s == NATS_NOT_PERMITTED || s == NATS_TIMEOUT ? NULL : text;
}

/* Posts an event of the connection. If the Lua thread does not keep up, drops events, but never the last one. */
static void tell(natsConnection *nc, Conn *conn, const char *name, bool is_last) {
  if (!is_last && atomic_load(&conn->nevents) >= EVENT_LIMIT) return;
  Event *event = is_last ? take_event(&conn->end, name) : new_event(conn, name);
  if (!event) return;
  (void)natsConnection_GetConnectedUrl(nc, event->url, sizeof event->url);
  copy_text(event->text, sizeof event->text, fatal_error(nc));
  post_event(event);
}

static void on_disconnected(natsConnection *nc, void *closure) {
  Conn *conn = (Conn *)closure;
  outbox_lost(&conn->outbox);
  /* The connection must not be accessed here: it is locked while libnats connects. */
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
  event->sub = sub; /* must not be dereferenced: libnats does not keep it after this callback */
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
  handle_release(conn);
}

void conn_set_callbacks(Conn *conn) {
  natsOptions *o = conn->options;
  (void)natsOptions_SetClosedCB(o, on_closed, conn);
  (void)natsOptions_SetDisconnectedCB(o, on_disconnected, conn);
  (void)natsOptions_SetReconnectedCB(o, on_reconnected, conn);
  (void)natsOptions_SetDiscoveredServersCB(o, on_discovered, conn);
  (void)natsOptions_SetLameDuckModeCB(o, on_lame_duck, conn);
  (void)natsOptions_SetErrorHandler(o, on_error, conn);
}

void conn_has_connected(Conn *conn, natsConnection *nc, natsStatus s) {
  Event *event = take_event(&conn->result, s == NATS_OK ? "connected" : "failed");
  if (s == NATS_OK) {
    conn->nc = nc;
    conn->max_payload = natsConnection_GetMaxPayload(nc);
    (void)natsConnection_GetConnectedUrl(nc, event->url, sizeof event->url);
  } else {
    natsStatus last = NATS_OK;
    const char *text = nats_GetLastError(&last);
    copy_text(event->text, sizeof event->text, last == s && text ? conn_plain_text(text, s) : natsStatus_GetText(s));
    (void)pthread_mutex_lock(&conn->lock);
    conn->has_ended = true;
    (void)pthread_mutex_unlock(&conn->lock);
  }
  post_event(event);
  if (s != NATS_OK) handle_release(conn); /* of the callbacks, which will not be called */
}

/* ---- ports ---- */

/* conn:attend(channel) -> a light userdata, for unattend: while the connection is open, a take from the channel counts
   as waiting for a pending event. */
int conn_attend(lua_State *L) {
  Conn *conn = (Conn *)handle_check(L, 1, CONN_TYPE);
  Attended *attended = (Attended *)malloc(sizeof *attended);
  int code = attended ? events_open_port(L, conn->rn, 2, 1, RUNNEL_QUIET, &attended->port) : RUNNEL_NO_MEMORY;
  if (code != RUNNEL_OK) {
    free(attended);
    return events_refuse(L, conn->rn, code);
  }
  attended->next = conn->attended;
  conn->attended = attended;
  lua_pushlightuserdata(L, attended);
  return 1;
}

/* conn:unattend(light userdata): ends that. A closed connection has already ended it. */
int conn_unattend(lua_State *L) {
  Conn *conn = (Conn *)handle_check(L, 1, CONN_TYPE);
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

/* It is quiet: a connection alone does not keep the program running. */
int conn_open_events(lua_State *L, Conn *conn, int at) {
  conn->result = new_event(conn, NULL);
  conn->end = new_event(conn, NULL);
  return conn->result && conn->end ? events_open(L, &conn->events, at, RUNNEL_QUIET) : RUNNEL_NO_MEMORY;
}

void conn_free_events(Conn *conn) {
  if (conn->result) handle_release(conn->result);
  if (conn->end) handle_release(conn->end);
  events_free(&conn->events);
}

void conn_close_events(Conn *conn) {
  events_close(&conn->events);
  while (conn->attended) {
    Attended *first = conn->attended;
    conn->attended = first->next;
    (void)conn->rn->port_release(first->port); /* which closes it */
    free(first);
  }
}
