/* transfer.c: a request: its state, and libcurl's callbacks in the thread. See client.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/client/client.h"

/* ---- the end ---- */

/* Whether libcurl has sent the request again, because the server had closed a kept connection. It counts these times
   while the easy handle is used, and fails at the sixth. */
static bool was_sent_again(const Transfer *t) {
  long redirects = 0;
  (void)curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_COUNT, &redirects);
  return t->requests > redirects + 1;
}

/* Keeps an easy handle for reuse; false if it must be freed. */
static bool keep_easy(Transfer *t) {
  Client *client = t->client;
  if (t->is_special || t->code != CURLE_OK || !t->easy || was_sent_again(t)) return false;
  client_lock(client);
  bool is_kept = client->nspare < SPARE_HANDLES;
  if (is_kept) client->spare[client->nspare++] = t->easy;
  client_unlock(client);
  return is_kept;
}

void transfer_free_easy(Transfer *t) {
  if (!keep_easy(t)) curl_easy_cleanup(t->easy);
  t->easy = NULL;
  if (t->cookies) handle_release(t->cookies);
  t->cookies = NULL;
  curl_mime_free(t->mime);
  t->mime = NULL;
  decode_end(t);
  curl_slist_free_all(t->headers);
  t->headers = NULL;
  for (; t->nlists > 0; t->nlists--) curl_slist_free_all(t->lists[t->nlists - 1]);
  if (t->file) sent_file_free(t->file);
  t->file = NULL;
}

void transfer_free(void *transfer) {
  Transfer *t = (Transfer *)transfer;
  transfer_free_easy(t); /* if it was never started */
  bytes_free(&t->head);
  bytes_free(&t->body);
  bytes_free(&t->trailers);
  bytes_free(&t->feed);
  bytes_free(&t->hints);
  bytes_free(&t->taken);
  bytes_free(&t->certificates);
  free(t->url);
  handle_release(t->client);
  free(t);
}

/* ---- what libcurl calls ---- */

static bool begins_with(const char *line, size_t size, const char *start) {
  size_t n = strlen(start);
  return size >= n && strncasecmp(line, start, n) == 0;
}

/* The headers of the last response are complete. */
static void end_head(Transfer *t, long status) {
  t->status = status;
  atomic_store(&t->has_head, true);
  if (t->is_stream) transfer_tell(t);
}

static long status_of(const Transfer *t) {
  long status = 0;
  (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

/* Keeps early hints for Lua. False if they are refused. */
static bool keep_hints(Transfer *t) {
  if (!t->wants_hints) return true;
  client_lock(t->client);
  bool is_kept = bytes_add(&t->hints, bytes_first(&t->head), bytes_length(&t->head)) && bytes_add(&t->hints, "\n", 1);
  client_unlock(t->client);
  if (is_kept) transfer_tell(t);
  return is_kept || transfer_refuse(t, REFUSED_MEMORY);
}

/* The headers of a response are complete. libcurl may answer it with a further request; if that is unknown, the first
   byte of the body tells. False if it is refused. */
static bool end_response_head(Transfer *t) {
  long status = status_of(t);
  t->is_in_head = false;
  if (status == 103) return keep_hints(t);
  if (status < 200) return true;
  if (!response_has_one_length(t)) return transfer_refuse(t, REFUSED_LENGTHS);
  if (t->method != METHOD_HEAD && !response_is_only_chunked(t)) return transfer_refuse(t, REFUSED_CHUNKS);
  size_t size = 0;
  const char *location = t->follows && status_redirects(status) ? response_find(&t->head, "Location", &size) : NULL;
  if (location && size > 0) return redirect_prepare(t, status, location, size); /* an empty one leads nowhere */
  if (status == 417) return redirect_drop_expect(t);
  if (!t->logs_in || (status != 401 && status != 407)) end_head(t, status);
  return true;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* Adds a line to the headers. One that begins with a space continues the previous line: RFC 9112, 5.2, replaces the
   line break by a space. */
static bool add_line(Bytes *head, const char *line, size_t size) {
  if (is_blank(*line)) {
    while (head->to > 0 && strchr(" \t\r\n", head->start[head->to - 1])) head->to--;
    for (; size > 0 && is_blank(*line); size--) line++;
    if (!bytes_add(head, " ", 1)) return false;
  }
  return bytes_add(head, line, size);
}

/* A response begins. libcurl would follow the Location of any status from 300 to 399. */
static void begin_response(Transfer *t) {
  bytes_clear(&t->head);
  bytes_clear(&t->trailers);
  long status = status_of(t);
  t->is_answered = status >= 200;
  t->is_in_head = true;
  if (t->follows) (void)curl_easy_setopt(t->easy, CURLOPT_FOLLOWLOCATION, status_redirects(status) ? 1L : 0L);
}

/* CURLOPT_HEADERFUNCTION: a line of the headers, with its end. */
static size_t on_header(char *line, size_t one, size_t size, void *data) {
  Transfer *t = (Transfer *)data;
  (void)one;
  t->header_bytes += size;
  if (t->header_bytes > HEADERS_MAX) return transfer_refuse(t, REFUSED_HEADERS);
  transfer_allow_waste(t, size);
  if (!atomic_load(&t->has_head) && begins_with(line, size, "HTTP/")) { /* the status line of a response */
    begin_response(t);
    return size;
  }
  if (!t->is_in_head) return add_line(&t->trailers, line, size) ? size : transfer_refuse(t, REFUSED_MEMORY);
  if (size <= 2 && (*line == '\r' || *line == '\n')) return end_response_head(t) ? size : 0;
  return add_line(&t->head, line, size) ? size : transfer_refuse(t, REFUSED_MEMORY);
}

/* The body begins. False if it is refused. */
static bool begin_body(Transfer *t) {
  t->has_body = true;
  if (!atomic_load(&t->has_head)) end_head(t, status_of(t));
  if (!decode_begin(t)) return false;
  curl_off_t length = -1; /* libcurl's own limit also counts the length that a response to HEAD announces */
  (void)curl_easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  return !t->max || length <= t->max || t->inflater || transfer_refuse(t, REFUSED_BODY);
}

/* CURLOPT_WRITEFUNCTION: a part of the body. */
static size_t on_body(char *from, size_t one, size_t size, void *data) {
  Transfer *t = (Transfer *)data;
  (void)one;
  if (!t->has_body && !begin_body(t)) return 0;
  if (t->is_stream && transfer_waits(t)) return CURL_WRITEFUNC_PAUSE;
  if (t->inflater) return decode_body(t, from, size);
  return transfer_keep_body(t, from, size) ? size : 0;
}

/* CURLOPT_READFUNCTION for Lua's upload. */
static size_t read_fed(char *to, size_t one, size_t size, void *data) {
  Transfer *t = (Transfer *)data;
  (void)one;
  client_lock(t->client);
  bool was_full = bytes_length(&t->feed) >= ENOUGH;
  size_t n = bytes_take(&t->feed, to, size);
  bool tells = was_full && bytes_length(&t->feed) < ENOUGH;
  bool waits = n == 0 && !t->fed_all;
  if (waits) t->no_send = true;
  client_unlock(t->client);
  if (tells) transfer_tell(t);
  return waits ? CURL_READFUNC_PAUSE : n;
}

/* CURLOPT_OPENSOCKETFUNCTION: child processes must not inherit the socket. */
static curl_socket_t open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address) {
  Transfer *t = (Transfer *)data;
  (void)purpose;
#if defined(SOCK_CLOEXEC)
  int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
#else
  int fd = socket(address->family, address->socktype, address->protocol);
  if (fd >= 0) (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
#endif
  t->socket_error = fd < 0 ? errno : 0;
  return fd;
}

#if LIBCURL_VERSION_NUM >= 0x075000
/* CURLOPT_PREREQFUNCTION: there is a connection, and the request is about to be sent. */
/* NOLINTNEXTLINE(readability-non-const-parameter): that is its type */
static int before_request(void *data, char *to, char *from, int to_port, int from_port) {
  Transfer *t = (Transfer *)data;
  (void)to, (void)from, (void)to_port, (void)from_port;
  if (t->requests > 0 && !t->is_answered && !t->repeats) {
    t->refusal = REFUSED_AGAIN;
    return CURL_PREREQFUNC_ABORT;
  }
  t->requests++;
  t->is_answered = false;
#if LIBCURL_VERSION_NUM >= 0x080200
  (void)curl_easy_getinfo(t->easy, CURLINFO_CONN_ID, &t->connection); /* unknown once the transfer is done */
#endif
  *t->error = 0; /* libcurl keeps the first text: that of the closed connection */
  return CURL_PREREQFUNC_OK;
}

static void count_requests(Transfer *t) {
  (void)curl_easy_setopt(t->easy, CURLOPT_PREREQFUNCTION, before_request);
  (void)curl_easy_setopt(t->easy, CURLOPT_PREREQDATA, (void *)t);
}
#else
/* Older releases do not tell when they send a request, so what must not be sent again gets a new connection, on which
   they never do so. */
static void count_requests(Transfer *t) {
  t->requests = LONG_MAX; /* unknown: as if it was sent again */
  if (!t->repeats) (void)curl_easy_setopt(t->easy, CURLOPT_FRESH_CONNECT, 1L);
}
#endif

void transfer_set_callbacks(Transfer *t) {
  CURL *easy = t->easy;
  (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, (void *)t);
  (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->error);
  (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
  (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, (void *)t);
  (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
  (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, (void *)t);
  (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
  (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, (void *)t);
  count_requests(t);
  if (!t->is_fed && !t->file) return;
  (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, t->is_fed ? read_fed : sent_file_read);
  (void)curl_easy_setopt(easy, CURLOPT_READDATA, t->is_fed ? (void *)t : (void *)t->file);
  if (t->is_fed) return;
  (void)curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, sent_file_seek);
  (void)curl_easy_setopt(easy, CURLOPT_SEEKDATA, (void *)t->file);
}
