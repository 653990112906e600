/* server.c: see server.h. */
#include "monitor/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

/* How often the scheduler is asked for a snapshot, in ms; and how much longer than filling the last one took the time
   until the next is, at least, so that watching costs a twentieth of the program's time at most. */
enum { PERIOD = 500, SHARE = 20 };

/* Bytes that a page is sent in a second, and in one message. */
enum { BYTES_A_SECOND = 62 * 1024, BYTES_A_MESSAGE = BYTES_A_SECOND * PERIOD / 1000 };

/* How long pages may take to read their last message, in ms. */
enum { LAST_WORDS = 300 };

/* A connection that neither reads nor sends is closed after so many seconds. (Those without the token, sooner:
   visitors.h.) */
enum { IDLE_SECONDS = 30, MAX_CONNECTIONS = MAX_VISITORS + 4 * MAX_PAGES, CONNECTION_MEMORY = 64 * 1024 };

static int64_t now_ns(void) { return clock_now(&(Clock){0}); }

/* ---- messages ---- */

static void add_field(Text *to, const char *name, int64_t value) {
  text_puts(to, "\"");
  text_puts(to, name);
  text_puts(to, "\":");
  text_integer(to, value);
  text_puts(to, ",");
}

/* What a page must know once. */
static void add_hello(const Server *server, Text *to) {
  text_puts(to, "\"hello\":{\"program\":");
  text_json(to, server->program);
  text_puts(to, server->site.control ? ",\"control\":true,\"pid\":" : ",\"control\":false,\"pid\":");
  text_integer(to, (int64_t)getpid());
  text_puts(to, "},");
}

/* The results of commands that the page has not been sent. */
static void add_results(Server *server, Page *page, Text *to) {
  Desk *desk = &server->site.desk;
  pthread_mutex_lock(&desk->mutex);
  if (!page->last_sent) page->results = desk->nresults;
  uint64_t n = page->results + DESK_RESULTS < desk->nresults ? desk->nresults - DESK_RESULTS : page->results;
  text_puts(to, "\"r\":[");
  for (bool first = true; n < desk->nresults; n++) {
    const Result *result = &desk->results[n % DESK_RESULTS];
    if (!result->json) continue;
    text_puts(to, first ? "[" : ",[");
    text_integer(to, result->number);
    text_puts(to, ",");
    text_puts(to, result->json);
    text_puts(to, "]");
    first = false;
  }
  text_puts(to, "],");
  page->results = desk->nresults;
  pthread_mutex_unlock(&desk->mutex);
}

/* For how long Lua has not served the scheduler, in ms, and what has run then. */
static void add_busy(const Server *server, int64_t now, Text *to) {
  Watch *watch = server->site.desk.watch;
  bool is_busy = atomic_load(&watch->asked) && server->asked;
  add_field(to, "busy", is_busy ? (now - server->asked) / CLOCK_MS : 0);
  if (!is_busy) return;
  char name[256];
  add_field(to, "runs", watch->running(watch, name, sizeof name));
  text_puts(to, "\"who\":");
  text_json(to, name);
  text_puts(to, ",");
}

static void add_summary(const Server *server, int64_t now, Text *to) {
  const Snapshot *s = server->site.desk.shown;
  Watch *watch = server->site.desk.watch;
  int64_t waiting = atomic_load(&watch->waiting);
  add_field(to, "t", now / CLOCK_MS);
  add_field(to, "waited", (atomic_load(&watch->waited) + (waiting ? now - waiting : 0)) / CLOCK_MS);
  add_busy(server, now, to);
  if (!server->has_view) return;
  add_field(to, "now", s->now / CLOCK_MS);
  add_field(to, "virtual", s->is_virtual);
  add_field(to, "memory", (int64_t)s->memory);
  add_field(to, "gos", s->gos.n - s->has_main);
  add_field(to, "chans", s->chans.n);
  add_field(to, "ready", s->ready);
  add_field(to, "taken", s->taken / 1000);
  add_field(to, "more", server->view.more);
  add_field(to, "more_chans", server->view.more_chans);
}

/* Sends a page the rows that have changed, if it has read its last message. */
static void feed_page(Server *server, Page *page, int64_t now) {
  if (page->gone || !page_is_idle(page)) return;
  int64_t ms = page->last_sent ? (now - page->last_sent) / CLOCK_MS : PERIOD;
  size_t budget = (size_t)(ms < PERIOD ? ms * BYTES_A_SECOND / 1000 : BYTES_A_MESSAGE);
  Text *to = &page->message;
  text_clear(to);
  text_puts(to, "data: {");
  if (!page->feed.begun) add_hello(server, to);
  add_results(server, page, to);
  add_summary(server, now, to);
  feed_write(&page->feed, &server->view, to, budget);
  text_puts(to, "}\n\n");
  if (to->failed) {
    page->feed.begun = false; /* uncovered: only when memory runs out */
    text_clear(to);
    page->sent = 0;
    return;
  }
  page->last_sent = now;
  page_send(page);
}

static void feed_pages(Server *server, int64_t now) {
  for (Page *page = server->site.pages; page; page = page->next) feed_page(server, page, now);
}

static void drop_closed_pages(Server *server) {
  for (Page **at = &server->site.pages; *at;) {
    Page *page = *at;
    if (!page->gone) {
      at = &page->next;
      continue;
    }
    *at = page->next;
    server->site.npages--;
    page_free(page);
  }
}

/* ---- the thread ---- */

/* Waits until a client or the scheduler has news, for at most `ms`. */
static void wait_for_news(Server *server, int ms) {
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
  if (!info) { /* no epoll on this system */
    /* uncovered: Linux has it */
    (void)MHD_run_wait(server->daemon, ms < 20 ? ms : 20);
    return;
  }
  MHD_UNSIGNED_LONG_LONG timeout;
  if (MHD_get_timeout(server->daemon, &timeout) == MHD_YES && timeout < (MHD_UNSIGNED_LONG_LONG)ms) ms = (int)timeout;
  struct pollfd fds[] = {{.fd = info->epoll_fd, .events = POLLIN},
                         {.fd = wakeup_fd(server->site.desk.news), .events = POLLIN}};
  (void)poll(fds, 2, ms);
  (void)MHD_run(server->daemon);
}

/* Asks for a snapshot when one is due; if the last one has not come, tells the pages. */
static void ask_if_due(Server *server, int64_t now) {
  if (now < server->due && !server->site.has_new_page) return;
  server->site.has_new_page = false;
  int64_t share = server->site.desk.shown->taken * SHARE, period = PERIOD * CLOCK_MS;
  server->due = now + (share > period ? share : period);
  if (!server->site.pages) return;
  if (atomic_load(&server->site.desk.watch->asked)) {
    feed_pages(server, now);
    return;
  }
  server->asked = now;
  desk_ask(&server->site.desk);
}

/* Tells the pages that the program has ended, and gives them a moment to read it. */
static void end_pages(Server *server) {
  for (Page *page = server->site.pages; page; page = page->next) {
    bool was_idle = page_is_idle(page);
    page->ended = true;
    if (was_idle) text_clear(&page->message);
    text_puts(&page->message, "event: ended\ndata: {}\n\n");
    if (was_idle) page_send(page);
  }
  int64_t until = now_ns() + LAST_WORDS * CLOCK_MS;
  do {
    wait_for_news(server, 10);
    drop_closed_pages(server);
  } while (server->site.pages && now_ns() < until);
}

static void *run(void *data) {
  Server *server = data;
  Desk *desk = &server->site.desk;
  for (;;) {
    int64_t left = server->site.has_new_page ? 0 : (server->due - now_ns()) / CLOCK_MS + 1;
    wait_for_news(server, left < 0 ? 0 : left > PERIOD ? PERIOD : (int)left);
    (void)wakeup_consume(desk->news);
    drop_closed_pages(server);
    pthread_mutex_lock(&desk->mutex);
    bool stop = desk->stop;
    pthread_mutex_unlock(&desk->mutex);
    if (stop) break;
    int64_t now = now_ns();
    visitors_close_late(&server->site.visitors, now);
    if (desk_fetch(desk)) {
      server->has_view = view_make(&server->view, desk->shown);
      feed_pages(server, now);
    }
    ask_if_due(server, now);
  }
  end_pages(server);
  return NULL;
}

/* ---- starting and stopping ---- */

/* A socket that listens on a port of the loopback address, or -1 with a message in `why`. */
static int listen_on(int port, int *actual, char why[256]) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  if (fd >= 0) (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  if (fd >= 0) (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
    if (errno == EADDRINUSE) (void)snprintf(why, 256, "port %d of 127.0.0.1 is taken by another program", port);
    else (void)snprintf(why, 256, "cannot listen on port %d of 127.0.0.1: %s", port, strerror(errno));
    if (fd >= 0) (void)close(fd);
    return -1;
  }
  *actual = ntohs(address.sin_port);
  return fd;
}

/* Fills in a random token. */
static bool make_token(char token[TOKEN_LENGTH + 1]) {
  unsigned char bytes[TOKEN_LENGTH / 2];
  int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
  if (fd >= 0) (void)close(fd);
  if (n != (ssize_t)sizeof bytes) return false;
  for (size_t i = 0; i < sizeof bytes; i++) (void)snprintf(token + 2 * i, 3, "%02x", bytes[i]);
  return true;
}

static struct MHD_Daemon *start_daemon(Server *server, int fd) {
  unsigned flags = MHD_ALLOW_SUSPEND_RESUME;
  if (MHD_is_feature_supported(MHD_FEATURE_EPOLL) == MHD_YES) flags |= MHD_USE_EPOLL;
  return MHD_start_daemon(flags, 0, NULL, NULL, http_answer, &server->site, MHD_OPTION_LISTEN_SOCKET, fd,
                          MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
                          (unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
                          MHD_OPTION_NOTIFY_CONNECTION, http_connection, &server->site, MHD_OPTION_NOTIFY_COMPLETED,
                          http_completed, &server->site, MHD_OPTION_END);
}

/* Starts the thread, with all signals blocked: they are for the program. */
static bool start_thread(Server *server) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int status = pthread_create(&server->thread, NULL, run, server);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return status == 0;
}

Server *server_start(Watch *watch, int port, bool control, const char *program, char why[256]) {
  Server *server = calloc(1, sizeof *server);
  int fd = -1;
  (void)snprintf(why, 256, "the server cannot be started");
  if (!server || !desk_init(&server->site.desk, watch)) {
    free(server);
    return NULL;
  }
  server->site.control = control;
  (void)snprintf(server->program, sizeof server->program, "%s", program);
  fd = listen_on(port, &server->site.port, why);
  if (fd >= 0 && make_token(server->site.token)) {
    (void)snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d/?token=%s", server->site.port,
                   server->site.token);
    server->daemon = start_daemon(server, fd);
    if (server->daemon && start_thread(server)) return server;
  }
  if (server->daemon) MHD_stop_daemon(server->daemon); /* closes fd */
  else if (fd >= 0) (void)close(fd);
  desk_free(&server->site.desk);
  free(server);
  return NULL;
}

void server_stop(Server *server) {
  desk_stop(&server->site.desk);
  pthread_join(server->thread, NULL);
  MHD_stop_daemon(server->daemon);
  for (Page *page = server->site.pages, *next; page; page = next) {
    next = page->next; /* seldom covered: it has not read its last message in time */
    page_free(page);
  }
  view_free(&server->view);
  desk_free(&server->site.desk);
  free(server);
}
