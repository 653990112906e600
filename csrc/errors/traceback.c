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
  char bytes[MAX_TEXT]; /* only the text is set: setting all takes longer than writing it */
} Text;

static void append(Text *text, size_t most, const char *const *strings) {
  for (; *strings; strings++) {
    size_t room = sizeof text->bytes - text->length, length = strnlen(*strings, most < room ? most : room);
    memcpy(text->bytes + text->length, *strings, length);
    text->length += length;
  }
}

/* Appends strings, each cut to MAX_NAME. Takes a fraction of what snprintf takes. */
#define APPEND(text, ...) append(text, MAX_NAME, (const char *const[]){__VA_ARGS__, NULL})

/* Writes a number that is not negative in front of `end`, and returns where it begins. */
static const char *digits(char *end, int n) {
  *--end = '\0';
  do *--end = (char)('0' + n % 10);
  while ((n /= 10) > 0);
  return end;
}

/* ---- the names of functions ---- */

/* Which name luaL_traceback shows of a function that has one in the calling code, as a local variable or a method, and
   another one in package.loaded: from Lua 5.5 on, the one in the code. */
#define PREFERS_NAMES_IN_CODE (LUA_VERSION_NUM >= 505)

/* A level that is shown, and where package.loaded has its function: as a module, or as a field of one. */
typedef struct Level {
  lua_Debug ar;
  const void *function;       /* its address; NULL if it is already known */
  lua_Integer prototype;      /* a number shared by all functions of its prototype */
  const char *name;           /* the name from an earlier search; or NULL */
  const char *module, *field; /* the result of this search; NULL: not found */
  size_t begin, end;          /* where the text names the function */
} Level;

typedef struct Levels {
  int n, left;     /* number of levels; number of functions to be found */
  uint64_t filter; /* a bit for each of these functions: it rejects nearly all values of package.loaded */
  Level list[SHOWN];
} Levels;

static uint64_t bit_of(const void *address) { return UINT64_C(1) << ((uintptr_t)address >> 4 & 63); }

/* The string at index i, or NULL for anything else: never converts a number, which would allocate. */
static const char *string_at(lua_State *L, int i) { return lua_type(L, i) == LUA_TSTRING ? lua_tostring(L, i) : NULL; }

/* Pushes what earlier looks through package.loaded have found. A look takes very long, and most errors of a program
   come from few places. It has
     the names of functions that package.loaded has, with these functions as keys;
     false for others, with a key for each prototype, since each go block may have closures of its own.
   Only a weak table holds it, at index `names`: so the collector, which goes through package.loaded itself, drops it
   once in a cycle, and no name is older. If an address that is in a key is used again, a name is missing at worst. */
static void push_known(lua_State *L, int names) {
  if (lua_rawgeti(L, names, 1) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawseti(L, names, 1);
}

/* Looks up the function of a level, which is on top of L, in the table of known functions at index `known`. */
static void find_known(lua_State *L, Levels *all, Level *level, int known) {
  int top = lua_gettop(L);
  uintptr_t prototype = (uintptr_t)lua_tocfunction(L, top);
  if (!prototype) prototype = (uintptr_t)level->ar.source + ((uintptr_t)level->ar.linedefined << 20);
  level->prototype = (lua_Integer)prototype;
  level->function = NULL;
  lua_pushvalue(L, top);
  lua_rawget(L, known);
  level->name = string_at(L, -1);
  if (!level->name && lua_rawgeti(L, known, level->prototype) == LUA_TNIL) {
    level->function = lua_topointer(L, top);
    all->left++;
    all->filter |= bit_of(level->function);
  }
  lua_settop(L, top);
}

/* On top of L are a key and a value of package.loaded, or of its module of that name. */
static void compare(lua_State *L, Levels *all, const char *module) {
  const void *value = lua_topointer(L, -1);
  if (LIKELY(!value || !(all->filter & bit_of(value)))) return;
  const char *key = string_at(L, -2);
  for (int i = 0; key && i < all->n; i++) {
    Level *level = &all->list[i];
    if (level->function != value || level->module) continue;
    level->module = module ? module : key;
    level->field = module ? key : NULL;
    all->left--;
  }
}

/* Finds the functions in package.loaded, which is at index `loaded`. One pass for all: it is long. */
static void find_functions(lua_State *L, Levels *all, int loaded) {
  int top = lua_gettop(L);
  if (!lua_istable(L, loaded)) return;
  for (lua_pushnil(L); all->left > 0 && lua_next(L, loaded); lua_pop(L, 1)) {
    compare(L, all, NULL);
    const char *module = string_at(L, -2);
    if (!module || !lua_istable(L, -1)) continue;
    for (lua_pushnil(L); all->left > 0 && lua_next(L, -2); lua_pop(L, 1)) compare(L, all, module);
  }
  lua_settop(L, top);
}

/* Keeps the results of this search for later ones. The functions of the levels are above `known`. May raise. */
static void keep_found(lua_State *L, const Levels *all, const Text *text, int known) {
  for (int i = 0; i < all->n; i++) {
    const Level *level = &all->list[i];
    if (level->module) {
      lua_pushvalue(L, known + 1 + i);
      lua_pushlstring(L, text->bytes + level->begin, level->end - level->begin);
      lua_rawset(L, known);
    } else if (level->function) {
      lua_pushboolean(L, 0);
      lua_rawseti(L, known, level->prototype);
    }
  }
}

/* Writes the name of the function at a level. */
static void append_function(Text *text, const Level *level) {
  const lua_Debug *ar = &level->ar;
  const char *module = level->module, *field = level->field;
  char line[MAX_DIGITS];
  if (level->name) {
    append(text, MAX_LINE, (const char *const[]){level->name, NULL});
  } else if (module && (!field || strcmp(module, LUA_GNAME) == 0)) {
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

/* ---- the traceback ---- */

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

/* The next level to be shown. */
static int next_level(int level, int levels) {
  bool skips = level + 1 == INNERMOST && levels > SHOWN;
  return skips ? levels - OUTERMOST : level + 1;
}

void traceback_push(lua_State *L, lua_State *co, int first, int names) {
  int loaded = lua_gettop(L) + 1, known = loaded + 1;
  _Static_assert(SHOWN + LUA_MINSTACK == TRACEBACK_SLOTS, "the same");
  luaL_checkstack(L, TRACEBACK_SLOTS, NULL); /* allocate before reading the stack, or after the text */
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  push_known(L, names);
  int levels = traceback_count_levels(co) - first, skipped = levels - SHOWN;
  Levels all;
  all.n = all.left = 0, all.filter = 0;
  for (int i = 0; i < levels; i = next_level(i, levels)) {
    Level *level = &all.list[all.n++];
    level->module = level->field = NULL;
    lua_getstack(co, first + i, &level->ar);
    lua_getinfo(L, "Slntf", &level->ar);
    if (PREFERS_NAMES_IN_CODE && *level->ar.namewhat != '\0') level->function = level->name = NULL;
    else find_known(L, &all, level, known);
  }
  find_functions(L, &all, loaded);
  Text text;
  text.length = 0;
  char number[MAX_DIGITS];
  APPEND(&text, "stack traceback:");
  for (int i = 0; i < all.n; i++) {
    Level *level = &all.list[i];
    if (i == INNERMOST && skipped > 0)
      APPEND(&text, "\n\t...\t(skipping ", digits(number + MAX_DIGITS, skipped), " levels)");
    APPEND(&text, "\n\t", level->ar.short_src, ":");
    if (level->ar.currentline > 0) APPEND(&text, digits(number + MAX_DIGITS, level->ar.currentline), ":");
    APPEND(&text, " in ");
    level->begin = text.length;
    append_function(&text, level);
    level->end = text.length;
    if (level->ar.istailcall) APPEND(&text, "\n\t(...tail calls...)");
  }
  keep_found(L, &all, &text, known);
  lua_settop(L, loaded - 1);
  lua_pushlstring(L, text.bytes, text.length);
}
