/* profile_tree.c: see profile_tree.h. The path of a sample, from the root: the go block; its functions, outermost first,
   each as the place where it begins; behind the innermost function of the program the line that runs or waits in it; and
   of a wait what it is for, and who has ended it. Neither the channel's number nor the go block's is in it: so ten
   thousand go blocks of one line have one path. */
#include "profile/profile_tree.h"

#include <lauxlib.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/attr.h"
#include "errors/name.h"
#include "errors/origin.h"
#include "errors/traceback.h"
#include "lifetimes/root.h"

enum {
  SHOWN = 40,    /* functions of a deep stack that the path has at its beginning, and at its end */
  DEEPEST = 1000 /* of a deeper one only those at its end: lua_getstack takes time in proportion to the level */
};

/* Indices on the stack of profile_tree_add. */
enum { SAMPLE = 1, BLOCK, NAMES, NAMERS, LABELS, PREFIX, NODE };

/* Goes from the node at NODE to its child whose name is on top of L, and popped. */
static void descend(lua_State *L) {
  lua_pushvalue(L, -1);
  if (lua_rawget(L, NODE) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, NODE);
  }
  lua_replace(L, NODE);
  lua_pop(L, 1);
}

/* Adds `ns` to the number at `key` of the node. */
static void count(lua_State *L, int key, int64_t ns) {
  lua_rawgeti(L, NODE, key);
  lua_pushinteger(L, lua_tointeger(L, -1) + ns);
  lua_rawseti(L, NODE, key);
  lua_pop(L, 1);
}

/* ---- functions ---- */

/* Pushes the name by which package.loaded has the function on top of L, such as "string.rep", or nil. */
static void push_loaded_name(lua_State *L) {
  int function = lua_gettop(L), loaded = function + 1;
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (lua_pushnil(L); lua_next(L, loaded); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING || !lua_istable(L, -1)) continue;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
      if (!lua_rawequal(L, -1, function) || lua_type(L, -2) != LUA_TSTRING) continue;
      const char *module = lua_tostring(L, loaded + 1), *name = lua_tostring(L, -2);
      if (strcmp(module, LUA_GNAME) == 0) lua_pushstring(L, name);
      else lua_pushfstring(L, "%s.%s", module, name);
      lua_replace(L, loaded);
      lua_settop(L, loaded);
      return;
    }
  }
  lua_pushnil(L);
  lua_replace(L, loaded);
  lua_settop(L, loaded);
}

/* Pushes the name of the C function of a level, or "" if it has none. It is looked for once; but for each closure, since
   those of a module may share a C function (lua/state/blocking.c), and others, such as iterators, have no module. */
static void push_c_function(lua_State *L, lua_State *co, lua_Debug *ar) {
  lua_getinfo(co, "f", ar);
  lua_xmove(co, L, 1);
  const void *key = lua_topointer(L, -1), *shared = (const void *)(uintptr_t)lua_tocfunction(L, -1);
  if (lua_rawgetp(L, NAMES, key) == LUA_TNIL) {
    lua_pop(L, 1);
    push_loaded_name(L);
    if (lua_isnil(L, -1) && key != shared) key = shared;
    const char *name = lua_isnil(L, -1) ? ar->name : lua_tostring(L, -1);
    if (name) lua_pushfstring(L, "[C] %s", name);
    else lua_pushliteral(L, "");
    lua_replace(L, -2);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, NAMES, key);
  }
  lua_replace(L, -2);
}

/* Pushes "file:line" of the Lua function of a level, and remembers its name. */
static void push_lua_function(lua_State *L, const lua_Debug *ar) {
  lua_pushfstring(L, "%s:%d", ar->short_src, ar->linedefined);
  if (!ar->name) return;
  lua_pushvalue(L, -1);
  if (lua_rawget(L, NAMES) == LUA_TNIL) {
    lua_pushvalue(L, -2);
    lua_pushstring(L, ar->name);
    lua_rawset(L, NAMES);
  }
  lua_pop(L, 1);
}

static bool is_c(const lua_Debug *ar) { return ar->what[0] == 'C'; }

/* Whether a level is a function of the program. */
static bool is_of_program(lua_State *L, const lua_Debug *ar) {
  size_t length;
  const char *prefix = lua_tolstring(L, PREFIX, &length);
  return !is_c(ar) && !(prefix && strncmp(ar->source, prefix, length) == 0);
}

/* Adds the functions of a stack to the path. Functions that C has called below the first Lua function do not count, nor,
   in a wait, the C function that waits. */
static void descend_stack(lua_State *L, const ProfileSample *s) {
  lua_State *co = s->co;
  lua_Debug ar;
  bool is_deepest = lua_getstack(co, DEEPEST, &ar), has_begun = is_deepest;
  int levels = is_deepest ? s->first + SHOWN : traceback_count_levels(co), inner = -1;
  if (is_deepest) {
    lua_pushliteral(L, "...");
    descend(L);
  }
  for (int level = s->first; inner < 0 && lua_getstack(co, level, &ar); level++) {
    lua_getinfo(co, "S", &ar);
    if (is_of_program(L, &ar)) inner = level;
  }
  for (int level = levels - 1, n = 0; level >= s->first; level--, n++) {
    if (n == SHOWN && level - s->first > SHOWN) {
      level = s->first + SHOWN;
      lua_pushliteral(L, "...");
      descend(L);
    }
    lua_getstack(co, level, &ar);
    lua_getinfo(co, "Snl", &ar);
    if (is_c(&ar) ? !has_begun || s->wait : false) continue;
    has_begun = true;
    if (is_c(&ar)) push_c_function(L, co, &ar);
    else push_lua_function(L, &ar);
    if (lua_rawlen(L, -1) == 0) lua_pop(L, 1); /* a function of Lua that was called without a name */
    else descend(L);
    if (level != inner || ar.currentline <= 0) continue;
    lua_pushfstring(L, "line %d", ar.currentline);
    descend(L);
  }
}

/* ---- go blocks and channels ---- */

/* Pushes the channel, which is on the stack of the operation that has waited, or nil. */
static void push_channel(lua_State *L, lua_State *co, const Chan *ch) {
  for (int i = lua_gettop(co); i > 0; i--) {
    if (lua_touserdata(co, i) != ch || !lua_checkstack(co, 1)) continue;
    lua_pushvalue(co, i);
    lua_xmove(co, L, 1);
    return;
  }
  lua_pushnil(L); /* seldom covered: only when memory runs out */
}

/* Pushes the name that the go block with this id has in the tree and returns true, or pushes nothing. */
static bool push_known_label(lua_State *L, uint64_t id) {
  if (lua_rawgeti(L, LABELS, (lua_Integer)id) == LUA_TSTRING) return true;
  lua_pop(L, 1);
  return false;
}

/* Pushes a text for the channel of a wait. */
static void push_channel_name(lua_State *L, lua_State *co, const ProfileWait *w) {
  int at = lua_gettop(L) + 1;
  push_channel(L, w->id ? co : sched_self(L)->outside.co, w->chan);
  const Chan *ch = chan_to(L, at);
  if (!ch) {
    lua_pushliteral(L, "a channel"); /* seldom covered: see above */
  } else if (ch->flags & CHAN_GO) {
    lua_pushliteral(L, "the result of ");
    name_push_label(L, chan_to_go((Chan *)lua_touserdata(L, at)), at);
    if (strcmp(lua_tostring(L, -1), "?") == 0) { /* it has ended, and has no given name */
      lua_pop(L, 1);
      if (!push_known_label(L, ch->id)) lua_pushliteral(L, "a go block");
    }
    lua_concat(L, 2);
  } else {
    attr_push(L, at, ATTR_NAME);
    if (lua_type(L, -1) != LUA_TSTRING) {
      lua_pop(L, 1);
      lua_pushstring(L, ch->flags & CHAN_CLOSES_ITSELF ? "a timeout" : "an unnamed channel");
    }
  }
  lua_replace(L, at);
}

/* Asks the functions of `namers` what a function of the library waits for, from the innermost level. Pushes the name
   and returns true, or pushes nothing. */
static bool push_given_name(lua_State *L, const ProfileSample *s) {
  size_t length = 0;
  const char *prefix = lua_tolstring(L, PREFIX, &length);
  lua_Debug ar;
  for (int level = s->first; prefix && lua_getstack(s->co, level, &ar); level++) {
    lua_getinfo(s->co, "S", &ar);
    if (is_c(&ar)) continue;
    if (strncmp(ar.source, prefix, length) != 0) return false;
    if (lua_getfield(L, NAMERS, ar.source + length) == LUA_TFUNCTION) {
      lua_pushthread(s->co);
      lua_xmove(s->co, L, 1);
      lua_pushinteger(L, s->co == L ? level + 2 : level); /* below this function and debug.getlocal */
      if (lua_pcall(L, 2, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING) return true;
    }
    lua_pop(L, 1);
  }
  return false;
}

/* Pushes who has ended a wait, or may end it. It is a name that a sample's path begins with, if the go block has one. */
static void push_waker(lua_State *L, const ProfileWait *w) {
  static const char *const wakers[] = {[PROFILE_MAIN] = "woken by the main program",
                                       [PROFILE_DRIVER] = "woken by the driver",
                                       [PROFILE_OTHER] = "woken by another thread"};
  if (wakers[w->waker]) {
    lua_pushstring(L, wakers[w->waker]);
    return;
  }
  lua_pushstring(L, w->waker == PROFILE_GO ? "woken by " : w->what == PROFILE_PUT ? "put last by " : "taken last by ");
  if (!push_known_label(L, w->by) && !(w->origin && origin_push(L, w->origin))) {
    if (w->waker == PROFILE_GO) lua_pushfstring(L, "%s:%d", w->source, w->line);
    else lua_pushfstring(L, "#%I", (LUAI_UACINT)w->by);
  }
  lua_concat(L, 2);
}

/* Adds what was waited for, and what has ended the wait. */
static void descend_wait(lua_State *L, const ProfileSample *s) {
  static const char *const texts[] = {"take from ", "put on ", "", "alts: "};
  const ProfileWait *w = s->wait;
  bool is_named = push_given_name(L, s);
  if (!is_named && !w->chan) {
    lua_pushliteral(L, "sleep");
  } else if (!is_named) {
    lua_pushstring(L, texts[w->what]);
    push_channel_name(L, s->co, w);
    lua_concat(L, 2);
  }
  descend(L);
  if (w->waker == PROFILE_NOBODY || !w->chan || is_named) return;
  push_waker(L, w);
  descend(L);
}

/* Adds the go block, unless its name is the place where its function begins, which comes next. */
static void descend_go(lua_State *L, Go *go) {
  if (lua_isnil(L, BLOCK)) {
    root_push(L, go); /* it runs */
    lua_replace(L, BLOCK);
  }
  if (lua_touserdata(L, BLOCK) == go) {
    name_push_label(L, go, BLOCK);
    lua_pushvalue(L, -1);
    lua_rawseti(L, LABELS, (lua_Integer)go->chan.id);
    lua_Debug ar;
    char place[LUA_IDSIZE + 16] = "";
    if (go->alt.co && name_find_function(go->alt.co, &ar))
      (void)snprintf(place, sizeof place, "%s:%d", ar.short_src, ar.linedefined);
    if (strcmp(lua_tostring(L, -1), place) == 0) lua_pop(L, 1);
    else descend(L);
  }
  lua_settop(L, NODE);
}

int profile_tree_add(lua_State *L) {
  const ProfileSample *s = (const ProfileSample *)lua_touserdata(L, SAMPLE);
  lua_settop(L, BLOCK);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (!lua_checkstack(s->co, LUA_MINSTACK)) return 0;
  lua_getiuservalue(L, lua_upvalueindex(2), PROFILE_NAMES);
  lua_getiuservalue(L, lua_upvalueindex(2), PROFILE_NAMERS);
  lua_getiuservalue(L, lua_upvalueindex(2), PROFILE_LABELS);
  origin_push_library(L);
  lua_getiuservalue(L, lua_upvalueindex(2), s->wait ? PROFILE_WAITING : PROFILE_RUNNING);
  if (s->go) descend_go(L, s->go);
  descend_stack(L, s);
  if (s->wait) descend_wait(L, s);
  if (s->is_blocked) {
    lua_pushliteral(L, "blocks the thread");
    descend(L);
  }
  count(L, s->wait ? PROFILE_WAITED : PROFILE_RAN, s->ns);
  return 0;
}
