/* subject.c: checks subjects: libnats checks little, and the server closes the connection of a client with malformed
   protocol lines. */
#include <limits.h>

#include "nats/conn.h"

/* Pushes a message about a byte of the subject. */
static bool complain(lua_State *L, const char *subject, const char *what, size_t at) {
  lua_pushfstring(L, "the subject \"%s\" has %s at byte %d", subject, what, (int)at + 1);
  return false;
}

/* Bytes that mean something, or are not allowed. */
static const bool IS_SPECIAL[UCHAR_MAX + 1] = {
    [0] = true,   [1] = true,   [2] = true,   [3] = true,   [4] = true,  [5] = true,  [6] = true,  [7] = true,
    [8] = true,   [9] = true,   [10] = true,  [11] = true,  [12] = true, [13] = true, [14] = true, [15] = true,
    [16] = true,  [17] = true,  [18] = true,  [19] = true,  [20] = true, [21] = true, [22] = true, [23] = true,
    [24] = true,  [25] = true,  [26] = true,  [27] = true,  [28] = true, [29] = true, [30] = true, [31] = true,
    [' '] = true, ['*'] = true, ['.'] = true, ['>'] = true, [127] = true};

bool subject_check(lua_State *L, const char *subject, size_t size, bool wildcards) {
  if (size == 0) {
    lua_pushliteral(L, "the subject is empty");
    return false;
  }
  size_t token = 0; /* where the token begins */
  for (size_t i = 0; i <= size; i++) {
    unsigned char c = i < size ? (unsigned char)subject[i] : '.';
    if (!IS_SPECIAL[c]) continue; /* most bytes */
    if (c == '.') {
      if (i == token) return complain(L, subject, "an empty part", i);
      token = i + 1;
    } else if (c == ' ') {
      return complain(L, subject, "a space", i);
    } else if (c < ' ' || c == 127) {
      return complain(L, subject, "a control character", i);
    } else if (c == '*' || c == '>') {
      bool is_token = i == token && (i + 1 == size || subject[i + 1] == '.');
      if (is_token && !wildcards) return complain(L, subject, "a wildcard, to which nothing can be sent,", i);
      if (is_token && c == '>' && i + 1 < size) return complain(L, subject, "a '>' before the last part", i);
    }
  }
  return true;
}
