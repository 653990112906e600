/* shared_pack.c: see shared_pack.h. */
#include "states/shared_pack.h"

#include <lauxlib.h>

#include "errors/error.h"
#include "states/unpack.h"

bool shared_pack(lua_State *L, Sched *S, int value, SharedValue *packed) {
  return pack_value(L, value, &S->sharing->packer, "value", packed);
}

int shared_pack_refuse(lua_State *L, const Sched *S, const char *what) {
  lua_pushfstring(L, "%s: %s", what, S->sharing->packer.message);
  return error_raise(L);
}

bool shared_pack_message(lua_State *L, Sched *S, int value, SharedValue *packed) {
  shared_handle_open(L, S);
  if (shared_pack(L, S, value, packed)) return true;
  lua_pushstring(L, S->sharing->packer.message);
  return false;
}

void shared_pack_push(lua_State *L, Sched *S, const SharedValue *value) {
  shared_handle_open(L, S);
  unpack_value(L, value, shared_handle_push_held);
}

/* Pushes a value and returns true; or pushes an error and returns false. Only strings and what refers to others need
   memory. */
static bool try_push(lua_State *L, const SharedValue *value) {
  if (value->kind <= SHARED_NUMBER) {
    unpack_value(L, value, shared_handle_push_held);
    return true;
  }
  shared_wait_push_part(L, SHARED_UNPACK);
  lua_pushlightuserdata(L, (void *)(uintptr_t)value); /* only read */
  return lua_pcall(L, 1, 1, 0) == LUA_OK;
}

int shared_pack_push_result(lua_State *L, const SharedWaiter *op, SharedResult *result, SharedReturn **given) {
  if (op->kind == SHARED_PUT) {
    lua_pushboolean(L, result->ok);
    return 1;
  }
  if (result->ok) {
    if (LIKELY(try_push(L, &result->value))) {
      shared_value_drop(&result->value);
      return 1;
    }
    shared_wait_give_back(op->chan, &result->value, given);
    return 0;
  }
  lua_pushnil(L);
  if (result->value.kind == SHARED_NIL) return 1;
  (void)try_push(L, &result->value); /* or why it cannot be told */
  shared_value_drop(&result->value);
  return 2;
}
