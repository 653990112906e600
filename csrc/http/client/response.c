/* response.c: a transfer's results for Lua: headers as a table, and errors as texts. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "http/client/client.h"

/* ---- headers ---- */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Names of headers are ASCII; the locale does not matter. */
static char lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }

enum { SHORT_NAME = 64 };

/* Pushes the name in lower case. */
static void push_name(lua_State *L, const char *name, size_t size) {
  char bytes[SHORT_NAME];
  luaL_Buffer buffer;
  char *to = size <= SHORT_NAME ? bytes : luaL_buffinitsize(L, &buffer, size);
  for (size_t i = 0; i < size; i++) to[i] = lower(name[i]);
  if (to == bytes) lua_pushlstring(L, bytes, size);
  else luaL_pushresultsize(&buffer, size);
}

/* Adds the value on top of the stack to the table below the name below it, and pops both. A repeated header is one
   value with commas between; but cookies, whose values have commas, are a list. */
static void add(lua_State *L) {
  bool is_cookie = strcmp(lua_tostring(L, -2), "set-cookie") == 0;
  lua_pushvalue(L, -2);
  int before = lua_rawget(L, -4);
  if (is_cookie) {
    if (before == LUA_TNIL) {
      lua_pop(L, 1);
      lua_newtable(L);
    }
    lua_insert(L, -2);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  } else if (before == LUA_TNIL) {
    lua_pop(L, 1);
  } else {
    lua_insert(L, -2);
    lua_pushliteral(L, ", ");
    lua_insert(L, -2);
    lua_concat(L, 3);
  }
  lua_rawset(L, -3);
}

/* A header. */
typedef struct Header {
  const char *name, *value;
  size_t name_size, value_size;
} Header;

/* Moves to the next line of the headers; false after the last. A line without a colon has an empty name. */
static bool next_line(const char **at, const char *end, Header *header) {
  if (*at >= end) return false;
  const char *newline = (const char *)memchr(*at, '\n', (size_t)(end - *at)), *last = newline ? newline + 1 : end;
  const char *colon = (const char *)memchr(*at, ':', (size_t)(last - *at)), *value = colon ? colon + 1 : last;
  *header = (Header){.name = *at, .name_size = colon ? (size_t)(colon - *at) : 0};
  *at = last;
  while (value < last && is_space(*value)) value++;
  while (last > value && is_space(last[-1])) last--;
  header->value = value;
  header->value_size = (size_t)(last - value);
  return true;
}

int response_headers(lua_State *L) {
  size_t size;
  const char *at = luaL_checklstring(L, 1, &size), *end = at + size;
  lua_createtable(L, 0, 8); /* about as many as there are */
  Header header;
  while (next_line(&at, end, &header)) {
    if (header.name_size == 0) continue;
    push_name(L, header.name, header.name_size);
    lua_pushlstring(L, header.value, header.value_size);
    add(L);
  }
  return 1;
}

static bool is_named(const Header *header, const char *name) {
  size_t size = strlen(name);
  return header->name_size == size && strncasecmp(header->name, name, size) == 0;
}

const char *response_find(const Bytes *head, const char *name, size_t *size) {
  const char *at = bytes_first(head), *end = at + bytes_length(head);
  Header header;
  while (next_line(&at, end, &header)) {
    if (!is_named(&header, name)) continue;
    *size = header.value_size;
    return header.value;
  }
  return NULL;
}

/* Moves to the next element of a list with commas. */
static bool next_element(const char **at, const char *end, Header *element) {
  if (*at > end) return false;
  const char *comma = (const char *)memchr(*at, ',', (size_t)(end - *at)), *last = comma ? comma : end;
  element->value = *at;
  *at = last + 1;
  while (element->value < last && is_space(*element->value)) element->value++;
  while (last > element->value && is_space(last[-1])) last--;
  element->value_size = (size_t)(last - element->value);
  return true;
}

bool response_has_one_length(const Transfer *t) {
  const char *at = bytes_first(&t->head), *end = at + bytes_length(&t->head);
  Header header, element, first = {0};
  while (next_line(&at, end, &header)) {
    if (!is_named(&header, "Content-Length")) continue;
    for (const char *next = header.value; next_element(&next, header.value + header.value_size, &element);) {
      if (!first.value) first = element;
      bool is_same = element.value_size == first.value_size;
      if (!is_same || memcmp(element.value, first.value, first.value_size) != 0) return false;
    }
  }
  size_t size;
  return !t->is_raw || !first.value || !response_find(&t->head, "Transfer-Encoding", &size);
}

bool response_is_only_chunked(const Transfer *t) {
  const char *at = bytes_first(&t->head), *end = at + bytes_length(&t->head);
  Header header, element;
  while (next_line(&at, end, &header)) {
    if (!is_named(&header, "Transfer-Encoding")) continue;
    for (const char *next = header.value; next_element(&next, header.value + header.value_size, &element);) {
      Header coding = {.name = element.value, .name_size = element.value_size};
      if (coding.name_size > 0 && !is_named(&coding, "chunked") && !is_named(&coding, "identity")) return false;
    }
  }
  return true;
}

/* ---- errors ---- */

/* The short names, for Lua: it makes an error of a timeout from "timeout". */
static const char *error_name(const Transfer *t) {
  switch ((int)t->code) {
  case CURLE_OPERATION_TIMEDOUT:
    return "timeout";
  case CURLE_OUT_OF_MEMORY:
    return "memory";
  default:
    return "failed";
  }
}

/* CURLE_TOO_LARGE, which libcurl has since 8.6. */
enum { TOO_LARGE = 100 };

/* The body has ended too early. */
static void note_missing(Transfer *t) {
  curl_off_t length = -1, size = 0;
  (void)curl_easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  (void)curl_easy_getinfo(t->easy, CURLINFO_SIZE_DOWNLOAD_T, &size);
  if (length <= size) return; /* uncovered: a body in chunks has no length */
  (void)snprintf(t->error, sizeof t->error, "transfer closed with %lld bytes remaining to read",
                 (long long)(length - size));
}

/* Whether the server may have done a request of which doing it twice is wrong. */
static bool may_be_done(const Transfer *t) {
  bool is_told = t->is_answered && !t->is_in_head;
  return !t->repeats && t->requests > 0 && !is_told && (t->refusal == REFUSED_NOT || t->refusal == REFUSED_HEAD);
}

/* Writes the user's message into Transfer.error, unless libcurl has. */
static void note_cause(Transfer *t) {
  size_t size = sizeof t->error;
  long number = 0;
  char why[128] = "";
  switch (t->refusal) {
  case REFUSED_BODY:
    (void)snprintf(t->error, size, "the body has more than %lld bytes", (long long)t->max);
    return;
  case REFUSED_HEADERS:
    (void)snprintf(t->error, size, "the headers have more than %d bytes", HEADERS_MAX);
    return;
  case REFUSED_LENGTHS:
    (void)snprintf(t->error, size,
                   "the response has a Content-Length, and beside it another one or a Transfer-Encoding");
    return;
  case REFUSED_WASTE:
    (void)snprintf(t->error, size, "the server has sent more than %d bytes that are neither headers nor body",
                   WASTE_MAX);
    return;
  case REFUSED_MEMORY:
    (void)snprintf(t->error, size, "not enough memory");
    return;
  case REFUSED_FILE:
    if (t->file_error && strerror_r(t->file_error, why, sizeof why) != 0) *why = 0;
    (void)snprintf(t->error, size, "a file to send %s%s",
                   t->file_error ? "cannot be read: " : "has become shorter since the request has begun", why);
    return;
  case REFUSED_AGAIN:
    (void)snprintf(t->error, size,
                   "the connection was closed before the response, and the request may have been done: it is not sent "
                   "again, since its method is not idempotent and it has no header Idempotency-Key");
    return;
  case REFUSED_CODING: {
    size_t length = 0;
    const char *coding = response_find(&t->head, "Content-Encoding", &length);
    (void)snprintf(t->error, size, "the body has the Content-Encoding \"%.*s\", which cannot be decompressed",
                   length < 40 ? (int)length : 40, coding ? coding : "");
    return;
  }
  /* seldom covered: newer releases of libcurl refuse this themselves */
  case REFUSED_CHUNKS: {
    size_t length = 0;
    const char *coding = response_find(&t->head, "Transfer-Encoding", &length);
    (void)snprintf(t->error, size, "the body has the Transfer-Encoding \"%.*s\", of which only chunked is understood",
                   length < 40 ? (int)length : 40, coding ? coding : "");
    return;
  }
  case REFUSED_DAMAGED:
    (void)snprintf(t->error, size, "the compressed body is damaged: %s", t->inflater->msg ? t->inflater->msg : "");
    return;
  case REFUSED_CUT:
    (void)snprintf(t->error, size, "the end of the compressed body is missing");
    return;
  case REFUSED_MORE:
    (void)snprintf(t->error, size, "Maximum (%lld) redirects followed", (long long)t->redirects);
    return;
  case REFUSED_HEAD:
    (void)snprintf(t->error, size, "the connection was closed before the headers of the response were complete");
    return;
  case REFUSED_NOT:
    break;
  }
  switch ((int)t->code) {
  case CURLE_COULDNT_CONNECT:
    number = t->socket_error;
    if (!number) (void)curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &number);
    if (number) {
      if (strerror_r((int)number, why, sizeof why) == 0) (void)snprintf(t->error, size, "cannot connect: %s", why);
    }
    return;
  case CURLE_PARTIAL_FILE:
    if (!*t->error) note_missing(t); /* libcurl has reported only an earlier, closed connection (transfer.c) */
    return;
  case CURLE_SEND_FAIL_REWIND:
    if (t->is_answered)
      (void)snprintf(t->error, size,
                     "the server wants the body again, after a redirect or with a login, and what came from a channel "
                     "can be sent only once: send it to the URL behind the redirect, or as a string or a file");
    else
      (void)snprintf(t->error, size,
                     "the connection was closed before the response: the request is not sent again, since what came "
                     "from a channel can be sent only once");
    return;
  case CURLE_TOO_MANY_REDIRECTS: /* redirect.c has counted those */
    (void)snprintf(t->error, size, "the server asks for a login again and again");
    return;
  case CURLE_SSL_CACERT_BADFILE:
    (void)snprintf(t->error, size,
                   "the certificates of authorities cannot be read: install the package ca-certificates, or give the "
                   "option cainfo the right file");
    return;
  case CURLE_OUT_OF_MEMORY: /* libcurl says the same of its own limit for a line */
    (void)snprintf(t->error, size, "not enough memory, or a line of the headers is too long");
    return;
  case TOO_LARGE:                  /* seldom covered: older releases of libcurl do not say so */
    (void)snprintf(t->error, size, /* seldom covered: see above */
                   "the headers have too many bytes, or a line of the headers is too long");
    return; /* seldom covered: see above */
  default:
    return;
  }
}

bool response_note_connection(Transfer *t) {
  static const CURLINFO infos[TIMES] = {CURLINFO_NAMELOOKUP_TIME_T, CURLINFO_CONNECT_TIME_T, CURLINFO_APPCONNECT_TIME_T,
                                        CURLINFO_STARTTRANSFER_TIME_T, CURLINFO_TOTAL_TIME_T};
  for (int i = 0; i < TIMES; i++) (void)curl_easy_getinfo(t->easy, infos[i], &t->times[i]);
  struct curl_certinfo *chain = NULL;
  if (t->wants_certificates) (void)curl_easy_getinfo(t->easy, CURLINFO_CERTINFO, &chain);
  for (int i = 0; chain && i < chain->num_of_certs; i++) {
    for (struct curl_slist *field = chain->certinfo[i]; field; field = field->next)
      if (!bytes_add(&t->certificates, field->data, strlen(field->data) + 1)) return false;
    if (!bytes_add(&t->certificates, "", 1)) return false;
  }
  return true;
}

void response_note_error(Transfer *t) {
  note_cause(t);
  if (!may_be_done(t)) return;
  if (!*t->error) (void)snprintf(t->error, sizeof t->error, "%s", curl_easy_strerror(t->code));
  size_t used = strlen(t->error);
  (void)snprintf(t->error + used, sizeof t->error - used, "; the request may have been done");
}

void response_push_error(lua_State *L, const Transfer *t) {
  lua_pushstring(L, error_name(t));
  lua_pushstring(L, *t->error ? t->error : curl_easy_strerror(t->code));
}
