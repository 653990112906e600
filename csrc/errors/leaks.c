/* leaks.c: see leaks.h. A table of the registry maps the text of a site to its number, from 1 on, its number to how many
   go blocks are counted there, and minus its number to the example. A weak root has the number of its site in
   Alt.nresults, which a parked alt does not use; 0: it is not counted. */
#include "errors/leaks.h"

#include <lauxlib.h>
#include <stdint.h>
#include <string.h>

#include "core/attr.h"
#include "core/others.h"
#include "errors/name.h"
#include "errors/origin.h"
#include "lifetimes/root.h"

/* Its address is the key of that table. */
static const char leaks_key = 0;

/* Pushes where the go block was started: the line of its function, or for the library's the call that started it. */
static void push_started(lua_State *L, const Go *go) {
  lua_Debug ar;
  if (!name_find_function(go->alt.co, &ar)) lua_pushliteral(L, "?");
  else if (!origin_is_library(L, &ar) || !origin_push(L, go->origin))
    lua_pushfstring(L, "%s:%d", ar.short_src, ar.linedefined);
}

/* A site at which a go block of the program waited lately: one that waits there, too, needs no text. The table of sites
   has KNOWN of them in a userdata at KNOWN_AT. */
typedef struct Known {
  char started[LUA_IDSIZE], where[LUA_IDSIZE]; /* the files of its function and of the line that waits */
  int defined, line;                           /* the lines there */
  const char *operation;                       /* see operation_of */
  uint16_t site;                               /* its number; 0: nothing is known */
} Known;

enum { KNOWN = 16, KNOWN_AT = 0 };

/* Describes where a go block was started and waits; false if the library did either. */
static bool describe(lua_State *L, const Go *go, const char *operation, Known *known) {
  lua_Debug ar;
  if (!name_find_function(go->alt.co, &ar) || ar.linedefined < 0 || origin_is_library(L, &ar)) return false;
  *known = (Known){.defined = ar.linedefined, .operation = operation};
  memcpy(known->started, ar.short_src, LUA_IDSIZE);
  if (!name_find_where(L, go, &ar)) return false;
  known->line = ar.currentline;
  memcpy(known->where, ar.short_src, LUA_IDSIZE);
  return true;
}

static bool is_same(const Known *a, const Known *b) {
  return a->site && a->defined == b->defined && a->line == b->line && a->operation == b->operation &&
         strcmp(a->started, b->started) == 0 && strcmp(a->where, b->where) == 0;
}

static const char *operation_of(const Alt *alt) {
  if (alt->flags & ALT_SELECT) return "alts";
  return alt_waiters(alt)->is_put ? "put" : "take";
}

/* Pushes what a parked go block waits for. A finalizer may wake or end it meanwhile. */
static void push_example(lua_State *L, const Go *go, const char *operation) {
  int top = lua_gettop(L);
  const Alt *alt = others_shown(&go->alt);
  lua_pushstring(L, operation);
  for (uint32_t i = 0; go->slot && i < alt->count && alt_is_active(alt); i++) {
    const Chan *ch = alt_waiters(alt)[i].chan;
    alt_push_channel(L, &alt_waiters(alt)[i]);
    attr_push_name(L, ch, lua_gettop(L));
    lua_pushfstring(L, "%s%s%s", lua_tostring(L, top + 1), i ? ", " : " on ", lua_tostring(L, -1));
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
  }
}

/* The number of a parked go block's site, by its text; 0 if there are too many. The table of sites is on top of L. */
static uint16_t find_by_text(lua_State *L, const Go *go, const char *operation) {
  int sites = lua_gettop(L), text = sites + 1;
  push_started(L, go);
  (void)name_push_where(L, go);
  const char *where = lua_tostring(L, -1);
  lua_pushfstring(L, "%s\n%s\n%s", lua_tostring(L, text), where ? where : "?", operation);
  lua_replace(L, text);
  lua_settop(L, text);
  lua_pushvalue(L, text);
  if (lua_rawget(L, sites) == LUA_TNIL && lua_rawlen(L, sites) < UINT16_MAX) {
    push_example(L, go, operation);
    lua_Integer n = (lua_Integer)lua_rawlen(L, sites) + 1;
    lua_rawseti(L, sites, -n);
    lua_pushinteger(L, 0);
    lua_rawseti(L, sites, n);
    lua_pushinteger(L, n);
    lua_replace(L, -2);
    lua_pushvalue(L, text);
    lua_pushvalue(L, -2);
    lua_rawset(L, sites);
  }
  lua_Integer n = lua_tointeger(L, -1);
  lua_settop(L, sites);
  return (uint16_t)n;
}

/* The same, by what is known. */
static uint16_t find(lua_State *L, const Go *go) {
  const char *operation = operation_of(others_shown(&go->alt));
  Known wanted;
  if (!describe(L, go, operation, &wanted)) return find_by_text(L, go, operation);
  lua_rawgeti(L, -1, KNOWN_AT);
  Known *known = (Known *)lua_touserdata(L, -1) + (unsigned)(wanted.defined + wanted.line) % KNOWN;
  lua_pop(L, 1);
  if (!is_same(known, &wanted)) {
    wanted.site = find_by_text(L, go, operation); /* may run finalizers */
    *known = wanted;
  }
  return known->site;
}

/* Adds to the number of a site, whose table is on top of L. Allocates nothing. */
static void add(lua_State *L, uint16_t site, int n) {
  lua_rawgeti(L, -1, site);
  lua_pushinteger(L, lua_tointeger(L, -1) + n);
  lua_rawseti(L, -3, site);
  lua_pop(L, 1);
}

/* See Sched.note_weak. */
static void note_weak(lua_State *L, Go *go, bool is_weak) {
  Alt *alt = &go->alt;
  if (!alt->count || alt->flags & ALT_BARE) return; /* it has not begun: `nresults` is the number of its arguments */
  if (is_weak) alt->nresults = 0; /* it was the number of its last results; and the search for the site may raise */
  bool is_counted = is_weak ? !chan_is_hidden(&go->chan) : alt->nresults != 0;
  if (!is_counted) return;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &leaks_key);
  if (!is_weak) {
    add(L, alt->nresults, -1);
    alt->nresults = 0;
  } else {
    uint16_t site = find(L, go);
    if (site && go->slot && alt->flags & ALT_WEAK) { /* else a finalizer has woken it */
      alt->nresults = site;
      add(L, site, 1);
    }
  }
  lua_pop(L, 1);
}

/* Takes the weak roots that are there off the numbers of the table at index `numbers`. Allocates nothing. */
static void take_off_present(lua_State *L, const Sched *S, int numbers) {
  for (uint32_t i = S->roots.strong + 1; i <= root_count(S); i++) {
    const Go *go = root_push_at(L, i);
    lua_pushvalue(L, numbers);
    if (go && go->alt.flags & ALT_WEAK && go->alt.nresults) add(L, go->alt.nresults, -1);
    lua_pop(L, 2);
  }
}

/* Waiting go blocks that leaks_count visits: a millisecond. */
enum { MOST_VISITED = 20000 };

int64_t leaks_count(lua_State *L, const Sched *S) {
  if (root_count(S) - S->roots.strong > MOST_VISITED) return -1;
  int64_t total = 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &leaks_key);
  for (lua_Integer i = (lua_Integer)lua_rawlen(L, -1); i > 0; i--) {
    lua_rawgeti(L, -1, i);
    total += lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  if (total == 0) return 0; /* no go block waits for long */
  for (uint32_t i = S->roots.strong + 1; i <= root_count(S); i++) {
    const Go *go = root_push_at(L, i);
    if (go && go->alt.flags & ALT_WEAK && go->alt.nresults) total--;
    lua_pop(L, 1);
  }
  return total;
}

static void set_part(lua_State *L, const char *name, const char *begin, const char *end) {
  lua_pushlstring(L, begin, (size_t)(end - begin));
  lua_setfield(L, -2, name);
}

void leaks_push(lua_State *L, Sched *S) {
  int list = lua_gettop(L) + 1, sites = list + 1, numbers = list + 2;
  lua_newtable(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &leaks_key);
  lua_Integer n = (lua_Integer)lua_rawlen(L, sites), found = 0;
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, sites, i);
    lua_rawseti(L, numbers, i);
  }
  take_off_present(L, S, numbers);
  for (lua_pushnil(L); lua_next(L, sites);) {
    int text = numbers + 1, number = numbers + 2;
    lua_Integer count = 0;
    if (lua_type(L, text) == LUA_TSTRING && lua_tointeger(L, number) <= n) {
      lua_rawgeti(L, numbers, lua_tointeger(L, number));
      count = lua_tointeger(L, -1);
    }
    if (count > 0) {
      const char *started = lua_tostring(L, text), *where = strchr(started, '\n'), *operation = strchr(where + 1, '\n');
      lua_createtable(L, 0, 5);
      lua_pushinteger(L, count);
      lua_setfield(L, -2, "count");
      set_part(L, "started", started, where);
      set_part(L, "where", where + 1, operation);
      set_part(L, "operation", operation + 1, operation + strlen(operation));
      lua_rawgeti(L, sites, -lua_tointeger(L, number));
      lua_setfield(L, -2, "example");
      lua_rawseti(L, list, ++found);
    }
    lua_settop(L, text);
  }
  lua_settop(L, list);
}

void leaks_open(lua_State *L) {
  lua_newtable(L);
  memset(lua_newuserdatauv(L, KNOWN * sizeof(Known), 0), 0, KNOWN * sizeof(Known));
  lua_rawseti(L, -2, KNOWN_AT);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &leaks_key);
  sched_self(L)->note_weak = note_weak;
}
