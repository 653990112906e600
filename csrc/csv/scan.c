/* scan.c: splits text into records and fields. Strict: quotes only around a whole field, doubled within it; a carriage
   return only before a newline. */
#include <stdbool.h>
#include <string.h>

#include <lauxlib.h>

#include "csv/csv.h"

enum { MOST = 256 }; /* records of a call, each with its line */

/* Where a scan is. */
typedef struct Scan {
  const char *text, *end; /* all of it */
  const char *at;         /* the next byte */
  char separator;         /* between fields */
  bool is_whole;          /* nothing comes behind the end */
  bool in_quotes;         /* the text ends within the quotes of a field */
  lua_Integer lines;      /* newlines before `at`, from the record's begin */
  const char *mistake;    /* what is wrong; NULL: nothing is */
} Scan;

/* How a field ends. */
typedef enum Ending { END_FIELD, END_RECORD, END_PARTIAL, END_WRONG } Ending;

static Ending wrong(Scan *s, const char *mistake) {
  s->mistake = mistake;
  return END_WRONG;
}

/* What is behind a field: a separator, a newline, the end of the text, or a mistake. */
static Ending ending(Scan *s, const char *mistake) {
  if (s->at == s->end) return s->is_whole ? END_RECORD : END_PARTIAL;
  char c = *s->at;
  if (c == s->separator) {
    s->at++;
    return END_FIELD;
  }
  if (c == '\r') {
    if (s->at + 1 == s->end && !s->is_whole) return END_PARTIAL;
    if (s->at + 1 == s->end || s->at[1] != '\n') return wrong(s, "a carriage return without a newline");
    s->at++;
    c = '\n';
  }
  if (c != '\n') return wrong(s, mistake);
  s->at++;
  s->lines++;
  return END_RECORD;
}

/* Pushes a field in quotes, of which `at` is behind the first one. */
static Ending quoted(lua_State *L, Scan *s) {
  const char *start = s->at;
  luaL_Buffer buffer;
  bool has_buffer = false; /* only with a doubled quote */
  for (;;) {
    const char *quote = memchr(start, '"', (size_t)(s->end - start));
    if (!quote || (quote + 1 == s->end && !s->is_whole)) {
      if (has_buffer) luaL_pushresult(&buffer);
      else lua_pushliteral(L, "");
      s->in_quotes = !quote;
      return s->is_whole ? wrong(s, "the quotes of a field are not closed") : END_PARTIAL;
    }
    if (quote + 1 == s->end || quote[1] != '"') {
      size_t size = (size_t)(quote - start);
      if (has_buffer) {
        luaL_addlstring(&buffer, start, size);
        luaL_pushresult(&buffer);
      } else {
        lua_pushlstring(L, start, size);
      }
      for (const char *p = s->at; (p = memchr(p, '\n', (size_t)(quote - p))); p++) s->lines++;
      s->at = quote + 1;
      return ending(s, "something behind the quotes of a field");
    }
    if (!has_buffer) luaL_buffinit(L, &buffer);
    has_buffer = true;
    luaL_addlstring(&buffer, start, (size_t)(quote + 1 - start));
    start = quote + 2;
  }
}

/* Pushes a field without quotes. */
static Ending plain(lua_State *L, Scan *s) {
  const char *start = s->at, *p = start, *end = s->end;
  char separator = s->separator;
  while (p < end && *p != separator && *p != '\n' && *p != '\r' && *p != '"') p++;
  lua_pushlstring(L, start, (size_t)(p - start));
  s->at = p;
  return ending(s, "a quote within a field without quotes");
}

/* Pushes a record as a list. Returns how its last field ends; `count` is how many it has. `guess`: how many it may have. */
static Ending record(lua_State *L, Scan *s, int guess, lua_Integer *count) {
  Ending how;
  lua_createtable(L, guess, 0);
  *count = 0;
  do {
    if (s->at < s->end && *s->at == '"') {
      s->at++;
      how = quoted(L, s);
    } else {
      how = plain(L, s);
    }
    lua_rawseti(L, -2, ++*count);
  } while (how == END_FIELD);
  return how;
}

/* Whether an empty line is next, which is skipped. */
static bool skips(Scan *s) {
  size_t size = (size_t)(s->end - s->at);
  size_t newline = size > 0 && s->at[0] == '\n' ? 1 : size > 1 && s->at[0] == '\r' && s->at[1] == '\n' ? 2 : 0;
  s->at += newline;
  return newline > 0;
}

/* How long a record is, without the newline at its end. */
static lua_Integer length(const char *from, const char *to) {
  if (to > from && to[-1] == '\n') to--;
  if (to > from && to[-1] == '\r') to--;
  return to - from;
}

int csv_scan(lua_State *L) {
  size_t size, width;
  const char *text = luaL_checklstring(L, 1, &size);
  lua_Integer from = luaL_checkinteger(L, 2);
  luaL_argcheck(L, from >= 1 && (lua_Unsigned)from <= size + 1, 2, "not a position in the text");
  const char *separator = luaL_checklstring(L, 3, &width);
  luaL_argcheck(L, width == 1, 3, "one byte expected");
  lua_Integer fields = luaL_checkinteger(L, 5), max = luaL_checkinteger(L, 7), lines = 0, count = 0;
  bool ragged = lua_toboolean(L, 6);
  Scan s = {.text = text,
            .end = text + size,
            .at = text + from - 1,
            .separator = *separator,
            .is_whole = lua_toboolean(L, 4)};
  const char *done = s.at;
  lua_settop(L, 3);
  lua_createtable(L, 16, 0);
  for (lua_Integer n = 0; n < MOST && s.at < s.end;) {
    if (skips(&s)) {
      lines++;
      done = s.at;
      continue;
    }
    s.lines = 0;
    Ending how = record(L, &s, fields < 1000 ? (int)fields : 1000, &count);
    if (how == END_PARTIAL) break;
    if (how == END_WRONG) break;
    bool is_long = length(done, s.at) > max;
    if (fields == 0 && !is_long) fields = count;
    if (is_long || (count != fields && !ragged)) {
      if (is_long) lua_pushfstring(L, "a record is longer than %I bytes; the option max allows longer ones", max);
      else lua_pushfstring(L, "%I fields, but the first record has %I", count, fields);
      s.mistake = lua_tostring(L, -1);
      s.lines = 0;
      lua_replace(L, 3);
      break;
    }
    lua_rawseti(L, 4, 2 * n + 1);
    lua_pushinteger(L, lines);
    lua_rawseti(L, 4, 2 * ++n);
    lines += s.lines;
    done = s.at;
  }
  lua_settop(L, 4);
  lua_pushinteger(L, done - text + 1);
  lua_pushinteger(L, lines);
  lua_pushinteger(L, fields);
  lua_pushboolean(L, s.in_quotes);
  if (!s.mistake) return 5;
  lua_pushstring(L, s.mistake);
  lua_pushinteger(L, s.lines);
  return 7;
}
