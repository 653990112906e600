/* json/decode.c: a text becomes a value. Lua guarantees a zero behind the text; no rule accepts one. */
#include <math.h>
#include <string.h>

#include "json/json.h"

/* A call of decode. */
typedef struct Decoder {
  lua_State *L;
  const char *p, *end; /* the next byte; the end of the text */
  const char *problem; /* what is wrong, and where; NULL until then */
  const char *at;
  int depth; /* of the arrays and objects around the present value */
} Decoder;

/* Says what is wrong. Returns false, as does each function below then. */
static bool bad(Decoder *d, const char *at, const char *problem) {
  d->problem = problem;
  d->at = at;
  return false;
}

static inline void skip_spaces(Decoder *d) {
  while (*d->p == ' ' || *d->p == '\n' || *d->p == '\r' || *d->p == '\t') d->p++;
}

/* Whether the next byte is `mark`, which is skipped then with the spaces behind it. */
static inline bool skip(Decoder *d, char mark) {
  if (*d->p != mark) return false;
  d->p++;
  skip_spaces(d);
  return true;
}

/* The number that the four hexadecimal digits at `p` write, or -1. */
static long four_digits(const char *p) {
  static const char digits[] = "0123456789abcdef0123456789ABCDEF";
  long code = 0;
  for (int i = 0; i < 4; i++) {
    const char *digit = p[i] ? strchr(digits, p[i]) : NULL;
    if (!digit) return -1;
    code = code * 16 + (digit - digits) % 16;
  }
  return code;
}

/* Adds the character of the escape that is next. */
static bool read_escape(Decoder *d, luaL_Buffer *b) {
  static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  const char *at = d->p, *name = at[1] ? strchr(names, at[1]) : NULL;
  if (name) {
    luaL_addchar(b, meanings[name - names]);
    d->p += 2;
    return true;
  }
  if (at[1] != 'u') return bad(d, at, "an unknown escape");
  long code = four_digits(at + 2);
  if (code < 0) return bad(d, at, "\\u without four hexadecimal digits");
  d->p += 6;
  if (code >= 0xD800 && code <= 0xDFFF) {
    long second = code < 0xDC00 && at[6] == '\\' && at[7] == 'u' ? four_digits(at + 8) : -1;
    if (second < 0xDC00 || second > 0xDFFF)
      return bad(d, at, "half of a surrogate pair, which stands for no character,");
    code = 0x10000 + (code - 0xD800) * 0x400 + second - 0xDC00;
    d->p += 6;
  }
  lua_pushfstring(d->L, "%U", code);
  luaL_addvalue(b);
  return true;
}

/* Pushes the string whose quote is the next byte. */
static bool read_string(Decoder *d) {
  const char *quote = d->p++;
  luaL_Buffer b;
  for (bool has_escapes = false;;) {
    const char *from = d->p;
    while ((unsigned char)*d->p >= 32 && *d->p != '"' && *d->p != '\\') d->p++;
    size_t n = (size_t)(d->p - from);
    if (*d->p == '"' && !has_escapes) lua_pushlstring(d->L, from, n);
    else {
      if (!has_escapes) luaL_buffinit(d->L, &b);
      has_escapes = true;
      luaL_addlstring(&b, from, n);
      if (d->p == d->end) return bad(d, quote, "a string without its end");
      if ((unsigned char)*d->p < 32) return bad(d, d->p, "a control character in a string");
      if (*d->p == '\\') {
        if (!read_escape(d, &b)) return false;
        continue;
      }
      luaL_pushresult(&b);
    }
    d->p++;
    return true;
  }
}

/* Reads digits at `p` into *value, which stays below 10^19, and counts them. Returns what follows them. */
static inline const char *read_digits(const char *p, uint64_t *value, size_t *n) {
  const char *from = p;
  for (; *p >= '0' && *p <= '9'; p++)
    if (*value < UINT64_C(1000000000000000000)) *value = *value * 10 + (uint64_t)(*p - '0');
  *n = (size_t)(p - from);
  return p;
}

/* Pushes the number that is next. */
static bool read_number(Decoder *d) {
  const char *from = d->p;
  bool is_negative = *from == '-';
  uint64_t digits = 0, exponent = 0;
  size_t n, nfraction = 0, nexponent;
  const char *p = read_digits(from + is_negative, &digits, &n);
  if (!n && from == d->end) return bad(d, from, "the text ends too early");
  if (!n) return bad(d, from, strncmp(from, "\xEF\xBB\xBF", 3) == 0 ? "a byte order mark" : "expected a value");
  bool has_point = *p == '.';
  if (has_point) p = read_digits(p + 1, &digits, &nfraction);
  bool has_exponent = *p == 'e' || *p == 'E';
  p += has_exponent;
  bool is_small = *p == '-', has_sign = is_small || *p == '+';
  p = read_digits(p + has_sign, &exponent, &nexponent);
  if ((n > 1 && from[is_negative] == '0') || has_point != (nfraction > 0) || has_exponent != (nexponent > 0) ||
      has_sign > has_exponent)
    return bad(d, from, "expected a value");
  d->p = p;
  if (!has_point && !has_exponent && n <= 19 && digits <= (uint64_t)LUA_MAXINTEGER + is_negative) {
    lua_pushinteger(d->L, (lua_Integer)(is_negative ? 0 - digits : digits));
    return true;
  }
  if (exponent > 1000000000) exponent = 1000000000; /* no text has more digits */
  if (n + nfraction > 18) digits = UINT64_MAX;      /* these are not all */
  json_push_float(d->L, from, p, digits, nfraction, is_small ? -(long)exponent : (long)exponent);
  return isfinite(lua_tonumber(d->L, -1)) || bad(d, from, "a number that is too large");
}

static bool read_word(Decoder *d) {
  const char *from = d->p;
  while ((*d->p | 32) >= 'a' && (*d->p | 32) <= 'z') d->p++;
  size_t n = (size_t)(d->p - from);
  if (n == 4 && memcmp(from, "null", 4) == 0) lua_pushvalue(d->L, JSON_NULL);
  else if (n == 4 && memcmp(from, "true", 4) == 0) lua_pushboolean(d->L, true);
  else if (n == 5 && memcmp(from, "false", 5) == 0) lua_pushboolean(d->L, false);
  else return bad(d, from, "an unknown word");
  return true;
}

static bool read_value(Decoder *d);

static bool read_array(Decoder *d) {
  lua_newtable(d->L);
  lua_pushvalue(d->L, JSON_ARRAY);
  lua_setmetatable(d->L, -2);
  if (skip(d, ']')) return true;
  for (lua_Integer i = 1;; i++) {
    if (!read_value(d)) return false;
    lua_rawseti(d->L, -2, i);
    if (skip(d, ']')) return true;
    if (!skip(d, ',')) return bad(d, d->p, "expected , or ]");
  }
}

static bool read_object(Decoder *d) {
  lua_newtable(d->L);
  if (skip(d, '}')) return true;
  for (;;) {
    if (*d->p != '"') return bad(d, d->p, "expected a key");
    if (!read_string(d)) return false;
    skip_spaces(d);
    if (!skip(d, ':')) return bad(d, d->p, "expected :");
    if (!read_value(d)) return false;
    lua_rawset(d->L, -3);
    if (skip(d, '}')) return true;
    if (!skip(d, ',')) return bad(d, d->p, "expected , or }");
  }
}

/* Pushes the value that is next, and skips the spaces behind it. */
static bool read_value(Decoder *d) {
  char c = *d->p;
  bool is_good;
  if (c == '"') is_good = read_string(d);
  else if (c == '[' || c == '{') {
    if (d->depth == JSON_DEEPEST) return bad(d, d->p, "nested too deeply");
    luaL_checkstack(d->L, 6, "JSON");
    d->depth++;
    skip(d, c);
    is_good = c == '[' ? read_array(d) : read_object(d);
    d->depth--;
  } else is_good = (c | 32) >= 'a' && (c | 32) <= 'z' ? read_word(d) : read_number(d);
  skip_spaces(d);
  return is_good;
}

int json_decode(lua_State *L) {
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  Decoder d = {.L = L, .p = text, .end = text + size};
  const char *wrong = json_not_utf8(text, size);
  skip_spaces(&d);
  if (wrong) bad(&d, wrong, "a byte that is not UTF-8");
  else if (read_value(&d) && d.p < d.end) bad(&d, d.p, "text after the value");
  if (!d.problem) return 1;
  lua_pushnil(L);
  lua_pushstring(L, d.problem);
  lua_pushinteger(L, d.at - text + 1);
  return 3;
}
