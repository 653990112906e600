/* gzip.c: compresses the bodies of a server's responses, and decompresses those of its requests, for
   lua/runnel/http/middleware/compress.lua, with zlib. See client.h. */
#include <lauxlib.h>
#define ZLIB_CONST /* zlib does not change its input */
#include <zlib.h>

#include "http/client/client.h"

#define GZIP "runnel.http.gzip"

/* zlib's number for the format gzip, with the largest window; and its default for memory. */
enum { GZIP_FORMAT = MAX_WBITS + 16, MEMORY_LEVEL = 8 };

/* How many bytes of output are made at once. */
enum { OUTPUT_SIZE = 16 * 1024 };

/* A stream that is compressed, or decompressed. All zeros: it has no memory. */
typedef struct Gzip {
  z_stream z;
  bool inflates; /* it decompresses */
  bool is_open;  /* `z` has memory */
  bool is_whole; /* of one that decompresses: a member has ended, and no other one has begun */
} Gzip;

static Gzip *new_stream(lua_State *L, bool inflates) {
  Gzip *gzip = (Gzip *)lua_newuserdatauv(L, sizeof *gzip, 0);
  *gzip = (Gzip){.inflates = inflates};
  luaL_setmetatable(L, GZIP);
  return gzip;
}

int gzip_deflater(lua_State *L) {
  int level = (int)luaL_checkinteger(L, 1);
  Gzip *gzip = new_stream(L, false);
  gzip->is_open = deflateInit2(&gzip->z, level, Z_DEFLATED, GZIP_FORMAT, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK;
  return gzip->is_open ? 1 : luaL_error(L, "not enough memory");
}

int gzip_inflater(lua_State *L) {
  Gzip *gzip = new_stream(L, true);
  gzip->is_open = inflateInit2(&gzip->z, GZIP_FORMAT) == Z_OK;
  return gzip->is_open ? 1 : luaL_error(L, "not enough memory");
}

int gzip_crc32(lua_State *L) {
  size_t size = 0;
  const char *bytes = luaL_checklstring(L, 2, &size);
  lua_pushinteger(L, (lua_Integer)crc32_z((uLong)luaL_checkinteger(L, 1), (const Bytef *)bytes, size));
  return 1;
}

static Gzip *check(lua_State *L, bool inflates) {
  Gzip *gzip = (Gzip *)luaL_checkudata(L, 1, GZIP);
  luaL_argcheck(L, gzip->is_open && gzip->inflates == inflates, 1, "a stream of this kind expected");
  size_t size = 0;
  gzip->z.next_in = (const Bytef *)luaL_checklstring(L, 2, &size);
  gzip->z.avail_in = (uInt)size; /* a piece of a body, which is much shorter than 4 GB */
  return gzip;
}

/* deflater:deflate(bytes, how) -> what can be sent. `how`: "keep": some may be kept for later; "flush": all of it can be
   decompressed; "finish": the end. */
static int stream_deflate(lua_State *L) {
  static const char *const names[] = {"keep", "flush", "finish", NULL};
  static const int flushes[] = {Z_NO_FLUSH, Z_SYNC_FLUSH, Z_FINISH};
  Gzip *gzip = check(L, false);
  int flush = flushes[luaL_checkoption(L, 3, "keep", names)];
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  do {
    gzip->z.next_out = (Bytef *)luaL_prepbuffsize(&out, OUTPUT_SIZE);
    gzip->z.avail_out = OUTPUT_SIZE;
    (void)deflate(&gzip->z, flush); /* an error is impossible: the state is valid, and there is room */
    luaL_addsize(&out, OUTPUT_SIZE - gzip->z.avail_out);
  } while (gzip->z.avail_out == 0);
  luaL_pushresult(&out);
  return 1;
}

/* inflater:inflate(bytes, max) -> the decompressed bytes | nil, "damaged" | nil, "long", if they are more than `max`. */
static int stream_inflate(lua_State *L) {
  Gzip *gzip = check(L, true);
  lua_Integer left = luaL_checkinteger(L, 3);
  const char *wrong = NULL;
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  while (!wrong && (gzip->z.avail_in > 0 || gzip->z.avail_out == 0)) {
    if (gzip->is_whole && gzip->z.avail_in == 0) break;
    if (gzip->is_whole && inflateReset(&gzip->z) != Z_OK) wrong = "damaged"; /* a further member */
    gzip->z.next_out = (Bytef *)luaL_prepbuffsize(&out, OUTPUT_SIZE);
    gzip->z.avail_out = OUTPUT_SIZE;
    int code = inflate(&gzip->z, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) return luaL_error(L, "not enough memory");
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) wrong = "damaged";
    gzip->is_whole = code == Z_STREAM_END;
    size_t n = OUTPUT_SIZE - gzip->z.avail_out;
    left -= (lua_Integer)n;
    if (left < 0) wrong = "long";
    luaL_addsize(&out, n);
  }
  if (!wrong) {
    luaL_pushresult(&out);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, wrong);
  return 2;
}

/* inflater:is_whole() -> whether the bytes so far end where they may. */
static int stream_is_whole(lua_State *L) {
  lua_pushboolean(L, ((Gzip *)luaL_checkudata(L, 1, GZIP))->is_whole);
  return 1;
}

static int stream_gc(lua_State *L) {
  Gzip *gzip = (Gzip *)luaL_checkudata(L, 1, GZIP);
  if (gzip->is_open) (void)(gzip->inflates ? inflateEnd : deflateEnd)(&gzip->z);
  gzip->is_open = false;
  return 0;
}

void gzip_open(lua_State *L) {
  static const luaL_Reg methods[] = {{"deflate", stream_deflate},
                                     {"inflate", stream_inflate},
                                     {"is_whole", stream_is_whole},
                                     {"__gc", stream_gc},
                                     {NULL, NULL}};
  luaL_newmetatable(L, GZIP);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
