/* handle.c: see handle.h. */
#include "kit/handle.h"

#include <stdlib.h>
#include <string.h>

#include "base/loaded.h"

/* Closes a userdata. */
static void close_box(lua_State *L, Handle **box) {
  Handle *handle = *box;
  if (!handle) return;
  *box = NULL;
  if (handle->type->close) handle->type->close(L, handle);
  handle_release(handle);
}

/* __gc: called only with a userdata of a type, or by a program that has got it by debug.getmetatable. */
static int collect(lua_State *L) {
  close_box(L, (Handle **)luaL_checkudata(L, 1, lua_tostring(L, lua_upvalueindex(1))));
  return 0;
}

void handle_open(lua_State *L, const HandleType *type, const luaL_Reg *methods) {
  (void)stay_loaded(); /* a thread of the module, or of its library, may still run when the state is closed */
  luaL_newmetatable(L, type->name);
  lua_pushstring(L, type->name);
  lua_pushcclosure(L, collect, 1);
  lua_setfield(L, -2, "__gc");
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

static Handle **push(lua_State *L, const HandleType *type, int nuser) {
  Handle **box = (Handle **)lua_newuserdatauv(L, sizeof(Handle *), nuser);
  *box = NULL;
  luaL_setmetatable(L, type->name);
  return box;
}

Handle **handle_push(lua_State *L, const HandleType *type) { return push(L, type, 0); }

void *handle_new(lua_State *L, const HandleType *type, size_t size, int nuser) {
  Handle **box = push(L, type, nuser), *handle = (Handle *)calloc(1, size);
  if (!handle) {
    luaL_error(L, "not enough memory");
    return NULL; /* uncovered: it has raised, which the analyzer does not know */
  }
  handle_init(handle, type);
  *box = handle;
  return handle;
}

void handle_init(void *object, const HandleType *type) {
  Handle *handle = (Handle *)object;
  atomic_init(&handle->holds, 1);
  handle->type = type;
  handle->events = 0;
}

void handle_own(lua_State *L, const char *name, const char *object, const char *method) {
  if (luaL_testudata(L, 1, name)) return;
  luaL_error(L, "%s.%s: call it with a colon: %s:%s(...)", object, method, object, method);
}

void *handle_get(lua_State *L, int at, const char *name) { return *(Handle **)luaL_checkudata(L, at, name); }

void *handle_check(lua_State *L, int at, const char *name) {
  void *object = handle_get(L, at, name);
  if (!object) luaL_error(L, "the %s is closed", strrchr(name, '.') + 1);
  return object;
}

void handle_close(lua_State *L, int at, const char *name) { close_box(L, (Handle **)luaL_checkudata(L, at, name)); }

void handle_keep(lua_State *L, const void *object) {
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, object);
}

bool handle_find(lua_State *L, const void *object) {
  return lua_rawgetp(L, LUA_REGISTRYINDEX, object) == LUA_TUSERDATA;
}

void handle_forget(lua_State *L, const void *object) {
  if (handle_find(L, object)) {
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, object); /* an existing key: allocates nothing */
  }
  lua_pop(L, 1);
}

void *handle_hold(void *object) {
  atomic_fetch_add(&((Handle *)object)->holds, 1);
  return object;
}

void handle_release(void *object) {
  Handle *handle = (Handle *)object;
  if (atomic_fetch_sub(&handle->holds, 1) == 1) handle->type->free(handle);
}
