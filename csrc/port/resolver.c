/* resolver.c: see resolver.h. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): declares EAI_NODATA */
#endif
#include "port/resolver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/list.h"
#include "base/thread.h"

/* The most threads: a limit for programs that look up whatever somebody sends. */
enum { MOST_THREADS = 1000 };

enum { LONGEST_ERROR = 256 };

/* A name that is looked up. */
typedef struct Query {
  Link link;   /* in the list of those that no thread has */
  Port *port;  /* for the result; a hold */
  char host[]; /* ends with a zero */
} Query;

struct Resolver {
  pthread_mutex_t lock; /* guards all that follows */
  List queue;           /* names that wait for a thread */
  size_t threads;       /* that run */
  bool is_closed;       /* its state has gone: the last thread frees it */
};

/* ---- the result ---- */

/* The name of an error of getaddrinfo. */
static const char *error_name(int code) {
  static const struct {
    int code;
    const char *name;
  } names[] = {
      {EAI_AGAIN, "EAI_AGAIN"},           {EAI_BADFLAGS, "EAI_BADFLAGS"}, {EAI_FAIL, "EAI_FAIL"},
      {EAI_FAMILY, "EAI_FAMILY"},         {EAI_MEMORY, "EAI_MEMORY"},     {EAI_NONAME, "EAI_NONAME"},
      {EAI_SERVICE, "EAI_SERVICE"},       {EAI_SOCKTYPE, "EAI_SOCKTYPE"},
#ifdef EAI_NODATA
      {EAI_NODATA, "EAI_NODATA"},
#endif
#ifdef EAI_ADDRFAMILY
      {EAI_ADDRFAMILY, "EAI_ADDRFAMILY"},
#endif
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (names[i].code == code) return names[i].name;
  }
  return "EAI_FAIL"; /* uncovered: getaddrinfo has no others for these hints */
}

/* Returns a text from malloc about an error; NULL if there is no memory. */
static char *error_text(int code, int system_error) {
  char text[LONGEST_ERROR];
  if (code == EAI_SYSTEM) (void)snprintf(text, sizeof text, "EAI_SYSTEM %s", strerror(system_error));
  else (void)snprintf(text, sizeof text, "%s %s", error_name(code), gai_strerror(code));
  return strdup(text);
}

/* Writes an address as a line. Returns how many bytes it has. */
static size_t write_address(char *to, const struct addrinfo *entry) {
  const void *address = NULL;
  if (entry->ai_family == AF_INET) address = &((const struct sockaddr_in *)(const void *)entry->ai_addr)->sin_addr;
  if (entry->ai_family == AF_INET6) address = &((const struct sockaddr_in6 *)(const void *)entry->ai_addr)->sin6_addr;
  if (!address || !inet_ntop(entry->ai_family, address, to, INET6_ADDRSTRLEN)) return 0;
  size_t size = strlen(to);
  to[size] = '\n';
  return size + 1;
}

/* Looks up a host. Returns a text from malloc, or NULL if there is no memory. */
static char *look_up(const char *host) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
  int code = getaddrinfo(host, NULL, &hints, &list), system_error = errno;
  if (code != 0) return error_text(code, system_error);
  size_t n = 1, size = 0;
  for (const struct addrinfo *entry = list; entry; entry = entry->ai_next) n++;
  char *text = (char *)malloc(n * (INET6_ADDRSTRLEN + 1));
  for (const struct addrinfo *entry = list; text && entry; entry = entry->ai_next) {
    size += write_address(text + size, entry);
  }
  if (text) text[size] = 0;
  freeaddrinfo(list);
  return text;
}

/* Posts the result; without memory for it the port closes without one. Frees the query. */
static void answer(Query *query) {
  char *text = look_up(query->host);
  if (text) {
    Message message = {.kind = MESSAGE_BYTES, .as.bytes = {.start = text, .size = strlen(text)}};
    if (port_post(query->port, &message) != POST_DONE) message_drop(&message);
  }
  port_release(query->port); /* NOLINT(clang-analyzer-unix.Malloc): the text is the message's */
  free(query);
}

/* ---- the threads ---- */

static void *run(void *data) {
  Resolver *resolver = (Resolver *)data;
  (void)pthread_mutex_lock(&resolver->lock);
  while (resolver->queue.first) {
    Query *query = CONTAINER_OF(resolver->queue.first, Query, link);
    list_remove(&resolver->queue, &query->link);
    (void)pthread_mutex_unlock(&resolver->lock);
    answer(query);
    (void)pthread_mutex_lock(&resolver->lock);
  }
  bool frees = --resolver->threads == 0 && resolver->is_closed;
  (void)pthread_mutex_unlock(&resolver->lock);
  if (frees) {
    (void)pthread_mutex_destroy(&resolver->lock); /* seldom covered: the state was closed meanwhile */
    free(resolver);
  }
  return NULL;
}

/* ---- for the scheduler's thread ---- */

Resolver *resolver_new(void) {
  Resolver *resolver = (Resolver *)calloc(1, sizeof *resolver);
  if (resolver && pthread_mutex_init(&resolver->lock, NULL) != 0) {
    free(resolver); /* uncovered: only when resources run out */
    return NULL;
  }
  return resolver;
}

bool resolver_look_up(Resolver *resolver, const char *host, Port *port) {
  size_t size = strlen(host) + 1;
  Query *query = (Query *)calloc(1, sizeof *query + size);
  if (!query) return false;
  query->port = port;
  memcpy(query->host, host, size);
  (void)pthread_mutex_lock(&resolver->lock);
  list_append(&resolver->queue, &query->link);
  pthread_t id;
  bool starts = resolver->threads < MOST_THREADS && thread_spawn(&id, "runnel-names", run, resolver) == 0;
  if (starts) {
    resolver->threads++; /* it has not begun, since it needs the lock */
    (void)pthread_detach(id);
  }
  bool ok = resolver->threads > 0; /* else nothing takes it from the queue */
  if (!ok) list_remove(&resolver->queue, &query->link);
  (void)pthread_mutex_unlock(&resolver->lock);
  if (!ok) free(query);
  return ok;
}

void resolver_close(Resolver *resolver) {
  (void)pthread_mutex_lock(&resolver->lock);
  while (resolver->queue.first) {
    Query *query = CONTAINER_OF(resolver->queue.first, Query, link);
    list_remove(&resolver->queue, &query->link);
    port_release(query->port);
    free(query);
  }
  resolver->is_closed = true;
  bool frees = resolver->threads == 0;
  (void)pthread_mutex_unlock(&resolver->lock);
  if (!frees) return;
  (void)pthread_mutex_destroy(&resolver->lock);
  free(resolver);
}
