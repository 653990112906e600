/* server.c: the thread of a server, and what it and the Lua thread tell each other; see server.h. */
#include "httpd/server.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "httpd/daemon.h"

/* How often requests and connections are looked at, in ms; at most so late is one ended that must end. */
enum { LOOK = 100 };

/* Bytes that libmicrohttpd may use for a connection beside its headers. */
enum { BUFFER = 32 * 1024 };

void server_release(Server *server) {
  if (atomic_fetch_sub(&server->holds, 1) > 1) return;
  if (server->port) (void)server->rn->port_release(server->port);
  thread_close(&server->thread);
  (void)pthread_mutex_destroy(&server->lock);
  free(server);
}

/* ---- between the threads ---- */

void server_tell(Request *request, unsigned events) {
  Server *server = request->server;
  request->events |= events;
  if (request->has_event) return;
  request->has_event = true;
  request->next_event = NULL;
  atomic_fetch_add(&request->holds, 1);
  *server->last_event = request;
  server->last_event = &request->next_event;
}

void server_resume(Request *request) {
  Server *server = request->server;
  if (!request->is_suspended || request->is_resumed) return;
  request->is_resumed = true;
  request->next_resumed = server->resumed;
  server->resumed = request;
}

/* Makes those go on that have been resumed. With the lock. */
static void resume_all(Server *server) {
  while (server->resumed) {
    Request *request = server->resumed;
    server->resumed = request->next_resumed;
    request->is_resumed = request->is_suspended = false;
    if (request->client) MHD_resume_connection(request->client);
  }
}

/* seldom covered: the state is closed while events are on their way */
static void drop_events(void *data) { server_release((Server *)data); }

/* Tells the Lua thread if there are events. With the lock. */
static void post(Server *server) {
  bool has_news = server->events || (server->has_drained && !server->told_drained);
  if (!has_news || server->is_posted) return;
  atomic_fetch_add(&server->holds, 1);
  server->is_posted = server->rn->post_call(server->port, httpd_push_events, drop_events, server) == RUNNEL_OK;
  /* seldom covered: there is no memory; the next turn tries again. The userdata has another hold. */
  if (!server->is_posted) (void)atomic_fetch_sub(&server->holds, 1);
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
  (void)pthread_mutex_lock(&server->lock);
  server->has_drained = server->has_quiesced && server->nopen == 0;
  post(server);
  (void)pthread_mutex_unlock(&server->lock);
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

Server *server_start(const runnel_functions *rn, const Limits *limits, const char *address, int number,
                     runnel_port *port, char *why, size_t size) {
  Server *server = (Server *)calloc(1, sizeof *server);
  if (!server) {
    /* uncovered: no memory is left */
    (void)snprintf(why, size, "not enough memory");
    (void)rn->port_release(port);
    return NULL;
  }
  atomic_init(&server->holds, 1);
  server->rn = rn;
  server->port = port;
  server->limits = *limits;
  server->last_event = &server->events;
  server->task = (runnel_task){.run = wake, .data = server};
  server->now = clock_ns();
  (void)pthread_mutex_init(&server->lock, NULL);
  (void)snprintf(why, size, "the server cannot be started: there is no memory or no descriptor");
  int fd = thread_open(&server->thread) ? daemon_listen(address, number, &server->number, why, size) : -1;
  if (fd >= 0) {
    server->daemon = start_daemon(server, fd);
    if (server->daemon && thread_start(&server->thread, "runnel-httpd", run, server) == 0) return server;
    /* uncovered: no memory or thread is left */
    (void)snprintf(why, size, "the server cannot be started: there is no memory or no descriptor");
  }
  if (server->daemon) MHD_stop_daemon(server->daemon); /* closes fd */
  else if (fd >= 0) (void)close(fd);
  server_release(server);
  return NULL;
}

/* Makes all suspended requests go on: libmicrohttpd cannot end them otherwise. */
static void resume_every(Server *server) {
  (void)pthread_mutex_lock(&server->lock);
  for (Link *link = server->known.first; link;) {
    Request *request = CONTAINER_OF(link, Request, link);
    request->is_cut = true;
    server_resume(request);
    link = link->next == server->known.first ? NULL : link->next;
  }
  resume_all(server);
  (void)pthread_mutex_unlock(&server->lock);
}

void server_stop(Server *server) {
  thread_end(&server->thread);
  (void)server->rn->task_cancel(&server->task);
  resume_every(server);
  MHD_stop_daemon(server->daemon);
  (void)server->rn->port_close(server->port);
  while (server->events) {
    Request *request = server->events;
    server->events = request->next_event;
    request->has_event = false;
    request_release(request);
  }
  server->last_event = &server->events;
}
