/* traceback.c: see traceback.h. */
#include "errors/traceback.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Levels that are shown: the innermost and the outermost, as in luaL_traceback. */
enum { INNERMOST = 10, OUTERMOST = 11 };

enum {
  MAX_NAME = 200,                            /* bytes of the name of a function that are shown */
  MAX_LINE = MAX_NAME + 2 * LUA_IDSIZE + 80, /* bytes of a line */
  MAX_TEXT = (INNERMOST + OUTERMOST + 2) * MAX_LINE
};

typedef struct Text {
  size_t length;
  char bytes[MAX_TEXT];
} Text;

/* snprintf has written `n` bytes behind the text, or would have if there were room. */
static void advance(Text *text, int n) {
  size_t room = sizeof text->bytes - text->length;
  if (n > 0) text->length += (size_t)n < room ? (size_t)n : room - 1;
}

/* Appends to the text what snprintf makes of the other arguments. */
#define APPEND(text, ...)                                                                                              \
  advance(text, snprintf((text)->bytes + (text)->length, sizeof((text)->bytes) - (text)->length, __VA_ARGS__))

/* The string at index i, or NULL for anything else: never converts a number, which would allocate. */
static const char *string_at(lua_State *L, int i) { return lua_type(L, i) == LUA_TSTRING ? lua_tostring(L, i) : NULL; }

/* Writes the name of the function on top of L, if it is in package.loaded, which is below it, or is a field of a module
   there. Returns whether it is. */
static bool append_global(lua_State *L, Text *text) {
  int function = lua_gettop(L), loaded = function - 1;
  for (lua_pushnil(L); lua_next(L, loaded); lua_pop(L, 1)) {
    const char *module = string_at(L, -2);
    if (module && lua_rawequal(L, -1, function)) {
      APPEND(text, "function '%.*s'", MAX_NAME, module);
      return true;
    }
    if (!module || !lua_istable(L, -1)) continue;
    bool is_global = strcmp(module, LUA_GNAME) == 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
      const char *field = string_at(L, -2);
      if (!field || !lua_rawequal(L, -1, function)) continue;
      if (is_global) APPEND(text, "function '%.*s'", MAX_NAME, field);
      else APPEND(text, "function '%.*s.%.*s'", MAX_NAME / 2, module, MAX_NAME / 2, field);
      return true;
    }
  }
  return false;
}

/* Writes how the function of a level is called; package.loaded is on top of L. Allocates nothing. */
static void append_function(lua_State *L, Text *text, lua_Debug *ar) {
  int top = lua_gettop(L);
  bool has_modules = lua_istable(L, top);
  lua_getinfo(L, "f", ar);
  if (has_modules && append_global(L, text)) {
    /* written */
  } else if (*ar->namewhat != '\0') {
    APPEND(text, "%s '%.*s'", ar->namewhat, MAX_NAME, ar->name);
  } else if (*ar->what == 'm') {
    APPEND(text, "main chunk");
  } else if (*ar->what != 'C') {
    APPEND(text, "function <%s:%d>", ar->short_src, ar->linedefined);
  } else {
    APPEND(text, "?");
  }
  lua_settop(L, top);
}

int traceback_count_levels(lua_State *co) {
  lua_Debug ar;
  int low = 0, high = 1;
  while (lua_getstack(co, high, &ar)) {
    low = high;
    high *= 2;
  }
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (lua_getstack(co, middle, &ar)) low = middle + 1;
    else high = middle;
  }
  return high;
}

void traceback_push(lua_State *L, lua_State *co) {
  Text text = {.length = 0};
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE); /* allocates: before the stack is read */
  APPEND(&text, "stack traceback:");
  int levels = traceback_count_levels(co);
  lua_Debug ar;
  for (int level = 0; level < levels && lua_getstack(co, level, &ar); level++) {
    int skipped = levels - INNERMOST - OUTERMOST;
    if (level == INNERMOST && skipped > 0) {
      APPEND(&text, "\n\t...\t(skipping %d levels)", skipped);
      level += skipped - 1;
      continue;
    }
    lua_getinfo(co, "Slnt", &ar);
    APPEND(&text, "\n\t%s:", ar.short_src);
    if (ar.currentline > 0) APPEND(&text, "%d:", ar.currentline);
    APPEND(&text, " in ");
    append_function(L, &text, &ar);
    if (ar.istailcall) APPEND(&text, "\n\t(...tail calls...)");
  }
  lua_pop(L, 1);
  lua_pushlstring(L, text.bytes, text.length);
}
