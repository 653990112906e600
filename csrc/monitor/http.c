/* http.c: see http.h.

   The server listens on the loopback address only. Other sites that the browser visits could still send it requests, so
   the headers Host and Origin must name this server, and all but the page's scripts needs the token. A connection stays
   open only for requests with the token. */
#include "monitor/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/assets.h"

/* A request. */
typedef struct Visit {
  Reply reply;      /* the head and body of the answer, until the connection takes them */
  Page *page;       /* the page that the answer streams, or NULL */
  Command *command; /* the command in a form that is being read; owned */
  Bytes form;       /* the form */
} Visit;

/* ---- answers ---- */

static const char *const headers[][2] = {
    {"Cache-Control", "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
     "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
};

/* Answers a request; with `page`, the body is written later. */
static void answer(Conn *conn, unsigned status, const char *type, const void *body, size_t size, Page *page) {
  Visit *visit = (Visit *)conn->request;
  Reply *reply = &visit->reply;
  visit->page = page;
  if (page) conn->keeps = false; /* the stream ends with the connection */
  reply_begin(reply, status, &conn->hub->date);
  reply_field(reply, "Content-Type", type);
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) reply_field(reply, headers[i][0], headers[i][1]);
  if (!conn->keeps) reply_field(reply, "Connection", "close");
  if (!page) reply_length(reply, size);
  reply_end(reply);
  reply_add(reply, (const char *)body, size);
}

static void answer_text(Conn *conn, unsigned status, const char *type, const char *text) {
  answer(conn, status, type, text, strlen(text), NULL);
}

static void refuse(Conn *conn, unsigned status, const char *why) {
  answer_text(conn, status, "text/plain; charset=utf-8", why);
}

/* ---- who may ask ---- */

static bool is_host(const Site *site, Slice host) {
  char name[32];
  static const char *const names[] = {"127.0.0.1", "localhost"};
  for (int i = 0; i < 2; i++) {
    (void)snprintf(name, sizeof name, "%s:%d", names[i], site->port);
    if (slice_is(host, name)) return true;
  }
  return false;
}

static const Slice *find_header(const Head *head, const char *name) {
  for (size_t i = 0; i < head->nfields; i++) {
    if (slice_is(head->fields[i].name, name)) return &head->fields[i].value;
  }
  return NULL;
}

/* Why this client is refused, or NULL. */
static const char *who_is_wrong(const Site *site, const Head *head) {
  const Slice *host = find_header(head, "Host"), *origin = find_header(head, "Origin");
  if (!host || !is_host(site, *host)) return "403: the header Host must be 127.0.0.1 or localhost, and the port\n";
  if (origin && (origin->size < 7 || strncasecmp(origin->at, "http://", 7) != 0 ||
                 !is_host(site, (Slice){origin->at + 7, origin->size - 7})))
    return "403: the header Origin must be that of the monitor's own page\n";
  return NULL;
}

/* The field `token` of a query; empty if there is none. */
static Slice token_of(Slice query) {
  static const char name[] = "token=";
  while (query.size) {
    const char *end = (const char *)memchr(query.at, '&', query.size);
    Slice field = {query.at, end ? (size_t)(end - query.at) : query.size};
    if (field.size >= sizeof name - 1 && memcmp(field.at, name, sizeof name - 1) == 0)
      return (Slice){field.at + sizeof name - 1, field.size - (sizeof name - 1)};
    size_t past = end ? field.size + 1 : field.size;
    query = (Slice){query.at + past, query.size - past};
  }
  return query;
}

/* Whether the request has the token; compares in constant time. */
static bool has_token(const Site *site, Slice query) {
  Slice token = token_of(query);
  if (token.size != TOKEN_LENGTH) return false;
  unsigned difference = 0;
  for (int i = 0; i < TOKEN_LENGTH; i++) difference |= (unsigned char)token.at[i] ^ (unsigned char)site->token[i];
  return difference == 0;
}

/* ---- what there is ---- */

static void open_page(Site *site, Conn *conn) {
  Page *page = site->npages < MAX_PAGES ? (Page *)calloc(1, sizeof *page) : NULL;
  if (!page) {
    refuse(conn, 503, "503: too many pages are open\n");
    return;
  }
  page->conn = conn;
  page->next = site->pages; /* the server frees it once it has gone */
  site->pages = page;
  site->npages++;
  site->has_new_page = true;
  answer(conn, 200, "text/event-stream", "", 0, page);
}

static void get(Site *site, Conn *conn, Slice path, bool is_known) {
  bool is_page = slice_is(path, "/");
  for (const Asset *asset = monitor_assets; asset->path; asset++) {
    if (!slice_is(is_page ? (Slice){"/page.html", 10} : path, asset->path)) continue;
    if (is_page && !is_known)
      refuse(conn, 403, "403: the token is missing or wrong; open the URL that the program has printed\n");
    else answer(conn, 200, asset->type, asset->bytes, asset->length, NULL);
    return;
  }
  if (!slice_is(path, "/events")) refuse(conn, 404, "404: there is no such page\n");
  else if (!is_known) refuse(conn, 403, "403: the token is missing or wrong\n");
  else open_page(site, conn);
}

/* ---- commands ---- */

/* Decodes a field of a form into `to`, as a string; false if it is wrong, or longer than `room`. */
static bool decode(Slice from, char *to, size_t room) {
  size_t n = 0;
  for (size_t i = 0; i < from.size; i++) {
    int c = from.at[i] == '+' ? ' ' : from.at[i];
    if (c == '%') {
      int high = i + 2 < from.size ? slice_digit(from.at[i + 1]) : -1,
          low = high >= 0 ? slice_digit(from.at[i + 2]) : -1;
      if (low < 0) return false;
      c = high * 16 + low;
      i += 2;
    }
    if (!c || n + 1 >= room) return false;
    to[n++] = (char)(unsigned char)c;
  }
  to[n] = 0;
  return true;
}

/* Reads a field of a form, NAME=VALUE. */
static bool read_field(Command *c, Slice field) {
  struct {
    const char *name;
    char *to;
    size_t room;
  } fields[] = {{"id", c->id, sizeof c->id}, {"type", c->type, sizeof c->type}, {"text", c->text, sizeof c->text}};
  const char *equal = (const char *)memchr(field.at, '=', field.size);
  size_t size = equal ? (size_t)(equal - field.at) : 0;
  for (size_t i = 0; equal && i < sizeof fields / sizeof *fields; i++) {
    if (!slice_is((Slice){field.at, size}, fields[i].name)) continue;
    return decode((Slice){equal + 1, field.size - size - 1}, fields[i].to, fields[i].room);
  }
  return false;
}

static bool read_form(Command *command, Slice form) {
  while (form.size) {
    const char *end = (const char *)memchr(form.at, '&', form.size);
    Slice field = {form.at, end ? (size_t)(end - form.at) : form.size};
    if (!field.size || !read_field(command, field)) return false;
    size_t past = end ? field.size + 1 : field.size;
    form = (Slice){form.at + past, form.size - past};
  }
  return true;
}

/* The commands, and whether they change the program. None runs code from a page. */
static const struct {
  const char *name;
  bool changes;
} commands[] = {
    {"values", false},    {"timeline", false},   {"queues", false},    {"runs", false},       {"flows", false},
    {"leaks", false},     {"profile", false},    {"collect", true},    {"kill", true},        {"inject", true},
    {"flow_pause", true}, {"flow_resume", true}, {"flow_drain", true}, {"flow_inject", true},
};

/* Passes on the command of a complete form, or refuses the request. */
static void end_form(Site *site, Conn *conn) {
  Visit *visit = (Visit *)conn->request;
  Command *command = visit->command;
  visit->command = NULL;
  if (!read_form(command, (Slice){bytes_first(&visit->form), bytes_length(&visit->form)})) {
    free(command);
    refuse(conn, 400, "400: the form is wrong: its fields are id, type, text\n");
    return;
  }
  int64_t number = desk_command(&site->desk, command);
  char text[48];
  (void)snprintf(text, sizeof text, "{\"number\":%lld}", (long long)number);
  if (number) answer_text(conn, 202, "application/json", text);
  else refuse(conn, 503, "503: the program computes, and takes no more commands\n");
}

/* Begins to read the form of a command; false if there is no memory. */
static bool begin_form(Site *site, Conn *conn, Slice path, const Head *head, bool is_known) {
  const char *what = NULL;
  bool changes = false;
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    if (slice_is((Slice){path.at + 1, path.size - 1}, commands[i].name))
      what = commands[i].name, changes = commands[i].changes;
  }
  const Slice *type = find_header(head, "Content-Type");
  static const char form[] = "application/x-www-form-urlencoded"; /* and perhaps a character set */
  bool is_form = type && type->size >= sizeof form - 1 && strncasecmp(type->at, form, sizeof form - 1) == 0;
  if (!what) refuse(conn, 404, "404: there is no such command\n");
  else if (!is_known) refuse(conn, 403, "403: the token is missing or wrong\n");
  else if (!site->control && changes)
    refuse(conn, 403, "403: commands are off: start the monitor with control = true\n");
  else if (!is_form) refuse(conn, 400, "400: the form is wrong: its fields are id, type, text\n");
  else {
    Command *command = ((Visit *)conn->request)->command = (Command *)calloc(1, sizeof *command);
    if (!command) return false;
    (void)snprintf(command->what, sizeof command->what, "%s", what);
    if (!conn->has_body) end_form(site, conn);
  }
  return true;
}

/* ---- what connections call ---- */

static bool begin(Conn *conn, const Head *head) {
  Site *site = (Site *)conn->hub->data;
  conn->request = calloc(1, sizeof(Visit));
  if (!conn->request) return false;
  const char *mark = (const char *)memchr(head->target.at, '?', head->target.size);
  Slice path = {head->target.at, mark ? (size_t)(mark - head->target.at) : head->target.size};
  Slice query = {path.at + path.size, 0};
  if (mark) query = (Slice){mark + 1, head->target.size - path.size - 1};
  const char *why = who_is_wrong(site, head);
  bool is_known = has_token(site, query);
  if (!is_known) conn->keeps = false;
  if (!why && is_known) visitors_remove(&site->visitors, conn);
  if (why) refuse(conn, 403, why);
  else if (slice_is(head->method, "GET")) get(site, conn, path, is_known);
  else if (slice_is(head->method, "POST")) return begin_form(site, conn, path, head, is_known);
  else refuse(conn, 405, "405: only GET and POST\n");
  return true;
}

static size_t take_body(Conn *conn, const char *bytes, size_t size) {
  Visit *visit = (Visit *)conn->request;
  if (visit->command && !bytes_add(&visit->form, bytes, size)) conn_close(conn);
  return size;
}

static void complete_body(Conn *conn) {
  if (((Visit *)conn->request)->command) end_form((Site *)conn->hub->data, conn);
}

static void pull(Conn *conn) {
  Visit *visit = (Visit *)conn->request;
  Page *page = visit->page;
  if (conn->expects && visit->command) {
    conn->expects = !bytes_add(&conn->out, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    return;
  }
  if (visit->reply.failed) conn_close(conn);
  if (conn->is_closed) return;
  Answer *answer = &conn->answer;
  (void)bytes_move(&conn->out, page && answer->has_begun ? &page->message.bytes : &visit->reply.bytes);
  if (bytes_length(&conn->out)) answer->has_begun = true;
  answer->is_done = answer->has_begun && (!page || (page->ended && text_length(&page->message) == 0));
}

static void end(Conn *conn, Ending ending) {
  Visit *visit = (Visit *)conn->request;
  (void)ending;
  if (visit->page) visit->page->conn = NULL;
  bytes_free(&visit->reply.bytes);
  bytes_free(&visit->form);
  free(visit->command);
  free(visit);
}

static void opened(Conn *conn) { visitors_add(&((Site *)conn->hub->data)->visitors, conn, conn->hub->now); }
static void closed(Conn *conn) { visitors_remove(&((Site *)conn->hub->data)->visitors, conn); }

const ConnUser http_user = {.opened = opened,
                            .closed = closed,
                            .begin = begin,
                            .body = take_body,
                            .whole = complete_body,
                            .pull = pull,
                            .ended = end};
