/* http.c: see http.h.

   The server listens on the loopback address only. Other sites that the browser visits could still send it requests, so
   the headers Host and Origin must name this server, and all but the page's scripts needs the token. A connection stays
   open only for requests with the token. */
#include "monitor/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "monitor/assets.h"

/* The size of the buffer in which fields of a form are parsed. */
enum { FORM_BUFFER = 1024 };

/* A request with a form. */
typedef struct Form {
  struct MHD_PostProcessor *parser; /* of the fields */
  Command *command;                 /* what they say */
  bool is_wrong;                    /* a field is unknown or too long */
} Form;

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

/* Whether the request has the token; the time that this takes does not depend on it. */
static bool has_token(const Site *site, struct MHD_Connection *client) {
  const char *token = MHD_lookup_connection_value(client, MHD_GET_ARGUMENT_KIND, "token");
  if (!token || strlen(token) != TOKEN_LENGTH) return false;
  unsigned difference = 0;
  for (int i = 0; i < TOKEN_LENGTH; i++) difference |= (unsigned char)token[i] ^ (unsigned char)site->token[i];
  return difference == 0;
}

/* Sends a response, which is released. */
static enum MHD_Result send_response(const Site *site, struct MHD_Connection *client, unsigned status, const char *type,
                                     struct MHD_Response *response) {
  if (!response) return MHD_NO;
  if (!has_token(site, client)) (void)MHD_add_response_header(response, "Connection", "close");
  (void)MHD_add_response_header(response, "Content-Type", type);
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
    (void)MHD_add_response_header(response, headers[i][0], headers[i][1]);
  enum MHD_Result result = MHD_queue_response(client, status, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result send_text(const Site *site, struct MHD_Connection *client, unsigned status, const char *type,
                                 const char *text) {
  struct MHD_Response *response =
      MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
  return send_response(site, client, status, type, response);
}

static enum MHD_Result refuse(const Site *site, struct MHD_Connection *client, unsigned status, const char *why) {
  return send_text(site, client, status, "text/plain; charset=utf-8", why);
}

/* ---- who may ask ---- */

static bool is_host(const Site *site, const char *host) {
  char name[32];
  static const char *const names[] = {"127.0.0.1", "localhost"};
  for (int i = 0; i < 2; i++) {
    (void)snprintf(name, sizeof name, "%s:%d", names[i], site->port);
    if (strcasecmp(host, name) == 0) return true;
  }
  return false;
}

/* Why this client is refused, or NULL. */
static const char *who_is_wrong(const Site *site, struct MHD_Connection *client) {
  const char *host = MHD_lookup_connection_value(client, MHD_HEADER_KIND, "Host");
  const char *origin = MHD_lookup_connection_value(client, MHD_HEADER_KIND, "Origin");
  if (!host || !is_host(site, host)) return "403: the header Host must be 127.0.0.1 or localhost, and the port\n";
  if (origin && (strncasecmp(origin, "http://", 7) != 0 || !is_host(site, origin + 7)))
    return "403: the header Origin must be that of the monitor's own page\n";
  return NULL;
}

/* ---- what there is ---- */

static enum MHD_Result send_asset(const Site *site, struct MHD_Connection *client, const Asset *asset) {
  struct MHD_Response *response = MHD_create_response_from_buffer(asset->length, (void *)(uintptr_t)asset->bytes,
                                                                  MHD_RESPMEM_PERSISTENT); /* only read */
  return send_response(site, client, MHD_HTTP_OK, asset->type, response);
}

static enum MHD_Result open_page(Site *site, struct MHD_Connection *client) {
  if (site->npages >= MAX_PAGES)
    return refuse(site, client, MHD_HTTP_SERVICE_UNAVAILABLE, "503: too many pages are open\n");
  Page *page = calloc(1, sizeof *page);
  if (!page) return MHD_NO;
  page->client = client;
  struct MHD_Response *response = page_response(page);
  if (!response) {
    page_free(page); /* uncovered: only when memory runs out */
    return MHD_NO;
  }
  page->next = site->pages; /* the server frees it, once libmicrohttpd has freed the response */
  site->pages = page;
  site->npages++;
  site->has_new_page = true;
  return send_response(site, client, MHD_HTTP_OK, "text/event-stream", response);
}

static enum MHD_Result get(Site *site, struct MHD_Connection *client, const char *url) {
  bool is_page = strcmp(url, "/") == 0;
  for (const Asset *asset = monitor_assets; asset->path; asset++) {
    if (strcmp(asset->path, is_page ? "/page.html" : url) != 0) continue;
    if (is_page && !has_token(site, client))
      return refuse(site, client, MHD_HTTP_FORBIDDEN,
                    "403: the token is missing or wrong; open the URL that the program has printed\n");
    return send_asset(site, client, asset);
  }
  if (strcmp(url, "/events") != 0) return refuse(site, client, MHD_HTTP_NOT_FOUND, "404: there is no such page\n");
  if (!has_token(site, client)) return refuse(site, client, MHD_HTTP_FORBIDDEN, "403: the token is missing or wrong\n");
  return open_page(site, client);
}

/* ---- commands ---- */

/* A part of a field's value: adds it to the command. */
static enum MHD_Result add_to_field(void *data, enum MHD_ValueKind kind, const char *key, const char *filename,
                                    const char *type, const char *encoding, const char *value, uint64_t offset,
                                    size_t size) {
  (void)kind, (void)filename, (void)type, (void)encoding;
  Form *form = data;
  Command *c = form->command;
  struct {
    const char *name;
    char *to;
    size_t room;
  } fields[] = {{"id", c->id, sizeof c->id}, {"type", c->type, sizeof c->type}, {"text", c->text, sizeof c->text}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (strcmp(key, fields[i].name) != 0) continue;
    if (offset + size >= fields[i].room || memchr(value, 0, size)) break;
    memcpy(fields[i].to + offset, value, size);
    return MHD_YES;
  }
  form->is_wrong = true;
  return MHD_YES;
}

/* The commands, and whether they change the program. None runs code from a page. */
static const struct {
  const char *name;
  bool changes;
} commands[] = {
    {"values", false}, {"timeline", false},  {"queues", false},     {"flows", false},     {"kill", true},
    {"inject", true},  {"flow_pause", true}, {"flow_resume", true}, {"flow_drain", true}, {"flow_inject", true},
};

/* Begins to read the form of a command. */
static enum MHD_Result begin_form(Site *site, struct MHD_Connection *client, const char *url, void **request) {
  const char *what = NULL;
  bool changes = false;
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    if (strcmp(url + 1, commands[i].name) == 0) what = commands[i].name, changes = commands[i].changes;
  }
  if (!what) return refuse(site, client, MHD_HTTP_NOT_FOUND, "404: there is no such command\n");
  if (!has_token(site, client)) return refuse(site, client, MHD_HTTP_FORBIDDEN, "403: the token is missing or wrong\n");
  if (!site->control && changes)
    return refuse(site, client, MHD_HTTP_FORBIDDEN, "403: commands are off: start the monitor with control = true\n");
  Form *form = calloc(1, sizeof *form);
  if (!form) return MHD_NO;
  *request = form;
  form->command = calloc(1, sizeof *form->command);
  if (!form->command) return MHD_NO;
  (void)snprintf(form->command->what, sizeof form->command->what, "%s", what);
  form->parser = MHD_create_post_processor(client, FORM_BUFFER, add_to_field, form);
  if (!form->parser) form->is_wrong = true; /* no form */
  return MHD_YES;
}

static enum MHD_Result end_form(Site *site, struct MHD_Connection *client, Form *form) {
  if (form->parser && MHD_destroy_post_processor(form->parser) != MHD_YES) form->is_wrong = true;
  form->parser = NULL;
  if (form->is_wrong)
    return refuse(site, client, MHD_HTTP_BAD_REQUEST, "400: the form is wrong: its fields are id, type, text\n");
  Command *command = form->command;
  form->command = NULL;
  int64_t number = desk_command(&site->desk, command);
  if (!number)
    return refuse(site, client, MHD_HTTP_SERVICE_UNAVAILABLE,
                  "503: the program computes, and takes no more commands\n");
  char answer[48];
  (void)snprintf(answer, sizeof answer, "{\"number\":%lld}", (long long)number);
  return send_text(site, client, MHD_HTTP_ACCEPTED, "application/json", answer);
}

enum MHD_Result http_answer(void *data, struct MHD_Connection *client, const char *url, const char *method,
                            const char *version, const char *upload, size_t *upload_size, void **request) {
  (void)version;
  Site *site = data;
  Form *form = *request;
  if (form) {
    if (*upload_size == 0) return end_form(site, client, form);
    if (form->parser && MHD_post_process(form->parser, upload, *upload_size) != MHD_YES) form->is_wrong = true;
    *upload_size = 0;
    return MHD_YES;
  }
  const char *why = who_is_wrong(site, client);
  if (!why && has_token(site, client)) visitors_remove(&site->visitors, client);
  if (why) return refuse(site, client, MHD_HTTP_FORBIDDEN, why);
  if (strcmp(method, "GET") == 0) return get(site, client, url);
  if (strcmp(method, "POST") == 0) return begin_form(site, client, url, request);
  return refuse(site, client, MHD_HTTP_METHOD_NOT_ALLOWED, "405: only GET and POST\n");
}

void http_connection(void *data, struct MHD_Connection *client, void **context,
                     enum MHD_ConnectionNotificationCode code) {
  (void)context;
  Site *site = data;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) visitors_add(&site->visitors, client, clock_ns());
  else visitors_remove(&site->visitors, client);
}

void http_completed(void *data, struct MHD_Connection *client, void **request, enum MHD_RequestTerminationCode code) {
  (void)data, (void)client, (void)code;
  Form *form = *request;
  if (!form) return;
  if (form->parser) (void)MHD_destroy_post_processor(form->parser);
  free(form->command);
  free(form);
  *request = NULL;
}
