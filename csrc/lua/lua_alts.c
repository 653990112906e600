/* lua/lua_alts.c: the arguments of alts. All are read first, so that an error in them has no effect, and so that
   nothing depends on the tables afterwards.

   The stack of a call: 1 ops, 2 opts, then what blocks/alts.h describes, then the default. */
#include <stdlib.h>
#include <string.h>

#include "blocks/alts.h"
#include "errors/error.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/turn.h"

enum { OPS = 1, OPTS };

enum {
  FEW_OPS = 64, /* how many are read onto the C stack */
  MAX_OPS = 100000
};

typedef struct Options {
  bool priority;    /* try in the order given */
  bool has_default; /* do not wait: return the default, or nil */
  int default_at;   /* index of the default; 0 without any options */
} Options;

/* ---- reading the arguments ---- */

/* Raises the message on top of the stack, after the function's name. */
static int raise(lua_State *L, const Operation *op) {
  lua_pushfstring(L, "%s: %s", op->name, lua_tostring(L, -1));
  return error_raise(L);
}

/* Raises an error: element `i` of the list is not an operation. */
_Noreturn static void bad_op(lua_State *L, lua_Integer i, const char *why, const Operation *what) {
  lua_pushfstring(L, "operation %I %s; write a channel to take from it, or {channel, value} to put", (LUAI_UACINT)i,
                  why);
  raise(L, what);
  abort(); /* uncovered: raise does not return */
}

/* Replaces the element on top of the stack, number i of the list, by its channel and its value or nil. */
static AltsOp push_op(lua_State *L, lua_Integer i, const Operation *what) {
  AltsOp op = {chan_to(L, -1), false, false};
  if (LIKELY(op.ch)) {
    lua_pushnil(L);
    return op;
  }
  if (!lua_istable(L, -1)) bad_op(L, i, lua_isnil(L, -1) ? "is nil" : "is not a channel", what);
  lua_geti(L, -1, 1);
  op = (AltsOp){chan_to(L, -1), true, false};
  if (!op.ch) bad_op(L, i, "does not begin with a channel", what);
  if (lua_geti(L, -2, 2) == LUA_TNIL) bad_op(L, i, "has no value to put, or nil, which cannot be put", what);
  lua_remove(L, -3);
  return op;
}

/* The number of operations; makes room for them on the stack. Sets `plain` if the list has no metatable. */
static int count_ops(lua_State *L, bool *plain) {
  if (!lua_istable(L, OPS)) {
    luaL_error(L, "alts: a list of operations expected, got %s%s", lua_isnil(L, OPS) ? "nothing" : check_got(L, OPS),
               chan_to(L, OPS) ? "; put the channels into a list: rn.alts { ch, ... }" : "");
  }
  *plain = !lua_getmetatable(L, OPS);
  if (!*plain) {
    lua_pop(L, 1);
    check_no_module(L, OPS);
  }
  lua_Integer n = LIKELY(*plain) ? (lua_Integer)lua_rawlen(L, OPS) : luaL_len(L, OPS);
  if (n < 0 || n > MAX_OPS) luaL_error(L, "alts: from 1 to %d operations expected, got %I", MAX_OPS, (LUAI_UACINT)n);
  luaL_checkstack(L, (int)(2 * n) + LUA_MINSTACK, "too many operations for alts");
  return (int)n;
}

/* Raises an error: the list has a field besides the operations; its key is on top of the stack. */
_Noreturn static void bad_field(lua_State *L, const Operation *what) {
  const char *key = luaL_tolstring(L, -1, NULL);
  lua_pushfstring(L,
                  "the list of operations has a field '%s'; options go into a table of their own: "
                  "rn.alts({ ... }, { priority = true, default = value })",
                  key);
  raise(L, what);
  abort(); /* uncovered: raise does not return */
}

/* Raises if the list has a key other than 1 to n: an alts of `{ c, default = x }` or `{ c, nil, d, nil }` would wait
   forever. Called only before waiting, since lua_next is 2 % of an alts. The list must have no metatable, and an n-th
   element. */
static void check_fields(lua_State *L, int n, const Operation *what) {
  if (n > 0) lua_pushinteger(L, n);
  else lua_pushnil(L);
  while (lua_next(L, OPS)) {
    lua_pop(L, 1);
    if (!lua_isinteger(L, -1)) bad_field(L, what);
    lua_Integer key = lua_tointeger(L, -1);
    if (key < 1 || key > n) bad_op(L, n + 1, "is nil, although the list goes on", what);
  }
}

/* Raises an error: the key on top of the stack is not an option. */
_Noreturn static void bad_option(lua_State *L, const Operation *what) {
  const char *key = luaL_tolstring(L, -1, NULL);
  lua_pushfstring(L, "unknown option '%s'; known: default, nowait, priority", key);
  raise(L, what);
  abort(); /* uncovered: raise does not return */
}

/* Reads the options of a table with a metatable, whose fields may come from __index. */
static Options get_options(lua_State *L, Options o) {
  lua_getfield(L, OPTS, "priority");
  o.priority = lua_toboolean(L, -1);
  lua_getfield(L, OPTS, "nowait");
  o.has_default = lua_toboolean(L, -1);
  lua_pop(L, 2);
  if (lua_getfield(L, OPTS, "default") != LUA_TNIL) o.has_default = true;
  lua_replace(L, o.default_at);
  return o;
}

/* Reads the options. Iterating over the fields is cheaper than looking up each option. */
static Options read_options(lua_State *L, const Operation *what) {
  Options o = {false, false, 0};
  if (lua_isnil(L, OPTS)) return o;
  if (!lua_istable(L, OPTS)) luaL_error(L, "alts: a table of options expected, got %s", check_got(L, OPTS));
  lua_pushnil(L);
  o.default_at = lua_gettop(L);
  if (UNLIKELY(lua_getmetatable(L, OPTS))) {
    lua_pop(L, 1);
    return get_options(L, o);
  }
  lua_pushnil(L);
  while (lua_next(L, OPTS)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    if (strcmp(key, "priority") == 0) {
      o.priority = lua_toboolean(L, -1);
    } else if (strcmp(key, "default") == 0) {
      o.has_default = true;
      lua_pushvalue(L, -1);
      lua_replace(L, o.default_at);
    } else if (strcmp(key, "nowait") == 0) {
      o.has_default |= lua_toboolean(L, -1);
    } else {
      lua_pop(L, 1);
      bad_option(L, what);
    }
    lua_pop(L, 1);
  }
  return o;
}

/* ---- alts ---- */

static const Operation ALTS = {.name = "alts", .flags = ALT_SELECT};

/* The Lua function alt calls alts_index. */
static const Operation ALT = {.name = "alt", .flags = ALT_SELECT | ALT_INDEX};

/* The library's own (lua/internal/moving.c), which has turns of its own. */
static const Operation MOVING = {.name = "alt", .flags = ALT_SELECT | ALT_INDEX, .waiter = WAITER_UNCOUNTED};

/* A closed channel of the operations, or NULL. */
static const Chan *closed_one(const AltsOp *ops, int n) {
  for (int i = 0; i < n; i++) {
    if (chan_is_closed(ops[i].ch)) return ops[i].ch;
  }
  return NULL;
}

/* alts; `what` is the function that was called. */
static inline int alts(lua_State *L, const Operation *what) {
  lua_settop(L, OPTS);
  lua_pushnil(L); /* ALT_BLOCK */
  bool plain;
  int n = count_ops(L, &plain);
  AltsOp few[FEW_OPS], *ops = few;
  if (UNLIKELY(n > FEW_OPS)) {
    ops = (AltsOp *)lua_newuserdatauv(L, (size_t)n * sizeof(AltsOp), 0);
    lua_replace(L, ALT_BLOCK); /* which is free until alts_wait */
  }
  for (int i = 0; i < n; i++) {
    if (LIKELY(plain)) lua_rawgeti(L, OPS, i + 1);
    else lua_geti(L, OPS, i + 1);
    ops[i] = push_op(L, i + 1, what);
  }
  Options options = read_options(L, what);
  Sched *S = LIKELY(n > 0) ? ops[0].ch->sched : sched_self(L);
  if (what != &MOVING && UNLIKELY(++S->moves > TURN)) turn_have(L, S, closed_one(ops, n), what);
  for (int i = 0; i < n && UNLIKELY(S->is_observed); i++) OBSERVE(S, look, ops[i].ch, LOOK_CHANNEL);
  Alts a = {.op = what, .ops = ops, .n = n, .priority = options.priority};
  int results = alts_try(L, S, &a);
  if (results) return results;
  if (options.has_default) {
    if (!a.mixed) turn_in_vain(L, S, what, "leave out the default, so that it waits");
    lua_pushvalue(L, options.default_at);
    lua_pushliteral(L, "default");
    return 2;
  }
  if (LIKELY(plain)) check_fields(L, n, what);
  if (n == 0) {
    lua_pushliteral(L, "no operations: it would wait for ever");
    return raise(L, what);
  }
  if (UNLIKELY(n > FEW_OPS)) lua_copy(L, ALT_BLOCK, OPS); /* the list is not needed any more */
  return alts_wait(L, S, &a);
}

/* alts(ops, {priority=, default=, nowait=}) -> value, port | default, "default" */
static int core_alts(lua_State *L) { return alts(L, &ALTS); }

int module_alts_index(lua_State *L) { return alts(L, &ALT); }

static int moving_alts(lua_State *L, int status, lua_KContext alt) {
  Sched *S = sched_self(L);
  return moving_must_yield(L, S, status, alt) ? park_yield(L, S, &MOVING, moving_alts) : alts(L, &MOVING);
}

int module_moving_alts(lua_State *L) { return moving_alts(L, LUA_OK, 0); }

void lua_alts_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"alts", core_alts}, {NULL, NULL}};
  module_register(L, functions);
}
