/* redirect.c: changes a request for the next one of its transfer. libcurl follows a redirect, but does not make all of
   the Fetch standard's changes to the request, which browsers make: when the headers of a redirect are complete, this
   sets the options of the next request. See client.h. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/client/client.h"

/* The flags for a redirect's URL, as libcurl itself parses it. */
#if defined(CURLU_ALLOW_SPACE)
enum { REDIRECT_FLAGS = CURLU_URLENCODE | CURLU_ALLOW_SPACE };
#else
enum { REDIRECT_FLAGS = CURLU_URLENCODE };
#endif

/* Whether the next request is a GET: after 303, except for HEAD; and after 301 and 302 for a POST. */
static bool becomes_get(const Transfer *t, long status) {
  if (t->method == METHOD_GET || t->method == METHOD_HEAD) return false;
  return status == 303 || (t->method == METHOD_POST && (status == 301 || status == 302));
}

/* Replaces the headers to send: leaves out those that `is_dropped`, and adds `more`, which may be NULL. */
static bool change_headers(Transfer *t, bool (*is_dropped)(const char *line), const char *more) {
  struct curl_slist *kept = NULL;
  for (const struct curl_slist *line = t->headers; line || more; line = line ? line->next : NULL) {
    if (line && is_dropped(line->data)) continue;
    struct curl_slist *longer = curl_slist_append(kept, line ? line->data : more);
    if (!longer) {
      curl_slist_free_all(kept);
      return transfer_refuse(t, REFUSED_MEMORY);
    }
    kept = longer;
    if (!line) more = NULL;
  }
  (void)curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, kept);
  curl_slist_free_all(t->headers);
  t->headers = kept;
  return true;
}

static bool is_of_body(const char *line) {
  return strncasecmp(line, "Content-", 8) == 0 || strncasecmp(line, "Transfer-Encoding:", 18) == 0;
}

/* Removes the body, and the headers about it. */
static bool drop_body(Transfer *t) {
  if (!change_headers(t, is_of_body, NULL)) return false;
  (void)curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, NULL);
  t->method = METHOD_GET;
  t->repeats = true;
  return true;
}

static bool is_expect(const char *line) { return strncasecmp(line, "Expect:", 7) == 0; }

/* A line without a value keeps libcurl from adding one. */
bool redirect_drop_expect(Transfer *t) { return change_headers(t, is_expect, "Expect:"); }

/* Whether two URLs agree in a part. */
static bool is_same(CURLU *one, CURLU *other, CURLUPart part) {
  char *a = NULL, *b = NULL;
  bool is = curl_url_get(one, part, &a, CURLU_DEFAULT_PORT) == CURLUE_OK &&
            curl_url_get(other, part, &b, CURLU_DEFAULT_PORT) == CURLUE_OK && strcasecmp(a, b) == 0;
  curl_free(a);
  curl_free(b);
  return is;
}

/* Whether a redirect leads to the same scheme, host and port. False also if there is no memory. */
static bool stays(const Transfer *t, const char *location, size_t size) {
  const char *url = NULL;
  (void)curl_easy_getinfo(t->easy, CURLINFO_EFFECTIVE_URL, &url);
  CURLU *from = curl_url(), *to = curl_url();
  char *target = strndup(location, size);
  bool is = from && to && target && curl_url_set(from, CURLUPART_URL, url, 0) == CURLUE_OK &&
            curl_url_set(to, CURLUPART_URL, url, 0) == CURLUE_OK &&
            curl_url_set(to, CURLUPART_URL, target, REDIRECT_FLAGS) == CURLUE_OK &&
            is_same(from, to, CURLUPART_SCHEME) && is_same(from, to, CURLUPART_HOST) &&
            is_same(from, to, CURLUPART_PORT);
  free(target);
  curl_url_cleanup(from);
  curl_url_cleanup(to);
  return is;
}

int redirect_resolve(lua_State *L) {
  const char *from = luaL_checkstring(L, 1), *location = luaL_optstring(L, 2, NULL);
  size_t most = 3 * (strlen(from) + (location ? strlen(location) : 0)) + 16; /* each byte may be encoded */
  char *copy = (char *)lua_newuserdatauv(L, most, 0), *resolved = NULL;
  CURLU *url = curl_url();
  bool ok = url && curl_url_set(url, CURLUPART_URL, from, lua_toboolean(L, 3) ? CURLU_PATH_AS_IS : 0) == CURLUE_OK &&
            (!location || curl_url_set(url, CURLUPART_URL, location, REDIRECT_FLAGS) == CURLUE_OK) &&
            curl_url_get(url, CURLUPART_URL, &resolved, 0) == CURLUE_OK && strlen(resolved) < most;
  if (ok) memcpy(copy, resolved, strlen(resolved) + 1);
  curl_free(resolved);
  curl_url_cleanup(url);
  lua_pushstring(L, ok ? copy : NULL); /* nil for NULL */
  lua_pushstring(L, ok ? NULL : curl_easy_strerror(CURLE_URL_MALFORMAT));
  return 2;
}

bool redirect_prepare(Transfer *t, long status, const char *location, size_t size) {
  if (t->redirected++ == t->redirects) return transfer_refuse(t, REFUSED_MORE);
  /* libcurl itself removes passwords and the header Cookie for other servers, but not this option */
  if (t->has_cookie && !stays(t, location, size)) (void)curl_easy_setopt(t->easy, CURLOPT_COOKIE, NULL);
  return !becomes_get(t, status) || drop_body(t);
}
