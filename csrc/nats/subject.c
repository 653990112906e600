/* subject.c: which subjects are valid: libnats checks little, and the server closes the connection of a client whose
   protocol lines it cannot read. */
#include <ctype.h>

#include "nats/conn.h"

/* Pushes a message about a byte of the subject. */
static bool complain(lua_State *L, const char *subject, const char *what, size_t at) {
  lua_pushfstring(L, "the subject \"%s\" has %s at byte %d", subject, what, (int)at + 1);
  return false;
}

bool subject_check(lua_State *L, const char *subject, size_t size, bool wildcards) {
  if (size == 0) {
    lua_pushliteral(L, "the subject is empty");
    return false;
  }
  size_t token = 0; /* where the token begins */
  for (size_t i = 0; i <= size; i++) {
    unsigned char c = i < size ? (unsigned char)subject[i] : '.';
    if (c > '>' && c != 127) continue; /* most bytes */
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
