/* packing.c: core.internal.pack and unpack: values as bytes and back, for messages between machines. */
#include "core/setup.h"
#include "lua/module.h"
#include "states/pack.h"
#include "states/unpack.h"

static int free_packer(lua_State *L) {
  packer_free((Packer *)lua_touserdata(L, 1));
  return 0;
}

/* pack(value, name) -> bytes | nil, message: the value as MessagePack (states/pack.h), without shared channels. `name`
   is what the message calls the value. */
static int internal_pack(lua_State *L) {
  Packer *packer = (Packer *)lua_touserdata(L, lua_upvalueindex(1));
  luaL_checkany(L, 1);
  const char *name = luaL_checkstring(L, 2);
  if (!pack_bytes(L, 1, packer, name)) {
    lua_pushnil(L);
    lua_pushstring(L, packer->message);
    return 2;
  }
  lua_pushlstring(L, packer->bytes, packer->size);
  return 1;
}

/* unpack(bytes, from, to) -> value | nil, message: the packed value. The message says why the bytes are invalid. */
static int internal_unpack(lua_State *L) {
  size_t size;
  const char *bytes = luaL_checklstring(L, 1, &size);
  lua_Integer from = luaL_optinteger(L, 2, 1), to = luaL_optinteger(L, 3, (lua_Integer)size);
  luaL_argcheck(L, from >= 1 && (lua_Unsigned)from <= size + 1, 2, "not a position in the bytes");
  luaL_argcheck(L, to >= from - 1 && (lua_Unsigned)to <= size, 3, "not a position in the bytes");
  static const Unpacker unpacker = {NULL, NULL, 0};
  const char *wrong = unpack_bytes(L, bytes + from - 1, (size_t)(to - from + 1), &unpacker);
  if (!wrong) return 1;
  lua_pushnil(L);
  lua_pushstring(L, wrong);
  return 2;
}

void lua_packing_open(lua_State *L) {
  static const luaL_Reg unpack[] = {{"unpack", internal_unpack}, {NULL, NULL}};
  module_register(L, unpack);
  Packer *packer = (Packer *)lua_newuserdatauv(L, sizeof *packer, 0);
  *packer = (Packer){.to_chan = NULL};
  setup_push_meta(L, "__gc", free_packer);
  lua_setmetatable(L, -2);
  lua_pushcclosure(L, internal_pack, 1);
  lua_setfield(L, -2, "pack");
}
