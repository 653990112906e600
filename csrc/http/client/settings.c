/* settings.c: applies the settings of a request to its easy handle. lua/runnel/http/http_options.lua has checked the
   types. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/client/client.h"

/* The default limits: bytes of the body, redirects, ms to connect. */
enum { BODY_MAX = 64 << 20, REDIRECTS = 10, CONNECT_MS = 10000 };

/* How many further requests a server may cause that are no redirects: to log in, for example. libcurl counts them like
   redirects, which redirect.c counts therefore; and the most that it counts. */
enum { LOGINS = 10, COUNT_MAX = 0x7fff };

void settings_push_limits(lua_State *L) {
  lua_createtable(L, 0, 3);
  lua_pushinteger(L, BODY_MAX);
  lua_setfield(L, -2, "max");
  lua_pushinteger(L, REDIRECTS);
  lua_setfield(L, -2, "redirects");
  lua_pushinteger(L, CONNECT_MS);
  lua_setfield(L, -2, "connect_timeout");
}

static int field(lua_State *L, int at, const char *name) { return lua_getfield(L, at, name); }

/* An integer setting. */
static lua_Integer get_integer(lua_State *L, int at, const char *name, lua_Integer otherwise) {
  lua_Integer n = field(L, at, name) == LUA_TNIL ? otherwise : luaL_checkinteger(L, -1);
  lua_pop(L, 1);
  return n;
}

static bool get_boolean(lua_State *L, int at, const char *name) {
  (void)field(L, at, name);
  bool is = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return is;
}

static Method method_of(const char *name) {
  if (strcmp(name, "GET") == 0) return METHOD_GET;
  if (strcmp(name, "HEAD") == 0) return METHOD_HEAD;
  return strcmp(name, "POST") == 0 ? METHOD_POST : METHOD_OTHER;
}

/* The method, and libcurl's behaviour for it. A custom method is kept after a redirect. */
static void set_method(lua_State *L, int at, Transfer *t) {
  (void)field(L, at, "method");
  const char *method = luaL_optstring(L, -1, "GET");
  CURL *easy = t->easy;
  CURLcode code = CURLE_OK;
  t->method = method_of(method);
  if (t->method == METHOD_GET) code = curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
  else if (t->method == METHOD_HEAD) code = curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  else if (t->method == METHOD_POST) code = curl_easy_setopt(easy, CURLOPT_POSTFIELDS, ""); /* else it reads stdin */
  else code = curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
  options_must(L, "method", code);
  /* For libcurl, every request with a body is a POST, which a redirect makes a GET unless an option prevents that. */
  if (t->method != METHOD_POST) {
    long kept = CURL_REDIR_POST_301 | CURL_REDIR_POST_302 | (t->method == METHOD_OTHER ? 0L : CURL_REDIR_POST_303);
    options_must(L, "method", curl_easy_setopt(easy, CURLOPT_POSTREDIR, kept));
  }
  lua_pop(L, 1);
}

/* With a body, libcurl would make the method POST or PUT. */
static void keep_method(lua_State *L, int at, Transfer *t, const char *usual) {
  (void)field(L, at, "method");
  const char *method = luaL_optstring(L, -1, "POST");
  if (strcmp(method, usual) != 0) options_must(L, "method", curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, method));
  lua_pop(L, 1);
}

/* A body of a known or unknown size that a function of transfer.c reads. Only POST allows a redirect to make it a
   GET. */
static void set_upload(lua_State *L, int at, Transfer *t, curl_off_t size) {
  bool is_post = t->method == METHOD_POST;
  CURLoption size_option = is_post ? CURLOPT_POSTFIELDSIZE_LARGE : CURLOPT_INFILESIZE_LARGE;
  if (is_post) options_must(L, "body", curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, NULL));
  else options_must(L, "body", curl_easy_setopt(t->easy, CURLOPT_UPLOAD, 1L));
  if (size >= 0) options_must(L, "body", curl_easy_setopt(t->easy, size_option, size));
  keep_method(L, at, t, is_post ? "POST" : "PUT");
}

/* The rest of a file that Lua has opened; read through a descriptor of its own, so that Lua may close the file. */
static void set_file(lua_State *L, int at, Transfer *t) {
  luaL_Stream *stream = (luaL_Stream *)luaL_checkudata(L, -1, LUA_FILEHANDLE);
  if (!stream->closef) luaL_error(L, "body: the file is closed");
  struct stat info;
  off_t from = ftello(stream->f);
  if (fstat(fileno(stream->f), &info) != 0 || !S_ISREG(info.st_mode) || from < 0)
    luaL_error(L, "body: a file on a disk expected; for anything else use a channel, as uv.lines or uv.spawn give one");
  off_t end = info.st_size > from ? info.st_size : from;
  int fd = fcntl(fileno(stream->f), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) luaL_error(L, "body: the descriptor of the file cannot be copied: %s", strerror(errno));
  t->file = sent_file_new(t, fd, "", from, end);
  if (!t->file) {
    (void)close(fd);
    luaL_error(L, "not enough memory");
  }
  set_upload(L, at, t, (curl_off_t)(end - from));
}

static void set_body(lua_State *L, int at, Transfer *t) {
  int type = field(L, at, "body");
  t->is_fed = get_boolean(L, at, "is_fed");
  if (t->is_fed) {
    set_upload(L, at, t, get_integer(L, at, "body_size", -1));
  } else if (type == LUA_TSTRING) {
    size_t size;
    const char *bytes = lua_tolstring(L, -1, &size);
    options_must(L, "body", curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size));
    options_must(L, "body", curl_easy_setopt(t->easy, CURLOPT_COPYPOSTFIELDS, bytes));
    keep_method(L, at, t, "POST");
  } else if (type == LUA_TUSERDATA) {
    set_file(L, at, t);
  }
  lua_pop(L, 1);
}

/* A field of a part of a multipart body: a string, or NULL. It stays on the stack. */
static const char *part_field(lua_State *L, const char *name, size_t *size) {
  return field(L, -1, name) == LUA_TNIL ? NULL : luaL_checklstring(L, -1, size);
}

/* Makes a file the contents of a part. */
static void set_part_file(lua_State *L, curl_mimepart *part, const char *path, Transfer *t) {
  struct stat info = {0};
  int error = access(path, R_OK) != 0 || stat(path, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
  if (error) luaL_error(L, "multipart: the file %s cannot be read: %s", path, strerror(error));
  bool has_size = S_ISREG(info.st_mode); /* that of a pipe is unknown: it is sent in chunks */
  off_t end = has_size ? info.st_size : -1;
  SentFile *file = sent_file_new(t, -1, path, 0, end);
  if (!file) luaL_error(L, "not enough memory");
  (void)curl_mime_data_cb(part, (curl_off_t)end, sent_file_read, has_size ? sent_file_seek : NULL, sent_file_free,
                          file);
  const char *slash = strrchr(path, '/');
  options_must(L, "multipart", curl_mime_filename(part, slash ? slash + 1 : path));
}

/* One part, the table on top of the stack: { name =, data = or file =, filename =, type = }. */
static void add_part(lua_State *L, Transfer *t) {
  int top = lua_gettop(L);
  size_t size = 0, any;
  curl_mimepart *part = curl_mime_addpart(t->mime);
  if (!part) luaL_error(L, "not enough memory");
  const char *data = part_field(L, "data", &size);
  if (data) options_must(L, "multipart", curl_mime_data(part, data, size));
  lua_settop(L, top);
  const char *file = part_field(L, "file", &any);
  if (file) set_part_file(L, part, file, t);
  lua_settop(L, top);
  options_must(L, "multipart", curl_mime_name(part, part_field(L, "name", &any)));
  lua_settop(L, top);
  const char *filename = part_field(L, "filename", &any);
  if (filename) options_must(L, "multipart", curl_mime_filename(part, filename));
  lua_settop(L, top);
  const char *type = part_field(L, "type", &any);
  if (type) options_must(L, "multipart", curl_mime_type(part, type));
  lua_settop(L, top);
}

static void set_multipart(lua_State *L, int at, Transfer *t) {
  if (field(L, at, "multipart") == LUA_TTABLE) {
    t->mime = curl_mime_init(t->easy);
    if (!t->mime) luaL_error(L, "not enough memory");
    lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
    for (lua_Integer i = 1; i <= n; i++) {
      lua_rawgeti(L, -1, i);
      add_part(L, t);
      lua_pop(L, 1);
    }
    options_must(L, "multipart", curl_easy_setopt(t->easy, CURLOPT_MIMEPOST, t->mime));
    keep_method(L, at, t, "POST");
  }
  lua_pop(L, 1);
}

/* The options of every request, except its URL and its limits. */
static CURLcode set_usual(CURL *easy) {
  CURLcode code = curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075500
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
  /* Without it, the end of a transfer waits for the thread that resolves the name. */
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip");
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L); /* decode.c does it */
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_USERAGENT, USER_AGENT);
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  return code;
}

/* The limits: from the settings, or the defaults. */
static void set_limits(lua_State *L, int at, Transfer *t) {
  bool has_settings = lua_istable(L, at);
  t->max = (curl_off_t)(has_settings ? get_integer(L, at, "max", 0) : BODY_MAX);
  t->redirects = has_settings ? (curl_off_t)get_integer(L, at, "redirects", 0) : REDIRECTS;
  long timeout = has_settings ? (long)get_integer(L, at, "timeout", 0) : 0;
  long connect_timeout = has_settings ? (long)get_integer(L, at, "connect_timeout", 0) : CONNECT_MS;
  t->follows = t->redirects > 0;
  t->timeout = timeout;
  long most = t->redirects < COUNT_MAX - LOGINS ? (long)t->redirects + LOGINS : COUNT_MAX;
  CURL *easy = t->easy;
  options_must(L, "redirects", curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, t->follows ? 1L : 0L));
  options_must(L, "redirects", curl_easy_setopt(easy, CURLOPT_MAXREDIRS, most));
  options_must(L, "timeout", curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout));
  options_must(L, "connect_timeout", curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_timeout));
}

/* The rest of the settings. Returns whether there are any. */
static bool set_rest(lua_State *L, int at, Transfer *t) {
  if (!get_boolean(L, at, "has_more")) return false;
  set_method(L, at, t);
  set_body(L, at, t);
  set_multipart(L, at, t);
  if (field(L, at, "headers") == LUA_TTABLE) options_set_list(L, "headers", CURLOPT_HTTPHEADER, t, &t->headers);
  if (field(L, at, "cookies") == LUA_TUSERDATA) cookies_use(L, t);
  t->wants_hints = get_boolean(L, at, "hints");
  t->wants_certificates = get_boolean(L, at, "certificates");
  if (t->wants_certificates) { /* neither a kept connection nor a resumed session has them */
    options_must(L, "certificates", curl_easy_setopt(t->easy, CURLOPT_CERTINFO, 1L));
    options_must(L, "certificates", curl_easy_setopt(t->easy, CURLOPT_FRESH_CONNECT, 1L));
    options_must(L, "certificates", curl_easy_setopt(t->easy, CURLOPT_SSL_SESSIONID_CACHE, 0L));
  }
  if (field(L, at, "libcurl") == LUA_TTABLE) {
    lua_pushnil(L);
    while (lua_next(L, -2)) {
      options_set(L, lua_tostring(L, -2), t);
      lua_pop(L, 1);
    }
  }
  return true;
}

/* The most that libcurl reads of a stream at once. By default it is 16 KB: each request has memory of this size. */
enum { STREAM_READ = 64 * 1024 };

void settings_apply(lua_State *L, const char *url, int at, Transfer *t, bool is_new) {
  int top = lua_gettop(L);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (is_new) options_must(L, "url", set_usual(t->easy));
  options_must(L, "url", curl_easy_setopt(t->easy, CURLOPT_URL, url));
  /* If connections are shared (thread.c), a request waits until it is known whether it can use one that is being made.
     Without TLS, it never could. */
  options_must(L, "url", curl_easy_setopt(t->easy, CURLOPT_PIPEWAIT, strncasecmp(url, "https:", 6) == 0 ? 1L : 0L));
  set_limits(L, at, t);
  bool has_settings = lua_istable(L, at);
  t->is_stream = has_settings && get_boolean(L, at, "is_stream");
  t->is_raw = has_settings && get_boolean(L, at, "is_raw");
  if (t->is_raw) {
    t->is_decoded = true; /* by nobody */
    options_must(L, "url", curl_easy_setopt(t->easy, CURLOPT_ACCEPT_ENCODING, NULL));
    options_must(L, "url", curl_easy_setopt(t->easy, CURLOPT_USERAGENT, NULL));
    options_must(L, "url", curl_easy_setopt(t->easy, CURLOPT_PATH_AS_IS, 1L));
  }
  long read_size = t->is_stream ? STREAM_READ : (long)CURL_MAX_WRITE_SIZE;
  options_must(L, "url", curl_easy_setopt(t->easy, CURLOPT_BUFFERSIZE, read_size));
  t->repeats = !has_settings || get_boolean(L, at, "repeats"); /* without settings it is a GET */
  t->is_special = has_settings && set_rest(L, at, t);
  lua_settop(L, top);
}
