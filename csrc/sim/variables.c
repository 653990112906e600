/* variables.c: see variables.h. The registry has, at the address of Variables.known, a list of the values that are left
   out; and in a run, at the address of Variables, a table `kept`: of item i, from 0, the
   table or the function whose upvalue it is at 2 i + 1, and at 2 i + 2 what it was: its value, or a copy of the table. At
   0 it has a list: the values that a walk has found and has not looked into. */
#include "sim/variables.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "channels/chan_custom.h"
#include "errors/origin.h"

enum { WORK = 0 };

/* Its address is the key of a table's metatable, or nil, in the copy of the table. */
static const char META = 0;

/* What a walk does with what it finds. */
typedef enum Purpose {
  LEAVE_OUT, /* leaves it out; it looks only into the library's functions */
  REACH,     /* it is reached by `turns` */
  MARK       /* marks it with the number of the walk */
} Purpose;

typedef struct Walk {
  Variables *v;
  Purpose purpose;
  int kept, work; /* the indices of these tables */
  lua_Integer n;  /* length of `work` */
  uint64_t turns[2];
  const Watched *of; /* with REACH: it is reached by all that reach this one; else NULL */
  uint64_t starter;  /* of `turns`: see Watched.starter */
} Walk;

static void *checked(lua_State *L, void *memory) {
  if (!memory) luaL_error(L, "not enough memory"); /* uncovered: only when memory runs out */
  return memory;
}

static Walk begin_walk(lua_State *L, Variables *v, Purpose purpose) {
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  Walk w = {.v = v, .purpose = purpose};
  lua_rawgetp(L, LUA_REGISTRYINDEX, v);
  w.kept = lua_gettop(L);
  lua_rawgeti(L, w.kept, WORK);
  w.work = lua_gettop(L);
  v->walk++;
  return w;
}

/* The channel on top of L, if it has code of the program; else NULL. */
static const CustomChan *custom_chan(lua_State *L) {
  const Chan *ch = chan_to(L, -1);
  return ch ? chan_custom(ch) : NULL;
}

/* Pops a value, into which the walk looks later if it leads on. */
static void find(lua_State *L, Walk *w) {
  int type = lua_type(L, -1);
  if (type == LUA_TTHREAD) w->v->is_unsure = true;
  if (type == LUA_TTABLE || type == LUA_TFUNCTION || custom_chan(L)) lua_rawseti(L, w->work, ++w->n);
  else lua_pop(L, 1);
}

/* ---- items ---- */

static bool is_owner(const Watched *item, uint64_t turn) {
  for (size_t i = 0; i < item->n; i++) {
    if (item->owners[i] == turn) return true;
  }
  return false;
}

static void add_owner(lua_State *L, Watched *item, uint64_t turn) {
  item->owners = (uint64_t *)checked(L, grow(item->owners, &item->size, item->n + 1, sizeof turn));
  item->owners[item->n++] = turn;
}

/* The index in Walk.kept of the first value of item i; the second follows it. */
static lua_Integer key_of(size_t i) { return 2 * (lua_Integer)i + 1; }

/* Keeps what item i is now. */
static void keep(lua_State *L, const Walk *w, size_t i) {
  Watched *item = &w->v->items[i];
  item->is_compared = true;
  lua_rawgeti(L, w->kept, key_of(i));
  if (item->upvalue) {
    lua_getupvalue(L, -1, item->upvalue);
  } else {
    item->count = 0;
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, -3); item->count++) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, -4);
    }
    if (lua_getmetatable(L, -2)) lua_rawsetp(L, -2, &META);
  }
  lua_rawseti(L, w->kept, key_of(i) + 1);
  lua_pop(L, 1);
}

/* The number of an item, which is added if it is new: upvalue n of the function on top of L, or the table there. */
static size_t number_of(lua_State *L, const Walk *w, const void *id, int upvalue) {
  Variables *v = w->v;
  MapEntry *entry = (MapEntry *)checked(L, map_add(&v->seen, (uint64_t)(uintptr_t)id));
  entry->mark = v->walk;
  if (entry->value) return (size_t)entry->value - 1;
  size_t before = v->size;
  v->items = (Watched *)checked(L, grow(v->items, &v->size, v->n + 1, sizeof *v->items));
  if (v->size > before) memset(v->items + before, 0, (v->size - before) * sizeof *v->items);
  Watched *item = &v->items[v->n];
  *item = (Watched){.id = id, .upvalue = upvalue, .owners = item->owners, .size = item->size};
  lua_pushvalue(L, -1);
  lua_rawseti(L, w->kept, key_of(v->n));
  entry->value = ++v->n;
  return v->n - 1;
}

/* The walk has found an upvalue of the function on top of L, or the table there. */
static void reach(lua_State *L, const Walk *w, const void *id, int upvalue) {
  Variables *v = w->v;
  size_t i = number_of(L, w, id, upvalue);
  Watched *item = &v->items[i];
  for (int k = 0; k < 2; k++) {
    uint64_t turn = w->turns[k];
    if (!turn || is_owner(item, turn)) continue;
    add_owner(L, item, turn);
    if (turn != w->starter) continue;
    item->starter = turn;
    v->has_starter = true;
  }
  for (size_t k = 0; w->of && k < w->of->n; k++) {
    if (!is_owner(item, w->of->owners[k])) add_owner(L, item, w->of->owners[k]);
  }
  if (item->n > 1 && !item->is_compared) keep(L, w, i);
}

/* ---- walks ---- */

/* Whether the walk has looked into it, or must not. */
static bool is_done(lua_State *L, const Walk *w, const void *id) {
  Variables *v = w->v;
  uint64_t key = (uint64_t)(uintptr_t)id;
  if (w->purpose == LEAVE_OUT) {
    MapEntry *entry = (MapEntry *)checked(L, map_add(&v->known, key));
    bool was_there = entry->mark == v->walk;
    entry->mark = v->walk;
    return was_there;
  }
  if (map_find(&v->known, key)) return true;
  MapEntry *entry = (MapEntry *)checked(L, map_add(&v->seen, key));
  bool was_there = entry->mark == v->walk;
  entry->mark = v->walk;
  return was_there;
}

static bool is_library(lua_State *L) {
  lua_Debug ar;
  lua_pushvalue(L, -1);
  lua_getinfo(L, ">S", &ar);
  return origin_is_library(L, &ar);
}

/* Looks into the function on top of L. Globals are left out. */
static void look_into_function(lua_State *L, Walk *w) {
  bool is_c = lua_iscfunction(L, -1);
  const char *name;
  if (w->purpose == LEAVE_OUT && !is_c && !is_library(L)) return;
  for (int i = 1; (name = lua_getupvalue(L, -1, i)) != NULL; i++) {
    bool is_unseen = is_c ? w->purpose == REACH : strcmp(name, "_ENV") == 0;
    if (is_unseen) {
      lua_pop(L, 1);
    } else {
      lua_insert(L, -2);
      const void *id = lua_upvalueid(L, -1, i);
      bool is_out = !is_c && map_find(&w->v->known, (uint64_t)(uintptr_t)id);
      if (!is_c && !is_out && w->purpose == REACH) reach(L, w, id, i);
      else if (!is_c && !is_out) (void)is_done(L, w, id);
      lua_insert(L, -2);
      if (is_out) lua_pop(L, 1);
      else find(L, w);
    }
  }
}

static void look_into_table(lua_State *L, Walk *w) {
  if (w->purpose == REACH) reach(L, w, lua_topointer(L, -1), 0);
  if (lua_getmetatable(L, -1)) find(L, w);
  for (lua_pushnil(L); lua_next(L, -2);) {
    find(L, w);
    lua_pushvalue(L, -1);
    find(L, w);
  }
}

/* An operation on the channel may run its transducer, exception handler and buffer policy. The library's channels have
   none. */
static void look_into_channel(lua_State *L, Walk *w) {
  for (int i = CHAN_VALUES; i <= CHAN_HANDLER; i++) {
    if (i == CHAN_VALUES && custom_chan(L)->chan.buf.kind != BUFFER_POLICY) continue;
    lua_getiuservalue(L, -1, i);
    find(L, w);
  }
}

/* Looks into all that was found, and what that leads to. */
static void walk(lua_State *L, Walk *w) {
  while (w->n > 0) {
    lua_rawgeti(L, w->work, w->n);
    lua_pushnil(L);
    lua_rawseti(L, w->work, w->n--);
    if (!is_done(L, w, lua_topointer(L, -1))) {
      if (lua_istable(L, -1)) look_into_table(L, w);
      else if (lua_isfunction(L, -1)) look_into_function(L, w);
      else look_into_channel(L, w);
      if (w->purpose == LEAVE_OUT) { /* what it has left out stays: no other value may get its address */
        lua_pushvalue(L, -1);
        lua_rawseti(L, w->kept, ++w->v->nknown);
      }
    }
    lua_pop(L, 1);
  }
}

/* ---- what is left out ---- */

void variables_open(lua_State *L, Variables *v) {
  int top = lua_gettop(L);
  v->nknown = 0;
  variables_begin(L, v);
  Walk w = begin_walk(L, v, LEAVE_OUT);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (lua_pushnil(L); lua_next(L, -2);) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    if (strncmp(name, "runnel", 6) == 0 && (name[6] == 0 || name[6] == '.')) {
      find(L, &w);
    } else {
      const void *id = lua_topointer(L, -1);
      if (id) (void)checked(L, map_add(&v->known, (uint64_t)(uintptr_t)id));
      lua_pop(L, 1);
    }
  }
  walk(L, &w);
  lua_pushvalue(L, w.kept);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &v->known);
  lua_settop(L, top);
}

void variables_begin(lua_State *L, Variables *v) {
  v->n = 0;
  v->failed = v->has_starter = false;
  map_clear(&v->seen);
  lua_newtable(L);
  lua_newtable(L);
  lua_rawseti(L, -2, WORK);
  lua_rawsetp(L, LUA_REGISTRYINDEX, v);
}

void variables_end(lua_State *L, Variables *v) {
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, v);
}

void variables_close(lua_State *L, Variables *v) {
  variables_end(L, v);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &v->known);
  for (size_t i = 0; i < v->size; i++) free(v->items[i].owners);
  free(v->items);
  map_free(&v->seen);
  map_free(&v->known);
}

/* ---- a go block starts ---- */

typedef struct Spawn {
  Variables *v;
  const Sched *S;
  Go *go;
} Spawn;

/* Protected: (Spawn) */
static int spawn(lua_State *L) {
  const Spawn *s = (const Spawn *)lua_touserdata(L, 1);
  Walk w = begin_walk(L, s->v, REACH);
  w.turns[0] = footprint_turn(&s->S->world, s->go);
  if (s->S->current) w.turns[1] = w.starter = footprint_turn(&s->S->world, s->S->current);
  lua_State *co = s->go->alt.co;
  if (!lua_checkstack(co, 1)) luaL_error(L, "not enough memory");
  for (int i = 2; i <= lua_gettop(co); i++) { /* above the guard */
    lua_pushvalue(co, i);
    lua_xmove(co, L, 1);
    find(L, &w);
  }
  walk(L, &w);
  return 0;
}

/* Calls a function, protected. */
static void call(lua_State *L, Variables *v, lua_CFunction f, void *argument) {
  int top = lua_gettop(L);
  if (lua_checkstack(L, 3)) {
    lua_pushcfunction(L, f);
    lua_pushlightuserdata(L, argument);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) v->failed = true;
  } else {
    v->failed = true; /* uncovered: only when memory runs out */
  }
  lua_settop(L, top);
}

void variables_spawn(lua_State *L, Variables *v, Sched *S, Go *go) { call(L, v, spawn, &(Spawn){v, S, go}); }

/* ---- a step ends ---- */

typedef struct Check {
  Variables *v;
  Footprint *f;
  uint64_t turn; /* the step's go block */
} Check;

/* Whether item i is not what it was. */
static bool has_changed(lua_State *L, int kept, const Watched *item, size_t i) {
  int top = lua_gettop(L);
  bool is_same;
  lua_rawgeti(L, kept, key_of(i));
  lua_rawgeti(L, kept, key_of(i) + 1);
  if (item->upvalue) {
    lua_getupvalue(L, -2, item->upvalue);
    is_same = lua_rawequal(L, -1, -2);
  } else {
    uint32_t n = 0;
    is_same = true;
    for (lua_pushnil(L); is_same && lua_next(L, top + 1); n++) {
      lua_pushvalue(L, -2);
      lua_rawget(L, top + 2);
      is_same = lua_rawequal(L, -1, -2);
      lua_pop(L, 2);
    }
    lua_rawgetp(L, top + 2, &META);
    if (!lua_getmetatable(L, top + 1)) lua_pushnil(L);
    is_same = is_same && n == item->count && lua_rawequal(L, -1, -2);
  }
  lua_settop(L, top);
  return !is_same;
}

/* The step has written item i. All that can reach the item can reach what is in it now. */
static void written(lua_State *L, Check *c, size_t i) {
  Variables *v = c->v;
  Watched *item = &v->items[i];
  for (size_t k = 0; k < item->n; k++) {
    if (item->owners[k] != c->turn) footprint_touch(c->f, item->owners[k]);
  }
  if (!is_owner(item, c->turn)) add_owner(L, item, c->turn);
  Walk w = begin_walk(L, v, REACH);
  keep(L, &w, i);
  Watched of = *item; /* its owners stay where they are: it has them all */
  w.of = &of;
  lua_rawgeti(L, w.kept, key_of(i));
  if (of.upvalue) lua_getupvalue(L, -1, of.upvalue);
  find(L, &w);
  walk(L, &w);
}

/* The local variables, and other values, on the stack of a go block that has parked, lead on; the items of the same
   names as the variables are marked: it may still have them. */
static void find_on_stack(lua_State *L, Walk *w, lua_State *co) {
  lua_Debug ar;
  if (!lua_checkstack(co, 2)) luaL_error(L, "not enough memory");
  for (int level = 0; lua_getstack(co, level, &ar); level++) {
    lua_getinfo(co, "f", &ar);
    lua_xmove(co, L, 1);
    find(L, w);
    const char *name;
    for (int i = 1; (name = lua_getlocal(co, &ar, i)) != NULL; i++) {
      lua_xmove(co, L, 1);
      for (size_t k = 0; k < w->v->n; k++) {
        Watched *item = &w->v->items[k];
        if (!item->starter || !item->upvalue) continue;
        lua_rawgeti(L, w->kept, key_of(k));
        const char *other = lua_getupvalue(L, -1, item->upvalue);
        if (strcmp(name, other) == 0) item->starter = 0;
        lua_pop(L, 2);
      }
      find(L, w);
    }
  }
}

/* Go blocks were started in the step: does the step's go block still reach what those can reach? */
static void drop_starters(lua_State *L, Check *c) {
  Variables *v = c->v;
  Walk w = begin_walk(L, v, MARK);
  v->is_unsure = v->has_starter = false;
  if (c->f->alt) {
    find_on_stack(L, &w, c->f->alt->co);
    walk(L, &w);
  }
  for (size_t i = 0; i < v->n; i++) {
    Watched *item = &v->items[i];
    const MapEntry *entry = map_find(&v->seen, (uint64_t)(uintptr_t)item->id);
    bool is_left = item->starter && !v->is_unsure && entry->mark != v->walk;
    for (size_t k = 0; is_left && k < item->n; k++) {
      if (item->owners[k] == item->starter) item->owners[k] = item->owners[--item->n];
    }
    item->starter = 0;
  }
}

/* Protected: (Check) */
static int check(lua_State *L) {
  Check *c = (Check *)lua_touserdata(L, 1);
  Variables *v = c->v;
  lua_rawgetp(L, LUA_REGISTRYINDEX, v);
  for (size_t i = 0; i < v->n; i++) {
    if (!v->items[i].is_compared || !has_changed(L, 2, &v->items[i], i)) continue;
    written(L, c, i);
    lua_settop(L, 2);
  }
  if (v->has_starter) drop_starters(L, c);
  return 0;
}

void variables_check(lua_State *L, Variables *v, Footprint *f) {
  if (v->n == 0) return;
  call(L, v, check, &(Check){v, f, f->blocks[f->steps[f->n - 1].go].turn});
}
