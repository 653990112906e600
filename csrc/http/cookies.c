/* cookies.c: a jar of cookies that several requests share: a share handle of libcurl. Transfers use it in the client's
   thread, Lua in its own; so libcurl gets functions that lock. Counted: the userdata has a hold, and each transfer. */
#include <stdlib.h>

#include "http/client.h"

struct Cookies {
  atomic_uint holds; /* the userdata's, each transfer's */
  CURLSH *share;     /* libcurl's */
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

void cookies_release(Cookies *jar) {
  if (!jar || atomic_fetch_sub(&jar->holds, 1) > 1) return;
  (void)curl_share_cleanup(jar->share);
  for (int i = 0; i < CURL_LOCK_DATA_LAST; i++) (void)pthread_mutex_destroy(&jar->locks[i]);
  free(jar);
}

static Cookies *check(lua_State *L, int at) {
  Cookies *jar = *(Cookies **)luaL_checkudata(L, at, COOKIES_TYPE);
  if (!jar) luaL_error(L, "the cookies are gone"); /* a finalizer uses them after their own */
  return jar;
}

void cookies_use(lua_State *L, Transfer *t) {
  Cookies *jar = check(L, -1);
  CURLcode code = curl_easy_setopt(t->easy, CURLOPT_SHARE, jar->share);
  if (code == CURLE_OK) code = curl_easy_setopt(t->easy, CURLOPT_COOKIEFILE, ""); /* reads none, but turns cookies on */
  if (code != CURLE_OK) luaL_error(L, "cookies: %s", curl_easy_strerror(code));
  atomic_fetch_add(&jar->holds, 1);
  t->cookies = jar;
}

/* An easy handle that uses the jar; NULL if there is no memory. */
static CURL *open_jar(const Cookies *jar) {
  CURL *easy = curl_easy_init();
  if (easy) (void)curl_easy_setopt(easy, CURLOPT_SHARE, jar->share);
  return easy;
}

int cookies_new(lua_State *L) {
  Cookies **at = (Cookies **)lua_newuserdatauv(L, sizeof(void *), 0);
  *at = NULL;
  luaL_setmetatable(L, COOKIES_TYPE);
  Cookies *jar = (Cookies *)calloc(1, sizeof *jar);
  if (!jar) return luaL_error(L, "not enough memory");
  atomic_init(&jar->holds, 1);
  for (int i = 0; i < CURL_LOCK_DATA_LAST; i++) (void)pthread_mutex_init(&jar->locks[i], NULL);
  jar->share = curl_share_init();
  *at = jar;
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
  const Cookies *jar = check(L, 1);
  lua_newtable(L);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  CURL *easy = open_jar(jar);
  struct curl_slist *lines = NULL;
  if (easy) (void)curl_easy_getinfo(easy, CURLINFO_COOKIELIST, &lines);
  curl_easy_cleanup(easy);
  /* The lines are in a userdata, so that they are freed if memory runs out. */
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

/* jar:add(line): adds a cookie: a line as above, or a header "Set-Cookie: ...". */
static int cookies_add(lua_State *L) {
  const Cookies *jar = check(L, 1);
  const char *line = luaL_checkstring(L, 2);
  CURL *easy = open_jar(jar);
  CURLcode code = easy ? curl_easy_setopt(easy, CURLOPT_COOKIELIST, line) : CURLE_OUT_OF_MEMORY;
  curl_easy_cleanup(easy);
  if (code != CURLE_OK) return luaL_error(L, "cookies: %s", curl_easy_strerror(code));
  return 0;
}

static int cookies_gc(lua_State *L) {
  Cookies **at = (Cookies **)luaL_checkudata(L, 1, COOKIES_TYPE);
  cookies_release(*at);
  *at = NULL;
  return 0;
}

void cookies_open(lua_State *L) {
  luaL_newmetatable(L, COOKIES_TYPE);
  lua_pushcfunction(L, cookies_gc);
  lua_setfield(L, -2, "__gc");
  lua_newtable(L);
  *(struct curl_slist **)lua_newuserdatauv(L, sizeof(void *), 0) = NULL;
  lua_pushcclosure(L, cookies_all, 1);
  lua_setfield(L, -2, "all");
  lua_pushcfunction(L, cookies_add);
  lua_setfield(L, -2, "add");
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
