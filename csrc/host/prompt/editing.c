/* editing.c: see editing.h. */
#include "host/prompt/editing.h"

#include <stdlib.h>

bool editing_call(lua_State *L, const char *name, char *text, char *second, int n) {
  bool is_good = text != NULL;
  if (is_good) {
    lua_getfield(L, LUA_REGISTRYINDEX, EDITING_HANDLERS);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
    lua_pushstring(L, text);
    lua_pushstring(L, second);
    is_good = lua_pcall(L, 2, n, 0) == LUA_OK;
    if (!is_good) lua_pop(L, 1);
  }
  free(text);
  free(second);
  return is_good;
}

const wchar_t *editing_begin_of_line(const LineInfoW *line, const wchar_t *at) {
  while (at > line->buffer && at[-1] != L'\n') at--;
  return at;
}

char *editing_text(const Editing *ed) {
  const LineInfoW *line = el_wline(ed->el);
  return utf8_from_wide(line->buffer, (size_t)(line->lastchar - line->buffer));
}

char *editing_text_before(const Editing *ed) {
  const LineInfoW *line = el_wline(ed->el);
  return utf8_from_wide(line->buffer, (size_t)(line->cursor - line->buffer));
}
