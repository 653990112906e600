/* traceback.c: see traceback.h. */
#include "errors/traceback.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/compat.h"

/* Levels that are shown: the innermost and the outermost, as in luaL_traceback. */
enum { INNERMOST = 10, OUTERMOST = 11, SHOWN = INNERMOST + OUTERMOST };

enum {
  MAX_DIGITS = 3 * sizeof(int) + 1,
  MAX_NAME = 200,                                /* bytes of a name that are shown */
  MAX_LINE = 2 * MAX_NAME + 2 * LUA_IDSIZE + 80, /* bytes of a line */
  MAX_TEXT = (SHOWN + 2) * MAX_LINE
};

/* ---- the text ---- */

typedef struct Text {
  size_t length;
  char bytes[MAX_TEXT]; /* only the text is set: to set all takes longer than to write it */
} Text;

static void append(Text *text, const char *const *strings) {
  for (; *strings; strings++) {
    size_t room = sizeof text->bytes - text->length, length = strnlen(*strings, MAX_NAME < room ? MAX_NAME : room);
    memcpy(text->bytes + text->length, *strings, length);
    text->length += length;
  }
}

/* Appends strings, each cut to MAX_NAME. Takes a fraction of what snprintf takes. */
#define APPEND(text, ...) append(text, (const char *const[]){__VA_ARGS__, NULL})

/* Writes a number that is not negative in front of `end`, and returns where it begins. */
static const char *digits(char *end, int n) {
  *--end = '\0';
  do *--end = (char)('0' + n % 10);
  while ((n /= 10) > 0);
  return end;
}

/* The string at index i, or NULL for anything else: never converts a number, which would allocate. */
static const char *string_at(lua_State *L, int i) { return lua_type(L, i) == LUA_TSTRING ? lua_tostring(L, i) : NULL; }

/* A function of a level that is shown, and where package.loaded has it: as a module, or as a field of one. */
typedef struct Function {
  const void *address;
  const char *module, *field; /* NULL: not there */
} Function;

typedef struct Functions {
  int n, left;     /* how many there are, and how many of them are not found yet */
  uint64_t filter; /* has the bit of each one's address: of what package.loaded has, nearly nothing passes */
  Function list[INNERMOST + OUTERMOST];
} Functions;

static uint64_t bit_of(const void *address) { return UINT64_C(1) << ((uintptr_t)address >> 4 & 63); }

/* Adds the function of a level, which is popped from the top of L. */
static void add_function(lua_State *L, Functions *all) {
  const void *address = lua_topointer(L, -1);
  all->list[all->n++] = (Function){.address = address};
  all->left++;
  all->filter |= bit_of(address);
  lua_pop(L, 1);
}

/* On top of L are a key and a value of package.loaded, or of its module of that name. */
static void compare(lua_State *L, Functions *all, const char *module) {
  const void *value = lua_topointer(L, -1);
  if (LIKELY(!(all->filter & bit_of(value)))) return;
  const char *key = string_at(L, -2);
  for (int i = 0; key && i < all->n; i++) {
    Function *one = &all->list[i];
    if (one->address != value || one->module) continue;
    one->module = module ? module : key;
    one->field = module ? key : NULL;
    all->left--;
  }
}

/* Finds the functions in package.loaded, which is on top of L. One pass for all: it is long. */
static void find_functions(lua_State *L, Functions *all) {
  int loaded = lua_gettop(L);
  if (!lua_istable(L, loaded)) return;
  for (lua_pushnil(L); all->left > 0 && lua_next(L, loaded); lua_pop(L, 1)) {
    compare(L, all, NULL);
    const char *module = string_at(L, -2);
    if (!module || !lua_istable(L, -1)) continue;
    for (lua_pushnil(L); all->left > 0 && lua_next(L, -2); lua_pop(L, 1)) compare(L, all, module);
  }
  lua_settop(L, loaded);
}

/* Writes how the function of a level is called. */
static void append_function(Text *text, const lua_Debug *ar, const Function *function) {
  const char *module = function->module, *field = function->field;
  char line[MAX_DIGITS];
  if (module && (!field || strcmp(module, LUA_GNAME) == 0)) {
    APPEND(text, "function '", field ? field : module, "'");
  } else if (module) {
    APPEND(text, "function '", module, ".", field, "'");
  } else if (*ar->namewhat != '\0') {
    APPEND(text, ar->namewhat, " '", ar->name, "'");
  } else if (*ar->what == 'm') {
    APPEND(text, "main chunk");
  } else if (*ar->what != 'C') {
    APPEND(text, "function <", ar->short_src, ":", digits(line + MAX_DIGITS, ar->linedefined), ">");
  } else {
    APPEND(text, "?");
  }
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

/* The level that is shown after this one. */
static int next_level(int level, int levels) {
  bool skips = level + 1 == INNERMOST && levels > INNERMOST + OUTERMOST;
  return skips ? levels - OUTERMOST : level + 1;
}

void traceback_push(lua_State *L, lua_State *co) {
  Text text;
  text.length = 0;
  char number[MAX_DIGITS];
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE); /* allocates: before the stack is read */
  APPEND(&text, "stack traceback:");
  int levels = traceback_count_levels(co), skipped = levels - INNERMOST - OUTERMOST, i = 0;
  lua_Debug ar;
  Functions all = {.n = 0};
  for (int level = 0; level < levels && lua_getstack(co, level, &ar); level = next_level(level, levels)) {
    lua_getinfo(L, "f", &ar);
    add_function(L, &all);
  }
  find_functions(L, &all);
  for (int level = 0; level < levels && lua_getstack(co, level, &ar); level = next_level(level, levels)) {
    if (i == INNERMOST && skipped > 0) {
      APPEND(&text, "\n\t...\t(skipping ", digits(number + MAX_DIGITS, skipped), " levels)");
    }
    lua_getinfo(co, "Slnt", &ar);
    APPEND(&text, "\n\t", ar.short_src, ":");
    if (ar.currentline > 0) APPEND(&text, digits(number + MAX_DIGITS, ar.currentline), ":");
    APPEND(&text, " in ");
    append_function(&text, &ar, &all.list[i++]);
    if (ar.istailcall) APPEND(&text, "\n\t(...tail calls...)");
  }
  lua_pop(L, 1);
  lua_pushlstring(L, text.bytes, text.length);
}
