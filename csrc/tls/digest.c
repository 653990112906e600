/* digest.c: SHA-256 of bytes that come in pieces, for lua/runnel/http/download.lua. */
#include <lauxlib.h>
#include <openssl/evp.h>

#include "tls/digest.h"

#define DIGEST "runnel.tls.digest"

static EVP_MD_CTX *check(lua_State *L) {
  EVP_MD_CTX **box = (EVP_MD_CTX **)luaL_checkudata(L, 1, DIGEST);
  luaL_argcheck(L, *box, 1, "a digest expected that was not collected");
  return *box;
}

int digest_sha256(lua_State *L) {
  EVP_MD_CTX **box = (EVP_MD_CTX **)lua_newuserdatauv(L, sizeof *box, 0);
  *box = NULL;
  luaL_setmetatable(L, DIGEST);
  *box = EVP_MD_CTX_new();
  if (!*box || EVP_DigestInit_ex(*box, EVP_sha256(), NULL) != 1) return luaL_error(L, "not enough memory");
  return 1;
}

/* digest:update(bytes) */
static int digest_update(lua_State *L) {
  size_t size;
  const char *bytes = luaL_checklstring(L, 2, &size);
  if (EVP_DigestUpdate(check(L), bytes, size) != 1) return luaL_error(L, "OpenSSL cannot compute SHA-256");
  return 0;
}

/* digest:finish() -> 64 hexadecimal digits; nothing may be added then. */
static int digest_finish(lua_State *L) {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_DigestFinal_ex(check(L), bytes, &size) != 1) return luaL_error(L, "OpenSSL cannot compute SHA-256");
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  for (unsigned i = 0; i < size; i++) {
    luaL_addchar(&text, "0123456789abcdef"[bytes[i] >> 4]);
    luaL_addchar(&text, "0123456789abcdef"[bytes[i] & 15]);
  }
  luaL_pushresult(&text);
  return 1;
}

static int digest_gc(lua_State *L) {
  EVP_MD_CTX **box = (EVP_MD_CTX **)luaL_checkudata(L, 1, DIGEST);
  EVP_MD_CTX_free(*box);
  *box = NULL;
  return 0;
}

void digest_open(lua_State *L) {
  static const luaL_Reg methods[] = {{"finish", digest_finish}, {"update", digest_update}, {NULL, NULL}};
  luaL_newmetatable(L, DIGEST);
  lua_pushcfunction(L, digest_gc);
  lua_setfield(L, -2, "__gc");
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
