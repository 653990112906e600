/* reply.c: see reply.h. */
#if defined(__linux__) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L /* NOLINT(bugprone-reserved-identifier): declares gmtime_r */
#endif
#include "http/server/reply.h"

#include <inttypes.h>
#include <stdio.h>

#include "http/server/head.h"

/* Statuses and their texts, a line each. */
static const char reasons[] =
    "101 Switching Protocols\n103 Early Hints\n200 OK\n201 Created\n202 Accepted\n203 Non-Authoritative Information\n204 No Content\n"
    "205 Reset Content\n206 Partial Content\n300 Multiple Choices\n"
    "301 Moved Permanently\n302 Found\n303 See Other\n304 Not Modified\n307 Temporary Redirect\n308 Permanent "
    "Redirect\n"
    "400 Bad Request\n401 Unauthorized\n403 Forbidden\n404 Not Found\n405 Method Not Allowed\n406 Not Acceptable\n"
    "408 Request Timeout\n409 Conflict\n410 Gone\n411 Length Required\n412 Precondition Failed\n413 Content Too Large\n"
    "414 URI Too Long\n"
    "415 Unsupported Media Type\n416 Range Not Satisfiable\n417 Expectation Failed\n421 Misdirected Request\n422 "
    "Unprocessable Content\n"
    "426 Upgrade Required\n428 Precondition Required\n429 Too Many Requests\n431 Request Header Fields Too Large\n451 "
    "Unavailable For Legal Reasons\n500 Internal Server Error\n"
    "501 Not Implemented\n502 Bad Gateway\n503 Service Unavailable\n504 Gateway Timeout\n"
    "505 HTTP Version Not Supported\n";

/* Writes the names of months and days in English, independent of the locale. */
static void write_date(ReplyDate *date, time_t now) {
  static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDecSunMonTueWedThuFriSat";
  struct tm tm;
  if (!gmtime_r(&now, &tm)) return;
  size_t day = 36 + 3 * (size_t)tm.tm_wday, month = 3 * (size_t)tm.tm_mon;
  (void)snprintf(date->text, sizeof date->text, "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT", names + day,
                 (unsigned)tm.tm_mday % 100, names + month, (unsigned)(tm.tm_year + 1900) % 10000,
                 (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
  date->second = now;
}

void reply_add(Reply *reply, const char *bytes, size_t size) {
  if (!reply->failed && !bytes_add(&reply->bytes, bytes, size)) reply->failed = true;
}

static void add(Reply *reply, const char *text) { reply_add(reply, text, strlen(text)); }

void reply_begin(Reply *reply, unsigned status, ReplyDate *date) {
  char line[32];
  reply->status = status;
  int size = snprintf(line, sizeof line, "HTTP/1.1 %u ", status);
  add(reply, line);
  const char *reason = strstr(reasons, line + size - 4); /* the status and a space */
  if (reason) reply_add(reply, reason + 4, strcspn(reason + 4, "\n"));
  add(reply, "\r\n");
  if (!date) return;
  time_t now = time(NULL);
  if (now != date->second) write_date(date, now);
  reply_field(reply, "Date", date->text);
}

void reply_field(Reply *reply, const char *name, const char *value) {
  add(reply, name);
  add(reply, ": ");
  add(reply, value);
  add(reply, "\r\n");
}

void reply_length(Reply *reply, uint64_t length) {
  char line[48];
  (void)snprintf(line, sizeof line, "Content-Length: %" PRIu64 "\r\n", length);
  add(reply, line);
}

void reply_end(Reply *reply) { add(reply, "\r\n"); }

bool reply_is_field(const char *name, const char *value) {
  return *name && slice_all((Slice){name, strlen(name)}, head_is_token) &&
         slice_all((Slice){value, strlen(value)}, head_is_value);
}
