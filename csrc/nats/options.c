/* options.c: the options of a connection, for libnats. lua/runnel/nats/internal/options.lua has checked their types. */
#include "nats/conn.h"

typedef enum OptionKind { OPTION_STRING, OPTION_BOOLEAN, OPTION_INT, OPTION_MS } OptionKind;

typedef struct Option {
  const char *name; /* in the table */
  OptionKind kind;  /* which of the setters it has */
  natsStatus (*set_string)(natsOptions *, const char *);
  natsStatus (*set_boolean)(natsOptions *, bool);
  natsStatus (*set_int)(natsOptions *, int);
  natsStatus (*set_ms)(natsOptions *, int64_t);
} Option;

#define STRING(f) OPTION_STRING, .set_string = (f)
#define BOOLEAN(f) OPTION_BOOLEAN, .set_boolean = (f)
#define INT(f) OPTION_INT, .set_int = (f)
#define MS(f) OPTION_MS, .set_ms = (f)

/* In the order in which they are set: certificates before what they are used for. */
static const Option OPTIONS[] = {
    {"name", STRING(natsOptions_SetName)},
    {"token", STRING(natsOptions_SetToken)},
    {"inbox_prefix", STRING(natsOptions_SetCustomInboxPrefix)},
    {"connect_timeout", MS(natsOptions_SetTimeout)},
    {"write_timeout", MS(natsOptions_SetWriteDeadline)},
    {"ping_interval", MS(natsOptions_SetPingInterval)},
    {"max_reconnects", INT(natsOptions_SetMaxReconnect)},
    {"reconnect_wait", MS(natsOptions_SetReconnectWait)},
    {"reconnect_buffer", INT(natsOptions_SetReconnectBufSize)},
    {"reconnect", BOOLEAN(natsOptions_SetAllowReconnect)},
    {"in_order", BOOLEAN(natsOptions_SetNoRandomize)},
    {"no_echo", BOOLEAN(natsOptions_SetNoEcho)},
    {"ignore_discovered", BOOLEAN(natsOptions_SetIgnoreDiscoveredServers)},
    {"tls", BOOLEAN(natsOptions_SetSecure)},
    {"tls: ca", STRING(natsOptions_LoadCATrustedCertificates)},
    {"tls: ca text", STRING(natsOptions_SetCATrustedCertificates)},
    {"tls: insecure", BOOLEAN(natsOptions_SkipServerVerification)},
    {"tls: name", STRING(natsOptions_SetExpectedHostname)},
    {"tls: ciphers", STRING(natsOptions_SetCiphers)},
};

/* Sets the option to the value on top of the stack. */
static natsStatus set(lua_State *L, const Option *option, natsOptions *options) {
  switch (option->kind) {
  case OPTION_STRING:
    return option->set_string(options, lua_tostring(L, -1));
  case OPTION_BOOLEAN:
    return option->set_boolean(options, lua_toboolean(L, -1));
  case OPTION_INT:
    return option->set_int(options, (int)lua_tointeger(L, -1));
  case OPTION_MS:
    break;
  }
  return option->set_ms(options, (int64_t)lua_tonumber(L, -1));
}

/* Pushes the fields; both may be nil. */
static void push_two(lua_State *L, int at, const char *first, const char *second) {
  lua_getfield(L, at, first);
  lua_getfield(L, at, second);
}

/* The servers: a list of URLs in the field `servers`. */
static natsStatus set_servers(lua_State *L, int at, natsOptions *options) {
  lua_getfield(L, at, "servers");
  int list = lua_gettop(L), count = (int)lua_rawlen(L, list);
  const char **urls = (const char **)lua_newuserdatauv(L, (size_t)count * sizeof *urls, 0);
  luaL_checkstack(L, count, "too many servers");
  for (int i = 0; i < count; i++) {
    lua_rawgeti(L, list, i + 1);
    urls[i] = lua_tostring(L, -1);
  }
  return natsOptions_SetServers(options, urls, count);
}

natsStatus options_read(lua_State *L, int at, natsOptions *options, const char **name) {
  *name = "servers";
  natsStatus s = set_servers(L, at, options);
  for (size_t i = 0; s == NATS_OK && i < sizeof OPTIONS / sizeof *OPTIONS; i++) {
    *name = OPTIONS[i].name;
    if (lua_getfield(L, at, *name) != LUA_TNIL) s = set(L, &OPTIONS[i], options);
    lua_pop(L, 1);
  }
  if (s != NATS_OK) return s;
  push_two(L, at, *name = "user", "password");
  if (!lua_isnil(L, -2)) s = natsOptions_SetUserInfo(options, lua_tostring(L, -2), lua_tostring(L, -1));
  if (s != NATS_OK) return s;
  push_two(L, at, *name = "tls: cert", "tls: key");
  if (!lua_isnil(L, -2)) s = natsOptions_LoadCertificatesChain(options, lua_tostring(L, -2), lua_tostring(L, -1));
  if (s != NATS_OK) return s;
  push_two(L, at, *name = "tls: cert text", "tls: key text");
  if (!lua_isnil(L, -2)) s = natsOptions_SetCertificatesChain(options, lua_tostring(L, -2), lua_tostring(L, -1));
  if (s != NATS_OK) return s;
  push_two(L, at, *name = "credentials", "credentials_seed");
  if (!lua_isnil(L, -2)) s = natsOptions_SetUserCredentialsFromFiles(options, lua_tostring(L, -2), lua_tostring(L, -1));
  if (s != NATS_OK) return s;
  push_two(L, at, *name = "nkey", "nkey_seed");
  if (!lua_isnil(L, -2)) s = natsOptions_SetNKeyFromSeed(options, lua_tostring(L, -2), lua_tostring(L, -1));
  return s;
}
