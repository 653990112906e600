/* engine.c: see engine.h. */
#include "http/server/engine.h"

#include <errno.h>
#include <unistd.h>

#include "base/random.h"
#include "http/server/conn.h"

/* How many connections above the limit get status 503; further ones are closed at once. */
enum { SURPLUS = 64 };

/* How many connections are accepted in a row. */
enum { ACCEPTS = 64 };

/* How long the server accepts nothing after there was no descriptor or memory for a connection. */
static const int64_t PAUSE = 100 * CLOCK_MS;

/* How long a draining server keeps connections without a request: a request may be on its way. For the same time it
   accepts connections to a shared port whose TCP handshakes have begun. */
static const int64_t DRAIN = 250 * CLOCK_MS;

bool engine_open(Engine *engine, const Place *place, Wakeup *wakeup, char *why, size_t size) {
  Hub *hub = &engine->hub;
  engine->shares = place->shares;
  engine->is_given = place->fd >= 0;
  engine->own = listen_at(place, why, size);
  if (engine->own.fd < 0) return false;
  listen_limit_unread(engine->own.fd, hub->limits.idle / CLOCK_MS);
  hub->wakeup = wakeup;
  hub->now = clock_ns();
  hub->timers.tick = timers_tick(hub->now);
  random_seed(&engine->seed, (uint64_t)hub->now ^ (uint64_t)(uintptr_t)engine);
  if (!poller_open(&hub->poller)) return false;
  engine->is_watched = poller_add(&hub->poller, &engine->listener, engine->own.fd, POLLER_IN);
  return engine->is_watched && poller_add(&hub->poller, &engine->news, wakeup_fd(wakeup), POLLER_IN);
}

static void stop_listening(Engine *engine) {
  if (engine->is_watched) poller_remove(&engine->hub.poller, &engine->listener);
  engine->is_watched = false;
  listen_end(&engine->own);
}

void engine_sweep(Engine *engine) {
  for (Link *first; (first = engine->hub.closed.first) != NULL;) {
    Conn *conn = CONTAINER_OF(first, Conn, link);
    if (conn->is_surplus) engine->nsurplus--;
    engine->counts[conn->slot]--;
    conn_free(conn);
  }
}

void engine_close(Engine *engine) {
  Hub *hub = &engine->hub;
  if (!hub->now) return; /* it was never opened */
  for (Link *first; (first = hub->conns.first) != NULL;) conn_close(CONTAINER_OF(first, Conn, link));
  engine_sweep(engine);
  loader_close(&hub->loader);
  stop_listening(engine);
  poller_close(&hub->poller);
  hub->now = 0;
}

/* ---- accepting ---- */

static uint32_t slot_of(const Engine *engine, const Peer *peer) {
  uint64_t state = peer->network ^ engine->seed;
  if (!state) state = 1;
  return random_below(&state, ENGINE_COUNTS);
}

static bool is_too_many(const Engine *engine, uint32_t slot, const Peer *peer) {
  const Limits *limits = &engine->hub.limits;
  if (engine->hub.nconns - engine->nsurplus >= limits->connections) return true;
  if (!limits->per_address || (peer->is_local && !limits->counts_local)) return false;
  return engine->counts[slot] >= limits->per_address;
}

static void meet(Engine *engine, int fd, const Peer *peer) {
  uint32_t slot = slot_of(engine, peer);
  bool is_surplus = is_too_many(engine, slot, peer);
  if (is_surplus && engine->nsurplus >= SURPLUS) {
    (void)close(fd);
    return;
  }
  Conn *conn = conn_open(&engine->hub, fd, peer, is_surplus);
  if (!conn) return;
  conn->slot = slot;
  engine->counts[slot]++;
  engine->nsurplus += is_surplus;
}

static int accept_some(Engine *engine) {
  Peer peer;
  int n = 0, fd;
  while (n < ACCEPTS && (fd = listen_accept(engine->own.fd, &peer)) >= 0) {
    meet(engine, fd, &peer);
    n++;
  }
  bool lacks = n < ACCEPTS && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
  if (!lacks || engine->hub.drains) return n;
  poller_remove(&engine->hub.poller, &engine->listener);
  engine->is_watched = false;
  engine->again = engine->hub.now + PAUSE;
  return n;
}

static void watch_again(Engine *engine) {
  if (engine->is_watched || engine->own.fd < 0 || engine->hub.drains || engine->hub.now < engine->again) return;
  engine->is_watched = poller_add(&engine->hub.poller, &engine->listener, engine->own.fd, POLLER_IN);
  if (!engine->is_watched) engine->again = engine->hub.now + PAUSE; /* uncovered: no memory */
}

/* ---- draining ---- */

void engine_drain(Engine *engine) {
  Hub *hub = &engine->hub;
  if (hub->drains) return;
  hub->drains = true;
  engine->until = hub->now + DRAIN;
  for (Link *link = hub->conns.first; link; link = list_next(&hub->conns, link))
    CONTAINER_OF(link, Conn, link)->keeps = false;
  if (engine->own.fd < 0) return;
  if (engine->shares) {
    listen_turn_away(engine->own.fd);
    return;
  }
  while (!engine->is_given && accept_some(engine) == ACCEPTS) continue;
  stop_listening(engine);
}

/* Closes the connections without a request, when their time is over. */
static void end_idle(Engine *engine) {
  Hub *hub = &engine->hub;
  if (!hub->drains || hub->now < engine->until) return;
  engine->until = INT64_MAX;
  stop_listening(engine);
  for (Link *link = hub->conns.first, *next; link; link = next) {
    next = list_next(&hub->conns, link);
    Conn *conn = CONTAINER_OF(link, Conn, link);
    if (conn_is_idle(conn)) conn_close(conn);
  }
}

bool engine_is_drained(const Engine *engine) {
  return engine->hub.drains && engine->own.fd < 0 && engine->hub.nconns == 0;
}

/* ---- the loop ---- */

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

/* For how long to wait, in ms: until a deadline, and at most `ms`; negative: no limit. */
static int time_to_wait(const Engine *engine, int ms) {
  const Hub *hub = &engine->hub;
  int64_t due = timers_due(&hub->timers);
  if (engine->own.fd >= 0 && !engine->is_watched) due = earlier(due, engine->again);
  if (hub->drains) due = earlier(due, engine->until);
  if (due == INT64_MAX) return ms;
  int64_t left = due <= hub->now ? 0 : (due - hub->now) / CLOCK_MS + 1;
  return ms < 0 || left < ms ? (int)left : ms;
}

void engine_turn(Engine *engine, int ms) {
  Hub *hub = &engine->hub;
  hub->now = clock_ns();
  int n = poller_wait(&hub->poller, time_to_wait(engine, ms));
  hub->now = clock_ns();
  for (int i = 0; i < n; i++) {
    unsigned bits;
    PollItem *item = poller_ready(&hub->poller, i, &bits);
    if (item == &engine->listener) (void)accept_some(engine);
    else if (item && item != &engine->news) advance_event(CONTAINER_OF(item, Conn, item), bits);
  }
  for (SlotTimer *timer; (timer = timers_take(&hub->timers, hub->now)) != NULL;)
    advance_timer(CONTAINER_OF(timer, Conn, timer));
  for (Load *load; (load = loader_take(&hub->loader)) != NULL;) advance_load(load);
  watch_again(engine);
  end_idle(engine);
  engine_sweep(engine);
}
