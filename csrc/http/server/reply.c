/* reply.c: see reply.h. */
#if defined(__linux__) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L /* NOLINT(bugprone-reserved-identifier): declares gmtime_r */
#endif
#include "http/server/reply.h"

#include <inttypes.h>
#include <stdio.h>

#include "http/server/head.h"

static const char *reason_of(unsigned status) {
  static const struct {
    unsigned status;
    const char *text;
  } reasons[] = {
      {101, "Switching Protocols"},
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {206, "Partial Content"},
      {301, "Moved Permanently"},
      {302, "Found"},
      {303, "See Other"},
      {304, "Not Modified"},
      {307, "Temporary Redirect"},
      {308, "Permanent Redirect"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {406, "Not Acceptable"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {410, "Gone"},
      {412, "Precondition Failed"},
      {413, "Content Too Large"},
      {415, "Unsupported Media Type"},
      {416, "Range Not Satisfiable"},
      {417, "Expectation Failed"},
      {422, "Unprocessable Content"},
      {426, "Upgrade Required"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
  };
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
    if (reasons[i].status == status) return reasons[i].text;
  }
  return "Status";
}

/* The name of months and days, in English whatever the locale. */
static void write_date(ReplyDate *date, time_t now) {
  static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDecSunMonTueWedThuFriSat";
  struct tm tm;
  if (!gmtime_r(&now, &tm)) return;
  (void)snprintf(date->text, sizeof date->text, "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT", names + 36 + 3 * tm.tm_wday,
                 (unsigned)tm.tm_mday % 100, names + 3 * tm.tm_mon, (unsigned)(tm.tm_year + 1900) % 10000,
                 (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
  date->second = now;
}

void reply_add(Reply *reply, const char *bytes, size_t size) {
  if (!reply->failed && !bytes_add(&reply->bytes, bytes, size)) reply->failed = true;
}

static void add(Reply *reply, const char *text) { reply_add(reply, text, strlen(text)); }

void reply_begin(Reply *reply, unsigned status, ReplyDate *date) {
  char line[64];
  (void)snprintf(line, sizeof line, "HTTP/1.1 %u %s\r\n", status, reason_of(status));
  add(reply, line);
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
