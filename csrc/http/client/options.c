/* options.c: options with libcurl's names. lua/runnel/http/http_options.lua has checked the types. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/client/client.h"

typedef enum Kind { STRING, BOOLEAN, INTEGER, BIG_INTEGER, LIST, CHOICE } Kind;

/* As in lua/runnel/http/http_options.lua; of a CHOICE it has the names. */
static const char *const KIND_NAMES[] = {"string", "boolean", "integer", "integer", "list"};

typedef struct Choice {
  const char *name;
  long value;
} Choice;

static const Choice HTTP_VERSIONS[] = {{"1.0", CURL_HTTP_VERSION_1_0},
                                       {"1.1", CURL_HTTP_VERSION_1_1},
                                       {"2", CURL_HTTP_VERSION_2_0},
                                       {"2tls", CURL_HTTP_VERSION_2TLS},
                                       {"2-prior-knowledge", CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE},
                                       {NULL, 0}};
static const Choice IP_VERSIONS[] = {
    {"any", CURL_IPRESOLVE_WHATEVER}, {"4", CURL_IPRESOLVE_V4}, {"6", CURL_IPRESOLVE_V6}, {NULL, 0}};
static const Choice TLS_VERSIONS[] = {{"1.2", CURL_SSLVERSION_TLSv1_2}, {"1.3", CURL_SSLVERSION_TLSv1_3}, {NULL, 0}};
static const Choice LOGINS[] = {{"basic", CURLAUTH_BASIC},         {"digest", CURLAUTH_DIGEST},
                                {"negotiate", CURLAUTH_NEGOTIATE}, {"bearer", CURLAUTH_BEARER},
                                {"any", (long)CURLAUTH_ANY},       {NULL, 0}};

typedef struct Option {
  const char *name;      /* libcurl's, in lower case, without CURLOPT_ */
  Kind kind;             /* its setter */
  CURLoption option;     /* libcurl's number */
  const Choice *choices; /* of a CHOICE */
} Option;

static const Option OPTIONS[] = {
    {"accept_encoding", STRING, CURLOPT_ACCEPT_ENCODING, NULL},
    {"aws_sigv4", STRING, CURLOPT_AWS_SIGV4, NULL},
    {"cainfo", STRING, CURLOPT_CAINFO, NULL},
    {"capath", STRING, CURLOPT_CAPATH, NULL},
    {"connect_to", LIST, CURLOPT_CONNECT_TO, NULL},
    {"cookie", STRING, CURLOPT_COOKIE, NULL},
    {"cookiefile", STRING, CURLOPT_COOKIEFILE, NULL},
    {"cookiejar", STRING, CURLOPT_COOKIEJAR, NULL},
    {"crlfile", STRING, CURLOPT_CRLFILE, NULL},
    {"dns_cache_timeout", INTEGER, CURLOPT_DNS_CACHE_TIMEOUT, NULL},
    {"forbid_reuse", BOOLEAN, CURLOPT_FORBID_REUSE, NULL},
    {"fresh_connect", BOOLEAN, CURLOPT_FRESH_CONNECT, NULL},
    {"http_version", CHOICE, CURLOPT_HTTP_VERSION, HTTP_VERSIONS},
    {"httpauth", CHOICE, CURLOPT_HTTPAUTH, LOGINS},
    {"httpproxytunnel", BOOLEAN, CURLOPT_HTTPPROXYTUNNEL, NULL},
    {"interface", STRING, CURLOPT_INTERFACE, NULL},
    {"ipresolve", CHOICE, CURLOPT_IPRESOLVE, IP_VERSIONS},
    {"keypasswd", STRING, CURLOPT_KEYPASSWD, NULL},
    {"low_speed_limit", INTEGER, CURLOPT_LOW_SPEED_LIMIT, NULL},
    {"low_speed_time", INTEGER, CURLOPT_LOW_SPEED_TIME, NULL},
    {"max_recv_speed_large", BIG_INTEGER, CURLOPT_MAX_RECV_SPEED_LARGE, NULL},
    {"max_send_speed_large", BIG_INTEGER, CURLOPT_MAX_SEND_SPEED_LARGE, NULL},
    {"netrc", BOOLEAN, CURLOPT_NETRC, NULL}, /* CURL_NETRC_OPTIONAL is 1 */
    {"netrc_file", STRING, CURLOPT_NETRC_FILE, NULL},
    {"noproxy", STRING, CURLOPT_NOPROXY, NULL},
    {"path_as_is", BOOLEAN, CURLOPT_PATH_AS_IS, NULL},
    {"pinnedpublickey", STRING, CURLOPT_PINNEDPUBLICKEY, NULL},
    {"proxy", STRING, CURLOPT_PROXY, NULL},
    {"proxy_cainfo", STRING, CURLOPT_PROXY_CAINFO, NULL},
    {"proxyauth", CHOICE, CURLOPT_PROXYAUTH, LOGINS},
    {"proxyuserpwd", STRING, CURLOPT_PROXYUSERPWD, NULL},
    {"range", STRING, CURLOPT_RANGE, NULL},
    {"referer", STRING, CURLOPT_REFERER, NULL},
    {"resolve", LIST, CURLOPT_RESOLVE, NULL},
    {"ssl_cipher_list", STRING, CURLOPT_SSL_CIPHER_LIST, NULL},
    {"ssl_verifyhost", BOOLEAN, CURLOPT_SSL_VERIFYHOST, NULL},
    {"ssl_verifypeer", BOOLEAN, CURLOPT_SSL_VERIFYPEER, NULL},
    {"sslcert", STRING, CURLOPT_SSLCERT, NULL},
    {"sslcerttype", STRING, CURLOPT_SSLCERTTYPE, NULL},
    {"sslkey", STRING, CURLOPT_SSLKEY, NULL},
    {"sslkeytype", STRING, CURLOPT_SSLKEYTYPE, NULL},
    {"sslversion", CHOICE, CURLOPT_SSLVERSION, TLS_VERSIONS},
    {"tcp_keepalive", BOOLEAN, CURLOPT_TCP_KEEPALIVE, NULL},
    {"tls13_ciphers", STRING, CURLOPT_TLS13_CIPHERS, NULL},
    {"unix_socket_path", STRING, CURLOPT_UNIX_SOCKET_PATH, NULL},
    {"useragent", STRING, CURLOPT_USERAGENT, NULL},
    {"userpwd", STRING, CURLOPT_USERPWD, NULL},
    {"xoauth2_bearer", STRING, CURLOPT_XOAUTH2_BEARER, NULL},
};

enum { NOPTIONS = sizeof OPTIONS / sizeof *OPTIONS };

/* Pushes the list of the names of choices. */
static void push_names(lua_State *L, const Choice *choices) {
  lua_newtable(L);
  for (lua_Integer i = 1; choices->name; choices++, i++) {
    lua_pushstring(L, choices->name);
    lua_rawseti(L, -2, i);
  }
}

void options_push(lua_State *L) {
  lua_createtable(L, 0, NOPTIONS);
  for (size_t i = 0; i < NOPTIONS; i++) {
    if (OPTIONS[i].kind == CHOICE) push_names(L, OPTIONS[i].choices);
    else lua_pushstring(L, KIND_NAMES[OPTIONS[i].kind]);
    lua_setfield(L, -2, OPTIONS[i].name);
  }
}

static const Option *find(const char *name) {
  for (size_t i = 0; i < NOPTIONS; i++) {
    if (strcmp(OPTIONS[i].name, name) == 0) return &OPTIONS[i];
  }
  return NULL; /* uncovered: Lua passes on only known names */
}

void options_must(lua_State *L, const char *name, CURLcode code) {
  if (code == CURLE_OK) return;
  luaL_error(L, "%s: %s", name, code == CURLE_OUT_OF_MEMORY ? "not enough memory" : curl_easy_strerror(code));
}

/* Adds a string to one of the transfer's lists; raises if there is no memory. */
static void add_line(lua_State *L, struct curl_slist **list, const char *line) {
  struct curl_slist *longer = curl_slist_append(*list, line);
  if (!longer) luaL_error(L, "not enough memory");
  *list = longer;
}

void options_set_list(lua_State *L, const char *name, CURLoption option, Transfer *t, struct curl_slist **list) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    add_line(L, list, luaL_checkstring(L, -1));
    lua_pop(L, 1);
  }
  options_must(L, name, curl_easy_setopt(t->easy, option, *list));
}

/* Sets an option to the string on top of the stack, which is one of its choices. */
static void set_choice(lua_State *L, const Option *option, Transfer *t) {
  const char *name = luaL_checkstring(L, -1);
  for (const Choice *choice = option->choices; choice->name; choice++) {
    if (strcmp(choice->name, name) == 0)
      options_must(L, option->name, curl_easy_setopt(t->easy, option->option, choice->value));
  }
}

/* The string on top of the stack names the requested codings. Leaves decompressing to libcurl if decode.c does not know
   one of them; "" stands for all that libcurl knows. */
static void choose_decoder(lua_State *L, Transfer *t) {
  const char *codings = luaL_checkstring(L, -1);
  t->is_decoded = !*codings || strstr(codings, "br") || strstr(codings, "zstd");
  options_must(L, "accept_encoding", curl_easy_setopt(t->easy, CURLOPT_HTTP_CONTENT_DECODING, t->is_decoded ? 1L : 0L));
}

void options_set(lua_State *L, const char *name, Transfer *t) {
  const Option *option = find(name);
  if (!option) return;
  CURLcode code = CURLE_OK;
  if (option->choices == LOGINS) t->logs_in = true;
  if (option->option == CURLOPT_COOKIE) t->has_cookie = true;
  if (option->option == CURLOPT_ACCEPT_ENCODING) choose_decoder(L, t);
  switch (option->kind) {
  case STRING:
    code = curl_easy_setopt(t->easy, option->option, luaL_checkstring(L, -1));
    break;
  case BOOLEAN: { /* 2 is what checks the name of the host */
    long yes = option->option == CURLOPT_SSL_VERIFYHOST ? 2L : 1L;
    code = curl_easy_setopt(t->easy, option->option, lua_toboolean(L, -1) ? yes : 0L);
    break;
  }
  case INTEGER: {
    lua_Integer n = luaL_checkinteger(L, -1);
    code = curl_easy_setopt(t->easy, option->option, n > LONG_MAX ? LONG_MAX : (long)n);
    break;
  }
  case BIG_INTEGER:
    code = curl_easy_setopt(t->easy, option->option, (curl_off_t)luaL_checkinteger(L, -1));
    break;
  case LIST:
    options_set_list(L, option->name, option->option, t, &t->lists[t->nlists++]);
    break;
  case CHOICE:
    set_choice(L, option, t);
    break;
  }
  options_must(L, option->name, code);
}
