/* thread.c: the thread of a client, the only one that uses its multi handle. See client.h.

   libcurl's callbacks tell which sockets it wants to wait for, and for how long (CURLMOPT_SOCKETFUNCTION,
   CURLMOPT_TIMERFUNCTION). The thread polls these sockets and the wakeup, and tells libcurl which of them are ready.
   With curl_multi_perform, which needs none of this, libcurl checks every transfer each time: with 64 of them at once
   that takes twice the CPU time, and more with each further one. */
#define CURL_DISABLE_DEPRECATION /* curl_multi_socket_all is discouraged, not obsolete: see look_for_lost */
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include "base/grow.h"
#include "http/client/client.h"

/* After this many ms without a transfer, kept connections are closed. */
enum { IDLE_MS = 60000 };

/* How long to wait before Lua is notified again, if there was no memory for that. */
enum { AGAIN_MS = 10 };

/* How long a transfer whose request is not sent may be left to libcurl alone, in ms. See look_for_lost. */
enum { LOOK_MS = 5000 };

/* How many ms after its time is up the thread ends a transfer that libcurl has not ended. See end_late. */
enum { LATE_MS = 5 };

/* The most connections that are kept; but at most one of so many descriptors that the process may have, so that enough
   are left for further connections and for the rest of the program. */
enum { KEPT_CONNECTIONS = 256, DESCRIPTORS_EACH = 4 };

/* For how many names libcurl may wait at once. */
enum { RESOLVING = 1000 };

/* Requests of HTTP/2 share connections from this release of libcurl on. Older ones forget to pass on data for some of
   the transfers that share one: 7.88 does. 8.14.1 does not: it has passed the specs, with many of them paused. */
enum { SHARES_SINCE = 0x080e01 };

/* A socket of libcurl; and, in no relation to it, one that is ready. */
typedef struct Socket {
  curl_off_t connection; /* the connection of the socket: see connection_of; negative: none */
  curl_off_t waste;      /* bytes received, less what transfers have allowed for; see WASTE_MAX */
  struct pollfd ready;   /* copied from `polls`, which libcurl changes */
} Socket;

typedef struct Loop {
  Client *client;       /* the thread's client */
  CURLM *multi;         /* NULL if there was no memory */
  struct pollfd *polls; /* [0] is the wakeup, libcurl's sockets follow */
  Socket *sockets;      /* [i] belongs to polls[i]; the ready ones are from 0 on */
  size_t count;         /* number of sockets */
  size_t capacity;      /* how many elements of both arrays there is memory for */
  int64_t due;          /* deadline of libcurl's next call, in ms of the monotonic clock; INT64_MAX: never */
  int64_t look;         /* deadline of look_for_lost, while there are transfers */
  int64_t late;         /* deadline of end_late: no transfer has an earlier one */
  List active;          /* libcurl's transfers */
  bool is_used;         /* there was a transfer since the multi handle was made */
  bool is_broken;       /* a function of libcurl, or on_socket, has failed: the multi handle is of no more use */
  bool shares;          /* transfers may share connections */
  int host_max;         /* the limit that the multi handle has */
} Loop;

/* The transfer of an easy handle; NULL if libcurl has made the handle for itself. */
static Transfer *transfer_of(CURL *easy) {
  Transfer *t = NULL;
  (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&t);
  return t;
}

/* Identifies the connection of a transfer: by libcurl's number; or, if transfers share none, by the transfer. Negative if
   there is none (yet), as for NULL. */
static curl_off_t connection_of(const Loop *loop, const Transfer *t) {
  if (!t) return -1;
  return loop->shares ? t->connection : (curl_off_t)(uintptr_t)t;
}

/* ---- what libcurl calls ---- */

/* Makes memory for one more socket. How many there are depends on more than the transfers: libcurl also waits for its own
   wakeup, and for connections whose transfers have ended and that it closes in the background. */
static bool make_room(Loop *loop) {
  size_t needed = loop->count + 2, capacity = loop->capacity;
  struct pollfd *polls = (struct pollfd *)grow(loop->polls, &capacity, needed, sizeof *polls);
  if (!polls) return false;
  loop->polls = polls;
  Socket *sockets = (Socket *)grow(loop->sockets, &loop->capacity, needed, sizeof *sockets);
  if (!sockets) return false;
  loop->sockets = sockets;
  return true;
}

/* Records that the multi handle is of no more use, if a function of libcurl has failed. */
static void note(Loop *loop, CURLMcode code) {
  if (code != CURLM_OK) loop->is_broken = true;
}

/* CURLMOPT_SOCKETFUNCTION. A socket's data is its place in `polls`. After -1 libcurl works on nothing any more. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *socket_data) {
  Loop *loop = (Loop *)data;
  uintptr_t at = (uintptr_t)socket_data;
  if (what == CURL_POLL_REMOVE) {
    if (!at) return 0; /* uncovered: it was never added */
    size_t last = loop->count--;
    if (last == at) return 0;
    loop->polls[at] = loop->polls[last];
    loop->sockets[at].connection = loop->sockets[last].connection;
    loop->sockets[at].waste = loop->sockets[last].waste;
    (void)curl_multi_assign(loop->multi, loop->polls[at].fd, (void *)at);
    return 0;
  }
  if (!at) {
    if (!make_room(loop)) {
      loop->is_broken = true;
      return -1;
    }
    at = ++loop->count;
    loop->sockets[at].waste = 0;
    (void)curl_multi_assign(loop->multi, fd, (void *)at);
  }
  loop->polls[at] = (struct pollfd){.fd = fd};
  loop->sockets[at].connection = connection_of(loop, transfer_of(easy));
#if LIBCURL_VERSION_NUM >= 0x080200
  if (loop->shares) (void)curl_easy_getinfo(easy, CURLINFO_CONN_ID, &loop->sockets[at].connection); /* a new one, too */
#endif
  if (what & CURL_POLL_IN) loop->polls[at].events |= POLLIN;
  if (what & CURL_POLL_OUT) loop->polls[at].events |= POLLOUT;
  return 0;
}

/* CURLMOPT_TIMERFUNCTION */
static int on_timer(CURLM *multi, long ms, void *data) {
  (void)multi;
  ((Loop *)data)->due = ms < 0 ? INT64_MAX : clock_ms() + ms;
  return 0;
}

/* Gives libcurl the limit that Lua has set. */
static void apply_limit(Loop *loop) {
  int most = atomic_load(&loop->client->host_max);
  if (!loop->multi || most == loop->host_max) return;
  (void)curl_multi_setopt(loop->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)most);
  loop->host_max = most;
}

/* How many connections are kept. */
static long kept_connections(void) {
  struct rlimit limit = {0};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  rlim_t most = limit.rlim_cur / DESCRIPTORS_EACH;
  return most < KEPT_CONNECTIONS ? (long)most : KEPT_CONNECTIONS;
}

static void make_multi(Loop *loop) {
  loop->multi = curl_multi_init();
  loop->host_max = 0;
  if (!loop->multi) return;
  (void)curl_multi_setopt(loop->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
  (void)curl_multi_setopt(loop->multi, CURLMOPT_SOCKETDATA, (void *)loop);
  (void)curl_multi_setopt(loop->multi, CURLMOPT_TIMERFUNCTION, on_timer);
  (void)curl_multi_setopt(loop->multi, CURLMOPT_TIMERDATA, (void *)loop);
  long sharing = loop->shares ? CURLPIPE_MULTIPLEX : CURLPIPE_NOTHING;
  (void)curl_multi_setopt(loop->multi, CURLMOPT_PIPELINING, sharing);
  (void)curl_multi_setopt(loop->multi, CURLMOPT_MAXCONNECTS, kept_connections());
  apply_limit(loop);
#if LIBCURL_VERSION_NUM >= 0x081400
  /* Before, each name had a thread of its own; now, while servers of names are silent, others would wait for 20 of them,
     and so would the end. */
  (void)curl_multi_setopt(loop->multi, CURLMOPT_RESOLVE_THREADS_MAX, (long)RESOLVING);
  (void)curl_multi_setopt(loop->multi, CURLMOPT_QUICK_EXIT, 1L);
#endif
}

/* ---- transfers ---- */

/* The thread is done with the transfer. */
static void leave_transfer(Transfer *t, long status) {
  transfer_free_easy(t);
  if (!atomic_load(&t->has_head) && t->code == CURLE_OK) {
    t->status = status;
    atomic_store(&t->has_head, true);
  }
  client_lock(t->client);
  if (t->asks) list_remove(&t->client->asked, &t->asked);
  t->asks = 0;
  atomic_store(&t->has_ended, true);
  client_unlock(t->client);
}

/* The transfer has ended with a code; notifies Lua. */
static void end_transfer(Transfer *t, CURLcode code) {
  const char *url = NULL;
  long status = 0;
  (void)curl_easy_getinfo(t->easy, CURLINFO_EFFECTIVE_URL, &url);
  (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
  size_t size = url ? strlen(url) + 1 : 0;
  t->url = size ? (char *)malloc(size) : NULL;
  if (t->url) memcpy(t->url, url, size);
  else if (code == CURLE_OK) code = CURLE_OUT_OF_MEMORY;
  if (code == CURLE_OK && !response_note_connection(t)) code = CURLE_OUT_OF_MEMORY;
  if (t->is_in_head && (code == CURLE_OK || code == CURLE_PARTIAL_FILE)) { /* libcurl takes what came for all headers */
    t->refusal = REFUSED_HEAD;
    code = CURLE_PARTIAL_FILE;
  }
  if (code == CURLE_OK && decode_is_cut(t)) {
    t->refusal = REFUSED_CUT;
    code = CURLE_PARTIAL_FILE;
  }
  t->code = code; /* Lua reads it when has_ended is true, as `error` and `url` */
  if (code != CURLE_OK) response_note_error(t);
  leave_transfer(t, status);
  transfer_tell(t);
  handle_release(t);
}

/* Lua has dropped it. */
static void drop_transfer(Transfer *t) {
  t->code = CURLE_ABORTED_BY_CALLBACK;
  leave_transfer(t, 0);
  handle_release(t);
}

/* Takes off the waste of its connection what the transfer has allowed for. */
static void settle(Socket *socket, Transfer *t) {
  socket->waste = socket->waste > t->allowed ? socket->waste - t->allowed : 0;
  t->allowed = 0;
}

/* Removes it from libcurl. */
static void remove_transfer(Loop *loop, Transfer *t) {
  curl_off_t connection = connection_of(loop, t);
  note(loop, curl_multi_remove_handle(loop->multi, t->easy));
  for (size_t i = 1; i <= loop->count; i++) {
    if (loop->sockets[i].connection == connection) settle(&loop->sockets[i], t);
  }
  list_remove(&loop->active, &t->active);
}

static void begin_transfer(Loop *loop, Transfer *t) {
  if (!loop->multi) make_multi(loop);
  loop->is_used = true;
  int64_t now = clock_ms();
  if (!loop->active.first) loop->look = now + LOOK_MS;
  t->deadline = t->timeout > 0 ? now + t->timeout + LATE_MS : INT64_MAX;
  if (t->deadline < loop->late) loop->late = t->deadline;
  if (loop->multi && curl_multi_add_handle(loop->multi, t->easy) == CURLM_OK) list_append(&loop->active, &t->active);
  else end_transfer(t, CURLE_OUT_OF_MEMORY);
}

/* Ends one of libcurl's transfers. */
static void finish_transfer(Loop *loop, Transfer *t, CURLcode code) {
  remove_transfer(loop, t);
  end_transfer(t, code);
}

/* Closes the multi handle, and with it the kept connections. */
static void close_multi(Loop *loop) {
  if (loop->multi) (void)curl_multi_cleanup(loop->multi);
  loop->multi = NULL;
  loop->count = 0;
  loop->due = INT64_MAX;
  loop->is_used = loop->is_broken = false;
}

/* Ends all transfers, since libcurl has failed for lack of memory: it does not name the failed one, does not end it,
   and may crash if it continues. */
static void fail_all(Loop *loop) {
  while (loop->active.first)
    finish_transfer(loop, CONTAINER_OF(loop->active.first, Transfer, active), CURLE_OUT_OF_MEMORY);
  close_multi(loop);
}

/* Lua has taken or fed bytes. The callbacks have since left the flags of the directions that are still paused. */
static void resume(Loop *loop, Transfer *t) {
  client_lock(t->client);
  int paused = (t->no_receive ? CURLPAUSE_RECV : 0) | (t->no_send ? CURLPAUSE_SEND : 0);
  client_unlock(t->client);
  CURLcode code = curl_easy_pause(t->easy, paused); /* may call on_body */
  if (code == CURLE_OK) return;
  if (code == CURLE_BAD_FUNCTION_ARGUMENT) return; /* seldom covered: it has no connection just now */
  if (t->refusal) finish_transfer(loop, t, code);  /* seldom covered: on_body has just refused it */
  else loop->is_broken = true;                     /* seldom covered: see fail_all */
}

/* The next transfer with requests of Lua, and the requests; NULL if there is none. */
static Transfer *next_asked(Client *client, unsigned *asks) {
  client_lock(client);
  Link *first = client->asked.first;
  Transfer *t = first ? CONTAINER_OF(first, Transfer, asked) : NULL;
  if (t) {
    list_remove(&client->asked, first);
    *asks = t->asks;
    t->asks = 0;
  }
  client_unlock(client);
  return t;
}

/* Performs Lua's requests. */
static void do_asked(Loop *loop) {
  unsigned asks = 0;
  Transfer *t;
  while ((t = next_asked(loop->client, &asks)) != NULL) {
    if (asks & ASK_CANCEL) {
      if (!(asks & ASK_START)) remove_transfer(loop, t);
      drop_transfer(t);
    } else if (asks & ASK_START) {
      begin_transfer(loop, t);
    } else {
      resume(loop, t);
    }
    if (loop->is_broken) fail_all(loop);
  }
}

/* Ends libcurl's finished transfers. */
static void end_done(Loop *loop) {
  int left = 0;
  CURLMsg *message;
  while ((message = curl_multi_info_read(loop->multi, &left)) != NULL) {
    Transfer *t = transfer_of(message->easy_handle);
    if (t) finish_transfer(loop, t, message->data.result); /* which frees the message */
  }
}

/* ---- the loop ---- */

/* For how long to poll, in ms; -1: without limit. */
static int patience(const Loop *loop) {
  int64_t due = loop->due;
  if (loop->active.first && due > loop->look) due = loop->look;
  if (loop->active.first && due > loop->late) due = loop->late;
  if (due == INT64_MAX) return loop->is_used ? IDLE_MS : -1;
  int64_t left = due - clock_ms();
  return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

/* Whether too many bytes have arrived on a connection that are neither headers nor body. Then ends its transfers, which
   changes the sockets. */
static bool refuse_waste(Loop *loop, Socket *socket) {
  curl_off_t connection = socket->connection, uploads = 0;
  bool is_used = false;
  for (Link *link = loop->active.first; link; link = list_next(&loop->active, link)) {
    Transfer *t = CONTAINER_OF(link, Transfer, active);
    if (connection_of(loop, t) != connection) continue;
    is_used = true;
    settle(socket, t);
    client_lock(t->client);
    if (t->no_receive) socket->waste = 0; /* further bytes are kept until the transfer continues */
    client_unlock(t->client);
    curl_off_t sent = 0;
    (void)curl_easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    uploads += sent / WASTE_EACH;
  }
  if (!is_used) socket->waste = 0;
  if (socket->waste - uploads <= WASTE_MAX) return false;
  for (Link *link = loop->active.first, *next; link; link = next) {
    Transfer *t = CONTAINER_OF(link, Transfer, active);
    next = list_next(&loop->active, link);
    if (connection_of(loop, t) != connection) continue;
    t->refusal = REFUSED_WASTE;
    finish_transfer(loop, t, CURLE_ABORTED_BY_CALLBACK);
  }
  return true;
}

/* Counts the bytes that are about to be read from a socket. False if there were too many. */
static bool count_bytes(Loop *loop, size_t at) {
  Socket *socket = &loop->sockets[at];
  int n = 0;
  if (socket->connection < 0) return true; /* no server is at its other end */
  if (socket->waste > WASTE_MAX && refuse_waste(loop, socket)) return false;
  if (ioctl(loop->polls[at].fd, FIONREAD, &n) == 0) socket->waste += n;
  return true;
}

/* Lets libcurl work on the transfer of a socket; or, with CURL_SOCKET_TIMEOUT, on those with something due. */
static void act(Loop *loop, curl_socket_t fd, int what) {
  int running = 0;
  (void)pthread_mutex_lock(&loop->client->works);
  note(loop, curl_multi_socket_action(loop->multi, fd, what, &running));
  (void)pthread_mutex_unlock(&loop->client->works);
}

/* Lets libcurl handle ready sockets. */
static void work(Loop *loop) {
  size_t nready = 0;
  for (size_t i = 1; i <= loop->count; i++) {
    if (!loop->polls[i].revents) continue;
    if ((loop->polls[i].revents & POLLIN) && !count_bytes(loop, i)) return; /* the next poll reports the others again */
    loop->sockets[nready++].ready = loop->polls[i];
  }
  for (size_t i = 0; i < nready && !loop->is_broken; i++) {
    int what = 0, fd = loop->sockets[i].ready.fd, events = loop->sockets[i].ready.revents;
    if (events & (POLLIN | POLLHUP)) what |= CURL_CSELECT_IN;
    if (events & POLLOUT) what |= CURL_CSELECT_OUT;
    if (events & (POLLERR | POLLNVAL)) what |= CURL_CSELECT_ERR;
    act(loop, fd, what);
  }
  if (!loop->is_broken && loop->due <= clock_ms()) {
    loop->due = INT64_MAX;
    act(loop, CURL_SOCKET_TIMEOUT, 0);
  }
  end_done(loop);
}

/* Makes libcurl work on all its transfers, if one of them has not sent its request although there was time for that:
   libcurl may have forgotten it. It works on several transfers in one call, which tells the result of the last one only:
   of a transfer that cannot start for lack of memory, while a later one can, nobody hears. */
static void look_for_lost(Loop *loop) {
  int64_t now = clock_ms();
  if (!loop->active.first || now < loop->look) return;
  loop->look = now + LOOK_MS; /* seldom covered: a transfer is seldom that long in a spec */
  for (Link *link = loop->active.first; link; link = list_next(&loop->active, link)) {
    if (CONTAINER_OF(link, Transfer, active)->requests) continue;
    int running = 0; /* seldom covered: libcurl has forgotten it */
    (void)pthread_mutex_lock(&loop->client->works);
    note(loop, curl_multi_socket_all(loop->multi, &running));
    (void)pthread_mutex_unlock(&loop->client->works);
    end_done(loop);
    return;
  }
}

/* Ends transfers whose time is up, if libcurl has not: it does not look at the time of those that wait for a connection,
   which may be long if each server has only so many (CURLMOPT_MAX_HOST_CONNECTIONS), or if they wait for one that others
   are making (CURLOPT_PIPEWAIT). Looks at all transfers, but at most once for the deadline of each. */
static void end_late(Loop *loop) {
  int64_t now = clock_ms();
  if (now < loop->late) return;
  loop->late = INT64_MAX;
  for (Link *link = loop->active.first, *next; link; link = next) {
    Transfer *t = CONTAINER_OF(link, Transfer, active);
    next = list_next(&loop->active, link);
    if (t->deadline <= now) {
      (void)snprintf(t->error, sizeof t->error, "Operation timed out after %lld milliseconds%s", (long long)t->timeout,
                     t->requests ? "" : ", before the request was sent");
      finish_transfer(loop, t, CURLE_OPERATION_TIMEDOUT);
    } else if (t->deadline < loop->late) {
      loop->late = t->deadline;
    }
  }
}

/* Whether kept connections must be closed now. */
static bool closes_idle(Loop *loop) {
  Client *client = loop->client;
  if (loop->active.first) return false;
  client_lock(client);
  bool closes = client->closes_idle;
  client->closes_idle = false;
  client_unlock(client);
  return closes;
}

void *thread_run(void *data) {
  /* libcurl takes the names of hosts in the encoding of the locale. Lua's strings are UTF-8, whatever the program's. */
  locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
  if (utf8) (void)uselocale(utf8);
  Loop loop = {.client = (Client *)data, .due = INT64_MAX, .late = INT64_MAX};
#if LIBCURL_VERSION_NUM >= 0x080200 /* else nothing tells which connection a transfer uses */
  loop.shares = curl_version_info(CURLVERSION_NOW)->version_num >= SHARES_SINCE;
#endif
  Wakeup *wakeup = loop.client->thread.wakeup;
  struct pollfd alone = {0}; /* as long as there is no array */
  while (!thread_ends(&loop.client->thread)) {
    apply_limit(&loop);
    do_asked(&loop);
    if (closes_idle(&loop)) close_multi(&loop);
    bool is_told = events_post(&loop.client->events);
    struct pollfd *polls = loop.polls ? loop.polls : &alone;
    polls[0] = (struct pollfd){.fd = wakeup_fd(wakeup), .events = POLLIN};
    int ms = patience(&loop);
    if (!is_told && (ms < 0 || ms > AGAIN_MS)) ms = AGAIN_MS; /* seldom covered: memory ran out */
    int n = poll(polls, (nfds_t)loop.count + 1, ms);
    if (n < 0) continue; /* uncovered: a signal, which this thread blocks, or no memory in the kernel */
    if (polls[0].revents) (void)wakeup_consume(wakeup);
    if (n == 0 && !loop.active.first && loop.due == INT64_MAX) close_multi(&loop);
    else if (loop.multi) work(&loop);
    look_for_lost(&loop);
    end_late(&loop);
    if (loop.is_broken) fail_all(&loop);
  }
  while (loop.active.first) {
    Transfer *t = CONTAINER_OF(loop.active.first, Transfer, active);
    remove_transfer(&loop, t);
    drop_transfer(t);
  }
  unsigned asks = 0;
  Transfer *t;
  while ((t = next_asked(loop.client, &asks)) != NULL) drop_transfer(t); /* it has not begun */
  close_multi(&loop);
  free(loop.polls);
  free(loop.sockets);
  if (utf8) {
    (void)uselocale(LC_GLOBAL_LOCALE);
    freelocale(utf8);
  }
  return NULL;
}
