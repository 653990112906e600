/* thread.c: the thread of a server; see server.h. */
#include <stdio.h>

#include "http/server/advance.h"
#include "http/server/server.h"

/* After how many ms the events are posted again if there was no memory. */
enum { AGAIN = 20 };

void server_free(void *object) {
  Server *server = (Server *)object;
  events_free(&server->events);
  thread_close(&server->thread);
  (void)pthread_mutex_destroy(&server->lock);
  free(server);
}

/* Continues the requests that Lua has changed; returns whether the server is to drain. */
static bool take_changes(Server *server) {
  (void)pthread_mutex_lock(&server->lock);
  Request *request = server->resumed;
  server->resumed = NULL;
  for (Request *each = request; each; each = each->next_resumed) {
    each->next_changed = each->next_resumed; /* once is_resumed is false, Lua may change next_resumed */
    each->is_resumed = false;
  }
  bool drains = server->drains;
  (void)pthread_mutex_unlock(&server->lock);
  while (request) {
    Request *next = request->next_changed;
    if (request->conn) advance(request->conn); /* only this thread sets `conn`, and it is valid while it is not NULL */
    handle_release(request);
    request = next;
  }
  return drains;
}

static void *run(void *data) {
  Server *server = (Server *)data;
  Engine *engine = &server->engine;
  bool has_posted = true;
  while (!thread_ends(&server->thread)) {
    engine_turn(engine, has_posted ? -1 : AGAIN);
    (void)wakeup_consume(server->thread.wakeup);
    if (take_changes(server)) engine_drain(engine);
    engine_sweep(engine);
    if (engine_is_drained(engine) && !server->has_drained) {
      server->has_drained = true;
      events_add(&server->events, server, EVENT_DRAINED);
    }
    has_posted = events_post(&server->events);
  }
  return NULL;
}

static void wake(void *data) { thread_wake(&((Server *)data)->thread); }

bool server_start(Server *server, const Place *place, char *why, size_t size) {
  Engine *engine = &server->engine;
  engine->hub.user = &request_user;
  engine->hub.data = server;
  engine->shares = place->shares;
  engine->is_given = place->fd >= 0;
  server->task = (runnel_task){.run = wake, .data = server};
  (void)snprintf(why, size, "the server cannot be started: there is no memory or no descriptor");
  engine->fd = thread_open(&server->thread) ? listen_at(place, &server->number, why, size) : -1;
  if (engine->fd < 0) return false;
  (void)snprintf(why, size, "the server cannot be started: there is no memory, descriptor or thread");
  return engine_open(engine, server->thread.wakeup) && thread_start(&server->thread, "runnel-httpd", run, server) == 0;
}

void server_stop(Server *server) {
  thread_end(&server->thread);
  (void)server->rn->task_cancel(&server->task);
  engine_close(&server->engine);
  Hub *hub = &server->engine.hub;
  if (hub->context) hub->lib->release(hub->context);
  hub->context = NULL;
  for (Request *request = server->resumed, *next; request; request = next) {
    next = request->next_resumed;
    request->is_resumed = false;
    handle_release(request);
  }
  server->resumed = NULL;
  events_close(&server->events);
}
