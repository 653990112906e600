/* setup.h: helpers that make functions, metatables and weak tables while the core is set up. All may raise. */
#ifndef RUNNEL_SETUP_H
#define RUNNEL_SETUP_H

#include "core/state.h"

/* Pushes a C function of runnel; its first upvalue is the scheduler. */
static inline void setup_push_function(lua_State *L, lua_CFunction f) {
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, f, 1);
}

/* Stores such a function in a user value of the scheduler, so that calling it allocates nothing. */
static inline void setup_keep_function(lua_State *L, int user_value, lua_CFunction f) {
  setup_push_function(L, f);
  lua_setiuservalue(L, SCHED_SELF, user_value);
}

/* Stores an empty table in a user value of the scheduler. */
static inline void setup_keep_table(lua_State *L, int user_value) {
  lua_newtable(L);
  lua_setiuservalue(L, SCHED_SELF, user_value);
}

/* Pushes a metatable with one metamethod. */
static inline void setup_push_meta(lua_State *L, const char *name, lua_CFunction f) {
  lua_createtable(L, 0, 1);
  setup_push_function(L, f);
  lua_setfield(L, -2, name);
}

/* Pushes an empty weak table; `mode` is "k" or "v". */
static inline void setup_push_weak(lua_State *L, const char *mode) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
}

#endif
