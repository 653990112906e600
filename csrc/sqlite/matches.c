/* matches.c: the function runnel_matches(subject, pattern) of SQL: whether a subject of a stream matches a pattern, in
   which * stands for one word and > at the end for one or more. Words are separated by dots. (lua/runnel/queue/names.lua
   has the same function.) The thread that works. */
#include <string.h>

#include "sqlite/database.h"

/* The length of the word at the beginning of a text. */
static size_t word_length(const char *text) { return strcspn(text, "."); }

/* What follows the first word, which has this length, and its dot; NULL if there is no dot. */
static const char *after(const char *text, size_t length) { return text[length] ? text + length + 1 : NULL; }

static bool matches(const char *subject, const char *pattern) {
  while (subject && pattern) {
    size_t size = word_length(subject), expected = word_length(pattern);
    if (expected == 1 && *pattern == '>') return size > 0;
    bool is_any = expected == 1 && *pattern == '*';
    if (size == 0 || (!is_any && (size != expected || memcmp(subject, pattern, size) != 0))) return false;
    subject = after(subject, size);
    pattern = after(pattern, expected);
  }
  return !subject && !pattern;
}

static void call(sqlite3_context *context, int n, sqlite3_value **values) {
  const char *subject = (const char *)sqlite3_value_text(values[0]);
  const char *pattern = (const char *)sqlite3_value_text(values[1]);
  (void)n;
  sqlite3_result_int(context, subject && pattern && matches(subject, pattern));
}

int matches_add(sqlite3 *connection) {
  int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
  return sqlite3_create_function_v2(connection, "runnel_matches", 2, flags, NULL, call, NULL, NULL, NULL);
}
