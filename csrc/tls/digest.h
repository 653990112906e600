/* digest.h: SHA-256 of bytes that come in pieces. */
#ifndef RUNNEL_TLS_DIGEST_H
#define RUNNEL_TLS_DIGEST_H

#include <lua.h>

/* Makes the metatable of digests. */
void digest_open(lua_State *L);

/* sha256() -> a digest: see digest.c. */
int digest_sha256(lua_State *L);

#endif
