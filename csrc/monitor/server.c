/* server.c: see server.h. */
#include "monitor/server.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/task.h"

/* The least time between two snapshots, as a multiple of the time for filling one: so watching costs at most a
   twentieth of the program's time. */
enum { SHARE = 20 };

/* The bytes of a page's first picture, and then those in a second. */
enum { FIRST_BYTES = 256 * 1024, BYTES_A_SECOND = 126 * 1024 };

/* How long other pages wait for one that does not read the rest of a picture, in ms. */
enum { PATIENCE = 2000 };

/* How long pages may take to read their last message, in ms. */
enum { LAST_WORDS = 300 };

/* A connection without traffic is closed after this many seconds. (One without the token, sooner: visitors.h.) */
enum { IDLE_SECONDS = 30, MAX_CONNECTIONS = MAX_VISITORS + 4 * MAX_PAGES };

/* The most bytes of the head of a request, and of a form, whose text may have three characters for one. */
enum { MOST_HEADER = 16 * 1024, MOST_FORM = 3 * sizeof(Command) };

/* ---- messages ---- */

/* Adds the results of commands that the page has not received. */
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

/* Sends a page the changed rows, if it has read its last message. */
static void feed_page(Server *server, Page *page, int64_t now) {
  if (!page->conn || !page_is_idle(page)) return;
  int64_t ms = page->last_sent ? (now - page->last_sent) / CLOCK_MS : server->period;
  size_t budget =
      page->feed.rows.n ? (size_t)((ms < server->period ? ms : server->period) * BYTES_A_SECOND / 1000) : FIRST_BYTES;
  Text *to = &page->message;
  text_clear(to);
  text_puts(to, "data: {");
  if (!page->feed.begun) summary_hello(to, server->program, server->site.control, (int64_t)getpid());
  add_results(server, page, to);
  int64_t late = desk_late(&server->site.desk, now);
  summary_add(to, server->site.desk.watch, server->has_view ? &server->view : NULL, now, late, &server->runs,
              page->turn, &server->ran);
  feed_write(&page->feed, &server->view, to, budget);
  text_puts(to, "}\n\n");
  if (to->failed) {
    page->feed.begun = false; /* uncovered: only when memory runs out */
    text_clear(to);
    return;
  }
  page->last_sent = now;
  page->turn = 0;
  page_send(page);
}

static void feed_pages(Server *server, int64_t now) {
  for (Page *page = server->site.pages; page; page = page->next) feed_page(server, page, now);
}

/* Whether a page does not have all of the view yet: it gets that before a newer one, so what it shows is a state that
   the program was in. */
static bool is_sending(const Server *server, int64_t now) {
  for (const Page *page = server->site.pages; page; page = page->next) {
    if (page->conn && page->feed.is_cut && now - page->last_sent < PATIENCE * CLOCK_MS) return true;
  }
  return false;
}

static void drop_closed_pages(Server *server) {
  for (Page **at = &server->site.pages; *at;) {
    Page *page = *at;
    if (page->conn) {
      at = &page->next;
      continue;
    }
    *at = page->next;
    server->site.npages--;
    page_free(page);
  }
}

/* ---- what runs while the scheduler is late ---- */

/* From when on the scheduler is late, and how often the server then looks, in ms: later, less often. */
enum { LATE = 20, LOOKS = 8 };

/* Notes what runs, if the scheduler is late. */
static void look(Server *server, int64_t now) {
  Desk *desk = &server->site.desk;
  int64_t late = desk_late(desk, now);
  if (late < LATE * CLOCK_MS) return;
  Runner *runs = &server->runs;
  if (runs->asked != now - late) *runs = (Runner){.asked = now - late, .since = now, .is_blocked = true};
  runs->last = now;
  char name[sizeof runs->name];
  uint32_t id = desk->watch->running(desk->watch, name, sizeof name);
  if (runs->looks++ == 0) {
    memcpy(runs->name, name, sizeof name);
    runs->id = id;
  }
  runs->is_mixed = runs->is_mixed || id != runs->id || strcmp(name, runs->name) != 0;
  runs->is_blocked = runs->is_blocked && task_waits(desk->task);
}

/* In how many ms to look again; `most` if the scheduler is not asked. */
static int until_look(Server *server, int64_t now, int most) {
  int64_t late = desk_late(&server->site.desk, now) / CLOCK_MS, next = LATE + late / LOOKS;
  return server->site.pages && late > 0 && next < most ? (int)next : most;
}

/* ---- the thread ---- */

/* Waits for a client or the scheduler, for at most `ms`, and serves the clients. */
static void wait_for_news(Server *server, int ms) {
  engine_turn(&server->engine, ms);
  (void)wakeup_consume(server->site.desk.thread.wakeup);
}

/* Asks for a snapshot when one is due; if the last one is missing, tells the pages. Without pages asks for none, but
   reminds the scheduler if it wants to be reminded. */
static void ask_if_due(Server *server, int64_t now) {
  if (now < server->due && !server->site.has_new_page) return;
  server->site.has_new_page = false;
  Desk *desk = &server->site.desk;
  int64_t share = desk->shown->taken * SHARE, period = server->period * CLOCK_MS;
  server->due = now + period;
  if (!server->site.pages) {
    if (atomic_exchange(&desk->reminds, false)) desk_ask(desk, false);
    return;
  }
  bool is_pending = atomic_load(&desk->wants) && atomic_load(&desk->watch->asked);
  if (is_sending(server, now) || is_pending) {
    feed_pages(server, now);
    return;
  }
  if (share > period) server->due = now + share;
  desk_ask(desk, true);
}

/* Tells the pages that the program has ended, and why, and gives them a moment to read that. */
static void end_pages(Server *server) {
  for (Page *page = server->site.pages; page; page = page->next) {
    if (!page->conn) continue;
    page->ended = true;
    text_puts(&page->message, "event: ended\ndata: {\"why\":");
    text_json(&page->message, server->why);
    text_puts(&page->message, "}\n\n");
    page_send(page);
  }
  int64_t until = clock_ns() + LAST_WORDS * CLOCK_MS;
  do {
    wait_for_news(server, 10);
    drop_closed_pages(server);
  } while (server->site.pages && clock_ns() < until);
}

static void *run(void *data) {
  Server *server = data;
  Desk *desk = &server->site.desk;
  while (!thread_ends(&desk->thread)) {
    int64_t left = server->site.has_new_page ? 0 : (server->due - clock_ns()) / CLOCK_MS + 1;
    int most = left < 0 ? 0 : left > server->period ? server->period : (int)left;
    wait_for_news(server, until_look(server, clock_ns(), most));
    drop_closed_pages(server);
    int64_t now = clock_ns();
    look(server, now);
    visitors_close_late(&server->site.visitors, now);
    if (!is_sending(server, now) && desk_fetch(desk)) {
      server->has_view = view_make(&server->view, desk->shown);
      server->ran = server->runs;
      server->runs = (Runner){0};
      for (Page *page = server->site.pages; page; page = page->next) {
        if (page->turn < desk->shown->turn) page->turn = desk->shown->turn;
      }
      feed_pages(server, now);
    } else if (desk_has_news(desk)) {
      feed_pages(server, now);
    }
    ask_if_due(server, now);
  }
  end_pages(server);
  return NULL;
}

/* ---- starting and stopping ---- */

static bool make_token(char token[TOKEN_LENGTH + 1]) {
  unsigned char bytes[TOKEN_LENGTH / 2];
  int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
  if (fd >= 0) (void)close(fd);
  if (n != (ssize_t)sizeof bytes) return false;
  for (size_t i = 0; i < sizeof bytes; i++) (void)snprintf(token + 2 * i, 3, "%02x", bytes[i]);
  return true;
}

static bool open_engine(Server *server, int port, char why[256]) {
  int64_t second = 1000 * CLOCK_MS, idle = IDLE_SECONDS * second;
  Hub *hub = &server->engine.hub;
  hub->user = &http_user;
  hub->data = &server->site;
  hub->limits = (Limits){.connections = MAX_CONNECTIONS,
                         .requests = UINT32_MAX,
                         .header = MOST_HEADER,
                         .body = MOST_FORM,
                         .head = idle,
                         .idle = idle};
  Place place = {.address = "127.0.0.1", .port = port, .fd = -1};
  bool ok = engine_open(&server->engine, &place, server->site.desk.thread.wakeup, why, 256);
  server->site.port = server->engine.own.port;
  return ok;
}

bool server_start(Server *server, Watch *watch, int port, bool control, const char *program, int period,
                  char why[256]) {
  Desk *desk = &server->site.desk;
  (void)snprintf(why, 256, "the server cannot be started");
  if (!desk_init(desk, watch)) return false;
  server->site.control = control;
  server->period = period;
  (void)snprintf(server->program, sizeof server->program, "%s", program);
  bool ok = open_engine(server, port, why) && make_token(server->site.token);
  (void)snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d/?token=%s", server->site.port,
                 server->site.token);
  return ok && thread_start(&desk->thread, "runnel-monitor", run, server) == 0;
}

void server_stop(Server *server) {
  thread_end(&server->site.desk.thread);
  engine_close(&server->engine);
}

void server_free(void *object) {
  Server *server = (Server *)object;
  for (Page *page = server->site.pages, *next; page; page = next) {
    next = page->next; /* seldom covered: it has not read its last message in time */
    page_free(page);
  }
  view_free(&server->view);
  desk_free(&server->site.desk);
  free(server);
}
