/* inspect.c: see inspect.h. */
#include "errors/inspect.h"

#include <lauxlib.h>
#include <stdint.h>
#include <string.h>

#include "core/others.h"
#include "errors/error.h"
#include "errors/name.h"
#include "lifetimes/root.h"

lua_Integer inspect_push_channels(lua_State *L, const Alt *alt) {
  lua_Integer n = 0;
  alt = others_shown(alt);
  lua_createtable(L, (int)alt->count, 0);
  for (uint32_t i = 0; i < alt->count; i++) {
    const Waiter *w = &alt_waiters(alt)[i];
    if (chan_is_hidden(w->chan)) continue;
    alt_push_channel(L, w);
    lua_rawseti(L, -2, ++n);
  }
  return n;
}

void inspect_set_operation(lua_State *L, const Alt *alt) {
  alt = others_shown(alt);
  const Waiter *first = alt_waiters(alt);
  const char *what = first->is_put ? "put" : "take";
  if (alt->flags & ALT_SELECT) {
    what = inspect_push_channels(L, alt) ? "alts" : "idle";
    lua_setfield(L, -2, "channels");
  } else if (chan_is_hidden(first->chan)) {
    what = "idle";
  } else {
    alt_push_channel(L, first); /* first, since an allocation may run a finalizer that ends the go block */
    lua_setfield(L, -2, "channel");
  }
  lua_pushstring(L, what);
  lua_setfield(L, -2, "operation");
}

const Waiter *inspect_used_up(const Alt *alt) {
  for (uint32_t i = 0; i < alt->count && alt_is_active(alt); i++) {
    const Waiter *w = &alt_waiters(alt)[i];
    const Chan *ch = w->chan;
    if (ch->buf.kind != BUFFER_FIXED || ch->flags & (CHAN_SPECIAL | CHAN_GO) || chan_is_hidden(ch)) continue;
    if (w->is_put || ch->take_total) return w;
  }
  return NULL;
}

/* Whether an alt waits for the same operation on the same channel as a waiter. */
static bool waits_too(const Alt *alt, const Waiter *w) {
  for (uint32_t i = 0; i < alt->count; i++) {
    const Waiter *own = &alt_waiters(alt)[i];
    if (own->chan == w->chan && own->is_put == w->is_put) return true;
  }
  return false;
}

void inspect_set_holder(lua_State *L, const Alt *alt, const Waiter *w, Go *go, int at) {
  const Chan *ch = w->chan;
  const Sched *S = ch->sched;
  uint64_t id = ch->last;
  bool is_put = w->is_put, is_self = id == sched_owner_id(S, alt);
  bool is_alts = alt->flags & ALT_SELECT, was_given_back = ch->put_total != ch->buf.limit || alt->flags & ALT_LOOP;
  if (go && chan_is_hidden(&go->chan)) return;
  if (was_given_back && (id == 0 || go) && waits_too(go ? &go->alt : &S->outside, w)) return;
  if (is_alts) alt_push_channel(L, w); /* first, since an allocation may run a finalizer that ends the go block */
  else lua_pushnil(L);
  lua_createtable(L, 0, 4);
  lua_insert(L, -2);
  lua_setfield(L, -2, "channel");
  lua_pushinteger(L, (lua_Integer)id);
  lua_setfield(L, -2, "id");
  lua_pushstring(L, is_put ? "put" : "take");
  lua_setfield(L, -2, "operation");
  if (go) name_push_go(L, go, at);
  else if (id == 0) lua_pushliteral(L, "the main program");
  else lua_pushnil(L);
  lua_setfield(L, -2, "name");
  lua_pushboolean(L, is_self);
  lua_setfield(L, -2, "is_self");
  lua_setfield(L, -2, "holder");
}

/* (alt, entry): sets the field `holder` of the entry for the operation that waits outside any go block. */
static int set_holder_outside(lua_State *L) {
  const Alt *alt = (const Alt *)lua_touserdata(L, 1);
  const Waiter *w = inspect_used_up(alt);
  uint64_t id = w ? w->chan->last : 0;
  uint32_t n = id ? root_push_list(L) : 0;
  Go *found = NULL;
  for (uint32_t i = 1; i <= n && !found; i++) {
    lua_settop(L, 3);
    Go *go = root_push_listed(L, 3, i);
    if (go && go->chan.id == id) found = go;
  }
  int at = lua_gettop(L);
  w = inspect_used_up(alt); /* again: a finalizer may have run */
  if (!w || w->chan->last != id) return 0;
  lua_pushvalue(L, 2);
  inspect_set_holder(L, alt, w, found, at);
  return 0;
}

/* Protected: (alt, name of the operation, scheduler) -> what inspect_push_waiting pushes. */
static int describe_waiting(lua_State *L) {
  const Alt *alt = (const Alt *)lua_touserdata(L, 1);
  const char *what = (const char *)lua_touserdata(L, 2);
  lua_createtable(L, 0, 4);
  if (alt->flags & ALT_SELECT || strcmp(what, "take") == 0 || strcmp(what, "put") == 0) {
    inspect_set_operation(L, alt);
    lua_pushvalue(L, 3);
    lua_pushcclosure(L, set_holder_outside, 1);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 4);
    lua_call(L, 2, 0);
  }
  lua_pushboolean(L, alt->flags & ALT_LOOP);
  lua_setfield(L, -2, "loops");
  return 1;
}

void inspect_push_waiting(lua_State *L, Alt *alt, const char *what) {
  if (lua_checkstack(L, LUA_MINSTACK)) {
    lua_pushcfunction(L, describe_waiting);
    lua_pushlightuserdata(L, alt);
    lua_pushlightuserdata(L, (void *)(uintptr_t)what); /* only ever read through a const pointer */
    lua_pushvalue(L, SCHED_SELF);
    if (lua_pcall(L, 3, 1, 0) == LUA_OK) return;
    lua_pop(L, 1); /* uncovered: only when memory runs out */
  }
  lua_pushnil(L); /* uncovered: see above */
}

bool inspect_write_report(lua_State *L, const char *name, int n) {
  int base = lua_gettop(L) - n + 1;
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_REPORTS) == LUA_TTABLE) {
    lua_getfield(L, -1, name);
    lua_replace(L, -2);
    lua_insert(L, base);
    if (lua_pcall(L, n, 1, 0) == LUA_OK && lua_isstring(L, base)) return true;
  }
  lua_settop(L, base - 1);
  return false;
}

int inspect_raise_deadlock(lua_State *L, const char *what) {
  Sched *S = sched_self(L);
  lua_pushstring(L, what);
  lua_pushboolean(L, S->is_stuck);
  if (!inspect_write_report(L, "deadlock", 3)) lua_pushfstring(L, "deadlock: %s would wait for ever", what);
  S->deadlocked = what; /* last: a finalizer may have done so meanwhile */
  return error_raise(L);
}
