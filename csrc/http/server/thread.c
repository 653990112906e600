/* thread.c: the thread of a server; see server.h. */
#include <stdio.h>

#include "http/server/conn.h"
#include "http/server/server.h"

/* After how many ms the events are posted again if there was no memory. */
enum { AGAIN = 20 };

void server_free(void *object) {
  Server *server = (Server *)object;
  events_free(&server->events);
  thread_close(&server->thread);
  (void)pthread_cond_destroy(&server->returned);
  (void)pthread_mutex_destroy(&server->lock);
  free(server);
}

/* Continues the requests that Lua has changed. It may change them again meanwhile, and the others, too. */
static void take_changes(Server *server) {
  server_lock(server);
  List changed = server->resumed;
  server->resumed.first = NULL;
  while (changed.first) {
    Request *request = CONTAINER_OF(changed.first, Request, resumed);
    list_remove(&changed, &request->resumed);
    server_unlock(server);
    if (request->conn) advance(request->conn); /* only this thread sets `conn`, and it is valid while it is not NULL */
    handle_release(request);
    server_lock(server);
  }
  server_unlock(server);
}

static void *run(void *data) {
  Server *server = (Server *)data;
  Engine *engine = &server->engine;
  bool has_posted = true;
  while (!thread_ends(&server->thread)) {
    engine_turn(engine, has_posted ? -1 : AGAIN);
    (void)wakeup_consume(server->thread.wakeup);
    take_changes(server);
    if (atomic_load(&server->drains)) engine_drain(engine);
    engine_sweep(engine);
    if (engine_is_drained(engine)) events_add(&server->events, server, EVENT_DRAINED);
    has_posted = events_post(&server->events);
  }
  return NULL;
}

static void wake(void *data) { thread_wake(&((Server *)data)->thread); }

bool server_start(Server *server, const Place *place, char *why, size_t size) {
  Engine *engine = &server->engine;
  engine->hub.user = &request_user;
  engine->hub.data = server;
  server->task = (runnel_task){.run = wake, .data = server};
  (void)snprintf(why, size, "the server cannot be started: there is no memory, descriptor or thread");
  return thread_open(&server->thread) && engine_open(engine, place, server->thread.wakeup, why, size) &&
         thread_start(&server->thread, "runnel-httpd", run, server) == 0;
}

void server_stop(Server *server) {
  thread_end(&server->thread);
  (void)server->rn->task_cancel(&server->task);
  engine_close(&server->engine);
  Hub *hub = &server->engine.hub;
  if (hub->context) hub->lib->release(hub->context);
  hub->context = NULL;
  take_changes(server); /* no connection is left: releases them */
  events_close(&server->events);
}
