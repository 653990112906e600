/* context.c: see context.h. */
#include "tls/context.h"

#include <string.h>

#include "tls/verify.h"

/* HandleType.free */
static void free_context(void *object) {
  TlsContext *context = (TlsContext *)object;
  if (context->setup) setup_release(context->setup);
  if (context->next) setup_release(context->next);
  (void)pthread_mutex_destroy(&context->lock);
  free(context);
}

static const HandleType context_type = {CONTEXT_TYPE, NULL, free_context};

Setup *context_setup(TlsContext *context) {
  (void)pthread_mutex_lock(&context->lock);
  Setup *setup = setup_hold(context->setup);
  (void)pthread_mutex_unlock(&context->lock);
  return setup;
}

/* ---- options ---- */

/* The string in a field, or NULL; it stays on the stack. */
static const char *get_string(lua_State *L, int table, const char *name) {
  return lua_getfield(L, table, name) == LUA_TNIL ? NULL : luaL_checkstring(L, -1);
}

/* Adds the certificate that the table at an index names. */
static bool add_identity(lua_State *L, int table, TlsContext *context) {
  const char *cert = get_string(L, table, "cert"), *key = get_string(L, table, "key");
  const char *password = get_string(L, table, "password");
  return setup_add_identity(context->next, cert, key, password, &context->why);
}

static bool add_more(lua_State *L, int options, TlsContext *context) {
  if (lua_getfield(L, options, "more") == LUA_TNIL) return true;
  int list = lua_gettop(L);
  for (lua_Integer i = 1; lua_rawgeti(L, list, i) != LUA_TNIL; i++) {
    if (!add_identity(L, lua_gettop(L), context)) return false;
    lua_settop(L, list);
  }
  return true;
}

static bool add_protocols(lua_State *L, int options, TlsContext *context) {
  if (lua_getfield(L, options, "alpn") == LUA_TNIL) return true;
  int list = lua_gettop(L);
  for (lua_Integer i = 1; lua_rawgeti(L, list, i) != LUA_TNIL; i++) {
    size_t length;
    const char *name = luaL_checklstring(L, -1, &length);
    if (!setup_add_protocol(context->next, name, length, &context->why)) return false;
    lua_settop(L, list);
  }
  return true;
}

/* Whether the other end must have a certificate. */
static SetupVerify get_verify(lua_State *L, int options, bool is_server, bool has_ca) {
  if (is_server) {
    const char *verify = get_string(L, options, "verify");
    if (!verify) return has_ca ? SETUP_REQUIRED : SETUP_NO_VERIFY;
    return strcmp(verify, "optional") == 0 ? SETUP_OPTIONAL : SETUP_REQUIRED;
  }
  (void)lua_getfield(L, options, "insecure");
  return lua_toboolean(L, -1) ? SETUP_NO_VERIFY : SETUP_REQUIRED;
}

/* Makes context->next from the options at an index; false, with context->why, on failure. Raises if Lua runs out of
   memory. */
static bool make_setup(lua_State *L, int options, TlsContext *context) {
  if (context->next) setup_release(context->next);
  context->next = setup_new(context->is_server, &context->why);
  if (!context->next) return false;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  const char *cert = get_string(L, options, "cert"), *ca = get_string(L, options, "ca");
  if (cert && !add_identity(L, options, context)) return false;
  if (!add_more(L, options, context) || !add_protocols(L, options, context)) return false;
  SetupVerify verify = get_verify(L, options, context->is_server, ca != NULL);
  if (verify != SETUP_NO_VERIFY && !setup_trust(context->next, ca, &context->why)) return false;
  const char *host = get_string(L, options, "name");
  if (host && !setup_expect(context->next, host, &context->why)) return false;
  return setup_finish(context->next, verify, verify_certificate, &context->why);
}

/* Replaces the setup by a new one. Pushes `true`, or nil and an error. */
static bool load(lua_State *L, int options, TlsContext *context) {
  if (!make_setup(L, options, context)) {
    lua_pushnil(L);
    lua_pushstring(L, context->why.text);
    return false;
  }
  (void)pthread_mutex_lock(&context->lock);
  Setup *old = context->setup;
  context->setup = context->next;
  (void)pthread_mutex_unlock(&context->lock);
  context->next = NULL;
  if (old) setup_release(old);
  return true;
}

int context_new(lua_State *L) {
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  TlsContext *context = (TlsContext *)handle_new(L, &context_type, sizeof *context, 1);
  (void)pthread_mutex_init(&context->lock, NULL);
  context->is_server = lua_toboolean(L, 1);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, 3, 1);
  if (!load(L, 2, context)) return 2;
  lua_settop(L, 3);
  return 1;
}

/* context:reload() -> true, or nil and an error */
static int context_reload(lua_State *L) {
  handle_own(L, CONTEXT_TYPE, "context", "reload");
  TlsContext *context = (TlsContext *)handle_check(L, 1, CONTEXT_TYPE);
  lua_settop(L, 1);
  (void)lua_getiuservalue(L, 1, 1);
  if (!load(L, 2, context)) return 2;
  lua_pushboolean(L, 1);
  return 1;
}

int context_kind(lua_State *L) {
  TlsContext **box = (TlsContext **)luaL_testudata(L, 1, CONTEXT_TYPE);
  if (box && *box) lua_pushstring(L, (*box)->is_server ? "server" : "client");
  else lua_pushnil(L);
  return 1;
}

static int context_tostring(lua_State *L) {
  const TlsContext *context = (const TlsContext *)handle_get(L, 1, CONTEXT_TYPE);
  lua_pushfstring(L, "%s (of a %s)", CONTEXT_TYPE, context && context->is_server ? "server" : "client");
  return 1;
}

void context_open(lua_State *L) {
  static const luaL_Reg methods[] = {{"reload", context_reload}, {"__tostring", context_tostring}, {NULL, NULL}};
  handle_open(L, &context_type, methods);
}
