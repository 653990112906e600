/* load.c: sends GET requests to an HTTP server on this machine, and says how long the responses took.

     load PORT PATH CONNECTIONS SECONDS RATE [tls]

   RATE 0: each connection sends its next request at once. Otherwise so many requests are due a second, at equal
   distances; one that finds no free connection waits, and its time counts from when it was due. Prints the number of
   responses, the bytes of one body, and the 50th, 99th and 99.9th percentile of the times, in microseconds. Ends with
   status 1 if a response has another status than 200, or no Content-Length, or ends before it is complete. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 4096, BLOCK = 256 * 1024 };

typedef struct Client {
  int fd;
  SSL *ssl;            /* NULL without TLS */
  bool is_busy;        /* it waits for a response */
  int64_t due;         /* when its request was due, in ns */
  char head[HEAD + 1]; /* of the response, as far as it has come */
  size_t have;         /* bytes in `head`; 0 within the body */
  size_t left;         /* bytes of the body that have not come */
  bool closes;         /* the server ends the connection after the response */
} Client;

static char request[512], block[BLOCK];
static int port, watch;
static size_t body_size;
static uint32_t *times; /* of the responses, in units of 100 ns */
static size_t ntimes, room;
static SSL_CTX *context;

static int64_t now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void fail(const char *what) {
  (void)fprintf(stderr, "load: %s\n", what);
  exit(1);
}

static void connect_client(Client *client) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int one = 1;
  client->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(client->fd, (struct sockaddr *)&at, sizeof at) != 0) fail("cannot connect");
  (void)setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (context) {
    client->ssl = SSL_new(context);
    (void)SSL_set_fd(client->ssl, client->fd);
    if (SSL_connect(client->ssl) != 1) fail("no TLS");
  }
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
  (void)epoll_ctl(watch, EPOLL_CTL_ADD, client->fd, &event);
}

static void disconnect(Client *client) {
  if (client->ssl) SSL_free(client->ssl);
  client->ssl = NULL;
  (void)close(client->fd);
}

static void ask(Client *client, int64_t due) {
  int size = (int)strlen(request);
  client->is_busy = true;
  client->due = due;
  client->have = client->left = 0;
  client->closes = false;
  int n = client->ssl ? SSL_write(client->ssl, request, size) : (int)send(client->fd, request, (size_t)size, 0);
  if (n != size) fail("cannot send");
}

/* Receives bytes; 0 if there are none. */
static size_t receive(Client *client, char *to, size_t max) {
  if (client->ssl) {
    int n = SSL_read(client->ssl, to, (int)max);
    if (n > 0) return (size_t)n;
    if (SSL_get_error(client->ssl, n) == SSL_ERROR_WANT_READ) return 0;
    fail("the session has ended");
  }
  ssize_t n = recv(client->fd, to, max, MSG_DONTWAIT | (to == block ? MSG_TRUNC : 0)); /* a body is not copied */
  if (n > 0) return (size_t)n;
  if (n < 0 && errno == EAGAIN) return 0;
  fail("the connection has ended");
  return 0;
}

/* The head is complete, and ends at `end`. */
static void read_head(Client *client, const char *end) {
  const char *length = strcasestr(client->head, "\r\nContent-Length: ");
  if (strncmp(client->head, "HTTP/1.1 200 ", 13) != 0) fail("the status is not 200");
  if (!length || length > end) fail("no Content-Length");
  const char *closes = strcasestr(client->head, "\r\nConnection: close");
  client->closes = closes && closes < end;
  size_t have = client->have - (size_t)(end + 4 - client->head);
  body_size = strtoul(length + 18, NULL, 10);
  client->left = body_size - have;
  client->have = 0;
}

/* Uses what has come; returns whether the response is complete. */
static bool advance(Client *client) {
  size_t n;
  for (;;) {
    if (client->left) {
      n = receive(client, block, client->left < BLOCK ? client->left : BLOCK);
      client->left -= n;
      if (client->left == 0) return true;
    } else {
      n = receive(client, client->head + client->have, HEAD - client->have);
      client->have += n;
      client->head[client->have] = 0;
      const char *end = strstr(client->head, "\r\n\r\n");
      if (n && end) {
        read_head(client, end);
        if (client->left == 0) return true;
      } else if (client->have == HEAD) fail("the head is too long");
    }
    if (n == 0) return false;
  }
}

static void complete(Client *client) {
  if (ntimes == room) times = (uint32_t *)realloc(times, (room = room ? room * 2 : 1 << 16) * sizeof *times);
  times[ntimes++] = (uint32_t)((now() - client->due) / 100);
  client->is_busy = false;
  if (!client->closes) return;
  disconnect(client);
  connect_client(client);
}

static int by_size(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static double percentile(double share) { return (double)times[(size_t)((double)(ntimes - 1) * share)] / 10; }

int main(int argc, char **argv) {
  if (argc < 6) fail("load PORT PATH CONNECTIONS SECONDS RATE [tls]");
  port = atoi(argv[1]);
  size_t nclients = strtoul(argv[3], NULL, 10), next = 0;
  double rate = strtod(argv[5], NULL);
  (void)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: load\r\n\r\n", argv[2]);
  if (argc > 6) context = SSL_CTX_new(TLS_client_method());
  watch = epoll_create1(0);
  Client *clients = (Client *)calloc(nclients, sizeof *clients);
  for (size_t i = 0; i < nclients; i++) connect_client(&clients[i]);
  int64_t since = now(), until = since + (int64_t)(strtod(argv[4], NULL) * 1e9);
  uint64_t sent = 0;
  for (size_t i = 0; rate == 0 && i < nclients; i++) ask(&clients[i], since);
  for (;;) {
    int64_t t = now();
    if (t >= until) break;
    while (rate > 0) { /* what is due, as far as a connection is free */
      int64_t due = since + (int64_t)((double)sent / rate * 1e9);
      size_t tried = 0;
      while (tried < nclients && clients[next].is_busy) next = (next + 1) % nclients, tried++;
      if (due > t || tried == nclients) break;
      ask(&clients[next], due);
      sent++;
    }
    struct epoll_event events[64];
    struct timespec soon = {0, rate > 0 ? 50000 : 100000000};
    int n = epoll_pwait2(watch, events, 64, &soon, NULL);
    for (int i = 0; i < n; i++) {
      Client *client = (Client *)events[i].data.ptr;
      if (!client->is_busy) { /* the server has ended a connection without a request */
        disconnect(client);
        connect_client(client);
        continue;
      }
      if (!advance(client)) continue;
      complete(client);
      if (rate == 0) ask(client, now());
    }
  }
  double seconds = (double)(now() - since) / 1e9;
  if (!ntimes) fail("no response");
  qsort(times, ntimes, sizeof *times, by_size);
  (void)printf("%zu %zu %.1f %.1f %.1f %.3f\n", ntimes, body_size, percentile(0.5), percentile(0.99), percentile(0.999),
               seconds);
  return 0;
}
