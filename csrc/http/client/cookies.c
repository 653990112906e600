/* cookies.c: a jar of cookies that several requests share: a share handle of libcurl. Transfers use it in the client's
   thread, Lua in its own; so libcurl gets functions that lock. Counted: the userdata and each transfer have a hold.

   That does not suffice: releases of libcurl since 8.12 read the cookies for a request after they have unlocked them, and
   Lua's thread might free them then (curl's issue 16838). So Lua uses a jar only while libcurl does not work
   (Client.works). */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/client/client.h"

struct Cookies {
  Handle handle;  /* held also by each transfer */
  CURLSH *share;  /* libcurl's */
  Client *client; /* whose transfers use it, with a hold; NULL: none has yet */
  pthread_mutex_t locks[CURL_LOCK_DATA_LAST];
};

static void lock_data(CURL *easy, curl_lock_data data, curl_lock_access access, void *jar) {
  (void)easy;
  (void)access;
  (void)pthread_mutex_lock(&((Cookies *)jar)->locks[data]);
}

static void unlock_data(CURL *easy, curl_lock_data data, void *jar) {
  (void)easy;
  (void)pthread_mutex_unlock(&((Cookies *)jar)->locks[data]);
}

/* HandleType.free */
static void free_cookies(void *object) {
  Cookies *jar = (Cookies *)object;
  if (jar->share) (void)curl_share_cleanup(jar->share);
  if (jar->client) handle_release(jar->client);
  for (int i = 0; i < CURL_LOCK_DATA_LAST; i++) (void)pthread_mutex_destroy(&jar->locks[i]);
  free(jar);
}

static const HandleType cookies_type = {COOKIES_TYPE, NULL, free_cookies};

static Cookies *check(lua_State *L, int at) { return (Cookies *)handle_check(L, at, COOKIES_TYPE); }

void cookies_use(lua_State *L, Transfer *t) {
  Cookies *jar = check(L, -1);
  t->cookies = (Cookies *)handle_hold(jar); /* also if this fails: the easy handle may have the share then */
  CURLcode code = curl_easy_setopt(t->easy, CURLOPT_SHARE, jar->share);
  if (code == CURLE_OK) code = curl_easy_setopt(t->easy, CURLOPT_COOKIEFILE, ""); /* reads none, but turns cookies on */
  if (code != CURLE_OK) luaL_error(L, "cookies: %s", curl_easy_strerror(code));
  if (!jar->client) jar->client = (Client *)handle_hold(t->client);
}

/* An easy handle that uses the jar; NULL if there is no memory. Until close_jar, no transfer uses it. */
static CURL *open_jar(const Cookies *jar) {
  if (jar->client) (void)pthread_mutex_lock(&jar->client->works);
  CURL *easy = curl_easy_init();
  if (easy) (void)curl_easy_setopt(easy, CURLOPT_SHARE, jar->share);
  return easy;
}

static void close_jar(const Cookies *jar, CURL *easy) {
  curl_easy_cleanup(easy);
  if (jar->client) (void)pthread_mutex_unlock(&jar->client->works);
}

int cookies_new(lua_State *L) {
  Cookies *jar = (Cookies *)handle_new(L, &cookies_type, sizeof *jar, 0);
  for (int i = 0; i < CURL_LOCK_DATA_LAST; i++) (void)pthread_mutex_init(&jar->locks[i], NULL);
  jar->share = curl_share_init();
  if (!jar->share) return luaL_error(L, "not enough memory");
  (void)curl_share_setopt(jar->share, CURLSHOPT_LOCKFUNC, lock_data);
  (void)curl_share_setopt(jar->share, CURLSHOPT_UNLOCKFUNC, unlock_data);
  (void)curl_share_setopt(jar->share, CURLSHOPT_USERDATA, (void *)jar);
  if (curl_share_setopt(jar->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_COOKIE) != CURLSHE_OK)
    return luaL_error(L, "cookies: this libcurl has none, or not enough memory");
  return 1;
}

/* is_cookies(value) -> whether it is a jar */
int cookies_is(lua_State *L) {
  lua_pushboolean(L, luaL_testudata(L, 1, COOKIES_TYPE) != NULL);
  return 1;
}

/* jar:all() -> the cookies, as a list of lines in the format of Netscape's files, as libcurl gives them. */
static int cookies_all(lua_State *L) {
  handle_own(L, COOKIES_TYPE, "jar", "all");
  const Cookies *jar = check(L, 1);
  lua_newtable(L);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  CURL *easy = open_jar(jar);
  struct curl_slist *lines = NULL;
  if (easy) (void)curl_easy_getinfo(easy, CURLINFO_COOKIELIST, &lines);
  close_jar(jar, easy);
  /* A userdata has the lines, so that they are freed if memory runs out. */
  struct curl_slist **held = (struct curl_slist **)lua_touserdata(L, lua_upvalueindex(1));
  curl_slist_free_all(*held);
  *held = lines;
  lua_Integer n = 0;
  for (const struct curl_slist *line = lines; line; line = line->next) {
    lua_pushstring(L, line->data);
    lua_rawseti(L, 2, ++n);
  }
  curl_slist_free_all(lines);
  *held = NULL;
  return 1;
}

static bool is_header(const char *line) { return strncasecmp(line, "Set-Cookie:", 11) == 0; }

/* Removes a cookie's expiry. */
static void keep(char *line) {
  if (is_header(line)) { /* libcurl ignores unknown words: "xxpires=" */
    for (char *at = strchr(line, ';'); at; at = strchr(at, ';')) {
      at += 1 + strspn(at + 1, " \t");
      if (strncasecmp(at, "expires", 7) == 0 || strncasecmp(at, "max-age", 7) == 0) *at = 'x';
    }
    return;
  }
  char *at = line;
  for (int i = 0; i < 4 && at; i++) at = strchr(at, '\t') ? strchr(at, '\t') + 1 : NULL;
  for (; at && *at >= '0' && *at <= '9'; at++) *at = '0';
}

/* Whether libcurl accepts a line as a cookie. It does not say so, so this tests it with a jar. An expired cookie is
   accepted, too, but is in no jar. */
static bool is_cookie(const char *line) {
  char *copy = strdup(line);
  CURL *easy = curl_easy_init();
  struct curl_slist *cookies = NULL;
  if (copy) keep(copy);
  if (copy && easy && curl_easy_setopt(easy, CURLOPT_COOKIELIST, copy) == CURLE_OK)
    (void)curl_easy_getinfo(easy, CURLINFO_COOKIELIST, &cookies);
  bool is = cookies != NULL;
  curl_slist_free_all(cookies);
  curl_easy_cleanup(easy);
  free(copy);
  return is;
}

/* jar:add(line): adds a cookie: a line as above, or a header "Set-Cookie: ...". Raises if it is none. */
static int cookies_add(lua_State *L) {
  handle_own(L, COOKIES_TYPE, "jar", "add");
  const Cookies *jar = check(L, 1);
  size_t size;
  const char *line = luaL_checklstring(L, 2, &size);
  /* Without a tab it may be a command of libcurl's. */
  if (strlen(line) != size || (!is_header(line) && !strchr(line, '\t')) || !is_cookie(line)) {
    return luaL_error(L,
                      "add: no cookie, one that is too long, or not enough memory: \"%s\"; a line as of jar:all(), or "
                      "\"Set-Cookie: name=value; domain=example.org\", expected",
                      lua_pushlstring(L, line, size < 60 ? size : 60));
  }
  CURL *easy = open_jar(jar);
  CURLcode code = easy ? curl_easy_setopt(easy, CURLOPT_COOKIELIST, line) : CURLE_OUT_OF_MEMORY;
  close_jar(jar, easy);
  if (code != CURLE_OK) return luaL_error(L, "add: %s", curl_easy_strerror(code));
  return 0;
}

void cookies_open(lua_State *L) {
  static const luaL_Reg methods[] = {{"add", cookies_add}, {NULL, NULL}};
  handle_open(L, &cookies_type, methods);
  luaL_getmetatable(L, COOKIES_TYPE);
  *(struct curl_slist **)lua_newuserdatauv(L, sizeof(void *), 0) = NULL;
  lua_pushcclosure(L, cookies_all, 1);
  lua_setfield(L, -2, "all");
  lua_pop(L, 1);
}
