/* pack: csrc/states/pack.c from Lua, and beside libmsgpackc: runs the Lua file given with the table `pack`:

     pack.bytes(v [, name]) -> bytes, or nil and why not     pack.value(b) -> v, or nil and why not
     pack.through(v) -> v as a value of a shared channel      pack.reference(b) -> b unpacked and packed by libmsgpackc
     pack.seconds() -> CPU time                                pack.chan(), pack.id(chan): a shared channel, and its id */
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef HAVE_MSGPACK
#include <msgpack.h>
#endif

#include "shared/shared_chan.h"
#include "states/pack.h"
#include "states/unpack.h"

static const char CHAN_META[] = "shared channel";

static SharedChan *to_chan(lua_State *L, int index) {
  SharedChan **chan = (SharedChan **)luaL_testudata(L, index, CHAN_META);
  return chan ? *chan : NULL;
}

static void push_chan(lua_State *L, SharedChan *chan) {
  SharedChan **handle = (SharedChan **)lua_newuserdatauv(L, sizeof(SharedChan *), 0);
  *handle = shared_chan_hold(chan);
  luaL_setmetatable(L, CHAN_META);
}

static int chan_gc(lua_State *L) {
  shared_chan_release(*(SharedChan **)luaL_checkudata(L, 1, CHAN_META));
  return 0;
}

static int chan_id(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)shared_chan_id(*(SharedChan **)luaL_checkudata(L, 1, CHAN_META)));
  return 1;
}

static int new_chan(lua_State *L) {
  SharedChan *chan = shared_chan_new(BUFFER_FIXED, 3, NULL);
  push_chan(L, chan);
  shared_chan_release(chan);
  return 1;
}

static Packer *packer(lua_State *L) { return (Packer *)lua_touserdata(L, lua_upvalueindex(1)); }

static Packer the_packer = {.to_chan = to_chan};

static int pack_to_bytes(lua_State *L) {
  Packer *p = packer(L);
  luaL_checkany(L, 1);
  const char *name = luaL_optstring(L, 2, "value");
  int top = lua_gettop(L);
  bool ok = pack_bytes(L, 1, p, name);
  if (lua_gettop(L) != top) return luaL_error(L, "the stack is not as it was");
  if (ok) {
    lua_pushlstring(L, p->bytes, p->size);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, p->message);
  return 2;
}

static int unpack_from_bytes(lua_State *L) {
  size_t n;
  const char *bytes = luaL_checklstring(L, 1, &n);
  char *copy = (char *)malloc(n ? n : 1); /* of its own: a sanitizer sees what reads behind it */
  memcpy(copy, bytes, n);
  const Unpacker none = {0};
  int top = lua_gettop(L);
  const char *wrong = unpack_bytes(L, copy, n, &none);
  free(copy);
  if (lua_gettop(L) != top + !wrong) return luaL_error(L, "the stack is not as it should be");
  if (!wrong) return 1;
  lua_pushnil(L);
  lua_pushstring(L, wrong);
  return 2;
}

static int through(lua_State *L) {
  Packer *p = packer(L);
  SharedValue value;
  if (!pack_value(L, 1, p, "value", &value)) {
    lua_pushnil(L);
    lua_pushstring(L, p->message);
    return 2;
  }
  SharedValue copy = shared_value_copy(&value);
  shared_value_drop(&value);
  unpack_value(L, &copy, push_chan);
  shared_value_drop(&copy);
  return 1;
}

#ifdef HAVE_MSGPACK
static int reference(lua_State *L) {
  size_t n, offset = 0;
  const char *bytes = luaL_checklstring(L, 1, &n);
  msgpack_unpacked unpacked;
  msgpack_unpacked_init(&unpacked);
  if (msgpack_unpack_next(&unpacked, bytes, n, &offset) != MSGPACK_UNPACK_SUCCESS || offset != n) {
    msgpack_unpacked_destroy(&unpacked);
    return luaL_error(L, "libmsgpackc cannot read it");
  }
  msgpack_sbuffer buffer;
  msgpack_sbuffer_init(&buffer);
  msgpack_packer out;
  msgpack_packer_init(&out, &buffer, msgpack_sbuffer_write);
  msgpack_pack_object(&out, unpacked.data);
  lua_pushlstring(L, buffer.data, buffer.size);
  msgpack_sbuffer_destroy(&buffer);
  msgpack_unpacked_destroy(&unpacked);
  return 1;
}
#endif

static int seconds(lua_State *L) {
  struct timespec ts;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
  lua_pushnumber(L, (lua_Number)ts.tv_sec + (lua_Number)ts.tv_nsec / 1e9);
  return 1;
}

int main(int argc, char **argv) {
  if (argc < 2) return fprintf(stderr, "usage: pack FILE.lua [ARGUMENT...]\n"), 2;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_newmetatable(L, CHAN_META);
  lua_pushcfunction(L, chan_gc);
  lua_setfield(L, -2, "__gc");
  static const luaL_Reg functions[] = {{"bytes", pack_to_bytes}, {"value", unpack_from_bytes},
                                       {"through", through},
#ifdef HAVE_MSGPACK
                                       {"reference", reference},
#endif
                                       {"chan", new_chan},       {"id", chan_id},
                                       {"seconds", seconds},     {NULL, NULL}};
  luaL_newlibtable(L, functions);
  lua_pushlightuserdata(L, &the_packer);
  luaL_setfuncs(L, functions, 1);
  lua_setglobal(L, "pack");
  lua_newtable(L);
  for (int i = 2; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - 1);
  }
  lua_setglobal(L, "arg");
  int status = luaL_dofile(L, argv[1]);
  if (status != LUA_OK) fprintf(stderr, "%s\n", lua_tostring(L, -1));
  lua_close(L);
  packer_free(&the_packer);
  return status != LUA_OK;
}
