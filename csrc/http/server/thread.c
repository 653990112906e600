/* thread.c: the thread of a server; see server.h. */
#include "http/server/server.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/server/daemon.h"

/* How often requests and connections are checked, in ms; one that must end ends at most this late. */
enum { LOOK = 100 };

/* Bytes that libmicrohttpd may use for a connection beside its headers. */
enum { BUFFER = 32 * 1024 };

void server_free(void *object) {
  Server *server = (Server *)object;
  events_free(&server->events);
  thread_close(&server->thread);
  (void)pthread_mutex_destroy(&server->lock);
  free(server);
}

/* Continues resumed requests. With the lock. */
static void resume_all(Server *server) {
  while (server->resumed) {
    Request *request = server->resumed;
    server->resumed = request->next_resumed;
    request->is_resumed = request->is_suspended = false;
    if (request->client) MHD_resume_connection(request->client);
  }
}

/* ---- the thread ---- */

/* Accepts no more connections. */
static void quiesce(Server *server) {
  if (server->has_quiesced) return;
  server->has_quiesced = true;
  int fd = MHD_quiesce_daemon(server->daemon);
  if (fd >= 0) (void)close(fd);
}

/* One turn. */
static void turn(Server *server) {
  daemon_wait(server->daemon, server->thread.wakeup,
              server->has_progressed ? 0
              : server->nfresh       ? 1
                                     : LOOK,
              !server->nfresh);
  server->has_progressed = false;
  server->now = clock_ns();
  (void)wakeup_consume(server->thread.wakeup);
  (void)pthread_mutex_lock(&server->lock);
  resume_all(server);
  bool quiesces = server->quiesces;
  (void)pthread_mutex_unlock(&server->lock);
  if (quiesces) quiesce(server);
  (void)MHD_run(server->daemon);
  if (server->now - server->looked >= LOOK * CLOCK_MS || (quiesces && server->clients.first)) {
    server->looked = server->now;
    request_look(server);
  }
  if (server->has_quiesced && server->nopen == 0 && !server->has_drained) {
    server->has_drained = true;
    events_add(&server->events, server, EVENT_DRAINED);
  }
  (void)events_post(&server->events); /* if there is no memory, the next turn tries again */
}

static void *run(void *data) {
  Server *server = (Server *)data;
  while (!thread_ends(&server->thread)) turn(server);
  return NULL;
}

/* ---- starting and stopping ---- */

/* libmicrohttpd is not to change the path: Lua decodes it. */
static size_t keep(void *data, struct MHD_Connection *client, char *text) {
  (void)data, (void)client;
  return strlen(text);
}

static struct MHD_Daemon *start_daemon(Server *server, int fd) {
  const Limits *limits = &server->limits;
  int64_t second = 1000 * CLOCK_MS;
  return MHD_start_daemon(
      daemon_flags(), 0, NULL, NULL, request_handle, server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
      limits->connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)((limits->idle + second - 1) / second),
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits->header + BUFFER, MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)4096,
      MHD_OPTION_NOTIFY_CONNECTION, request_connection, server, MHD_OPTION_NOTIFY_COMPLETED, request_completed, server,
      MHD_OPTION_URI_LOG_CALLBACK, request_begin, server, MHD_OPTION_UNESCAPE_CALLBACK, keep, NULL,
      MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
}

static void wake(void *data) { thread_wake(&((Server *)data)->thread); }

bool server_start(Server *server, const Limits *limits, const char *address, int number, char *why, size_t size) {
  server->limits = *limits;
  server->task = (runnel_task){.run = wake, .data = server};
  server->now = clock_ns();
  (void)snprintf(why, size, "the server cannot be started: there is no memory or no descriptor");
  int fd = thread_open(&server->thread) ? daemon_listen(address, number, &server->number, why, size) : -1;
  if (fd < 0) return false;
  server->daemon = start_daemon(server, fd);
  if (server->daemon && thread_start(&server->thread, "runnel-httpd", run, server) == 0) return true;
  /* uncovered: no memory or thread is left */
  (void)snprintf(why, size, "the server cannot be started: there is no memory or no thread");
  if (!server->daemon) (void)close(fd);
  return false;
}

/* Makes all suspended requests go on: libmicrohttpd cannot end them otherwise. */
static void resume_every(Server *server) {
  (void)pthread_mutex_lock(&server->lock);
  for (Link *link = server->known.first; link; link = list_next(&server->known, link)) {
    Request *request = CONTAINER_OF(link, Request, link);
    request->is_cut = true;
    request_resume(request);
  }
  resume_all(server);
  (void)pthread_mutex_unlock(&server->lock);
}

void server_stop(Server *server) {
  thread_end(&server->thread);
  (void)server->rn->task_cancel(&server->task);
  if (server->daemon) {
    resume_every(server);
    MHD_stop_daemon(server->daemon); /* closes the socket on which it listens */
    server->daemon = NULL;
  }
  events_close(&server->events);
}
