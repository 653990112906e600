/* profile.c: see profile.h. */
#include "tracing/profile.h"

#include <errno.h>
#include <lauxlib.h>
#include <stdatomic.h>
#include <string.h>

#include "base/random.h"
#include "channels/alt.h"
#include "channels/chan.h"
#include "core/setup.h"
#include "errors/name.h"
#include "lifetimes/root.h"
#include "tracing/profile_timer.h"
#include "tracing/profile_tree.h"

enum {
  PERIOD = 1000000, /* ns of processor time between two samples of what runs */
  STEP = 1000000,   /* ns of waiting of each go block between two recorded waits, on average */
  MOST_WAITS = 64,  /* waits whose go blocks have been woken, but have not run */
  ANY_EVENT = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT
};

typedef struct Profile {
  Observer observer;            /* S->observer points here. First */
  const Observer *inner;        /* the trace's, to which events are passed on; or NULL */
  Sched *S;                     /* the scheduler */
  lua_State *main_thread;       /* the main thread of the state */
  lua_State *waits;             /* what has called the loop, and waits until it returns; or NULL */
  int64_t waits_since;          /* since when, in ns of the loop's clock, as all times here */
  int64_t began;                /* when the profile began */
  int64_t step;                 /* a wait is recorded once `owed` has reached this */
  uint64_t random;              /* the state of the random generator of steps */
  int64_t owed;                 /* ns of waiting that no recorded wait stands for yet */
  int64_t waited;               /* ns of waiting so far */
  int64_t ran;                  /* ns of Lua code in the tree */
  bool is_idle;                 /* the scheduler waits */
  volatile bool is_ahead;       /* the scheduler waits, or a signal has come since the loop's last look at its clock */
  volatile bool is_adding;      /* a sample is being added: its time is not the program\'s */
  const Alt *ended;             /* of the go block that has ended in its last run: it may be collected */
  _Atomic int64_t ticked;       /* when the signal came last */
  _Atomic int64_t due;          /* ns that the hook will record */
  _Atomic int64_t loop;         /* ns in which the scheduler has run, not Lua code */
  ProfileTimer timer;           /* the signal */
  uint32_t nwaits;              /* how many there are in `list` */
  ProfileWait list[MOST_WAITS]; /* recorded waits whose stack is read just before the go block runs again */
} Profile;

/* Its address is the registry's key of the profile. */
static const char profile_key = 0;

static void on_pass_to(Sched *S, const Observer *inner);

/* The profile of the scheduler, or NULL. */
static Profile *active(const Sched *S) {
  return S->observer && S->observer->pass_to == on_pass_to ? (Profile *)(uintptr_t)S->observer : NULL;
}

/* The same, in a function that it observes with. */
static inline Profile *self(const Sched *S) { return (Profile *)(uintptr_t)S->observer; }

/* Passes an event on. */
#define PASS_ON(p, event, ...)                                                                                         \
  do {                                                                                                                 \
    if (UNLIKELY((p)->inner != NULL) && (p)->inner->event) (p)->inner->event(__VA_ARGS__);                             \
  } while (0)

/* Adds a sample; its go block's userdata, or nil, is on top of L, and popped. Does not raise: if memory runs out, the
   sample is lost. */
static void add(lua_State *L, const ProfileSample *s) {
  int top = lua_gettop(L);
  if (lua_checkstack(L, PROFILE_SLOTS)) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &profile_key);
    Profile *p = (Profile *)lua_touserdata(L, -1);
    p->is_adding = true;
    lua_getiuservalue(L, -1, PROFILE_HELP);
    lua_pushlightuserdata(L, (void *)(uintptr_t)s);
    lua_pushvalue(L, top);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK) lua_pop(L, 1);
    p->is_adding = false; /* the profile is on the stack still */
  }
  lua_settop(L, top - 1);
}

/* ---- what runs ---- */

/* The hook: Lua calls it for a coroutine that has run when the signal came. */
static void on_hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  if (!lua_checkstack(L, LUA_MINSTACK)) return;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &chan_tag);
  Sched *S = (Sched *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  Profile *p = active(S);
  int64_t ns = p ? atomic_exchange(&p->due, 0) : 0;
  if (!ns) return; /* the hook of another coroutine was faster, or the profile has ended */
  p->ran += ns;
  lua_pushnil(L);
  add(L, &(ProfileSample){.go = S->current, .co = L, .first = 1, .ns = ns});
}

static void on_left(lua_State *L, Sched *S, const Alt *alt);

/* Called by the signal's handler. A hook that the program, or a debugger, has set stays. */
static void on_tick(void *data, int64_t ns) {
  Profile *p = (Profile *)data;
  const Go *go = p->S->current;
  atomic_store(&p->ticked, clock_ns());
  p->is_ahead = true;
  if (p->is_adding) return;
  if (!go && p->S->running) {
    atomic_fetch_add(&p->loop, ns);
    return;
  }
  atomic_fetch_add(&p->due, ns);
  p->observer.left = on_left;
  lua_State *L = go ? go->alt.co : p->main_thread;
  lua_Hook hook = L ? lua_gethook(L) : NULL;
  if (L && (!hook || hook == on_hook)) lua_sethook(L, on_hook, ANY_EVENT, 1);
}

/* ---- waits ---- */

/* The time if the loop's last look at its clock may be old. */
NOINLINE static int64_t time_ahead(Profile *p) {
  if (p->is_idle) return clock_now(&p->S->world.clock);
  int64_t ticked = atomic_load(&p->ticked), looked = p->S->world.looked;
  p->is_ahead = ticked > looked;
  return p->is_ahead ? ticked : looked;
}

/* The time: the loop's last look at its clock, or later. The loop looks often, except while a go block runs for long,
   when signals come, and while it waits. */
static inline int64_t time_of(Profile *p) { return UNLIKELY(p->is_ahead) ? time_ahead(p) : p->S->world.looked; }

/* Who runs: fills in who has woken the go block of a wait. */
static void set_waker(const Sched *S, ProfileWait *w) {
  const Go *go = S->current;
  lua_Debug ar;
  w->waker = go ? PROFILE_GO : S->running ? PROFILE_DRIVER : PROFILE_MAIN;
  if (!go || !go->alt.co || !name_find_function(go->alt.co, &ar)) return;
  memcpy(w->source, ar.short_src, sizeof w->source);
  w->line = ar.linedefined;
  w->origin = go->origin;
}

/* Chooses the next step. They differ, since waits may repeat in a rhythm: with equal steps always the same would be
   recorded. */
static void choose_step(Profile *p) {
  int64_t most = 2 * (int64_t)STEP * ((int64_t)root_count(p->S) + 1);
  p->step = 1 + (int64_t)((uint64_t)most * random_below(&p->random, 1 << 16) >> 16);
}

/* Adds the length of a wait. Returns as how long it is to be recorded, or 0: not at all. */
static inline int64_t measure(Profile *p, int64_t since) {
  int64_t ns = time_of(p) - (since > p->began ? since : p->began);
  if (ns <= 0 || p->S->world.clock.is_virtual) return 0;
  p->waited += ns;
  p->owed += ns;
  if (LIKELY(p->owed < p->step)) return 0;
  int64_t counted = p->owed;
  p->owed = 0;
  choose_step(p);
  return counted;
}

static bool on_run(lua_State *L, Sched *S, Go *go);

/* Records a wait that is over. Its stack is read when the go block runs again: the caller must not run Lua code. */
static void record(Profile *p, const Alt *alt, int64_t ns, ProfileWait wait) {
  wait.alt = alt;
  wait.id = alt == &p->S->outside ? 0 : CONTAINER_OF(alt, const Go, alt)->chan.id;
  wait.ns = ns;
  if (!wait.waker && !(wait.chan->flags & CHAN_GO)) set_waker(p->S, &wait); /* a result's channel tells who */
  if (p->nwaits == MOST_WAITS) p->nwaits = 0; /* these go blocks never ran: code of the program has closed them */
  p->list[p->nwaits++] = wait;
  p->observer.run = on_run;
}

/* Whether the library hides the go block that waits. */
static bool is_hidden(const Profile *p, const Alt *alt) {
  return alt != &p->S->outside && chan_is_hidden(&CONTAINER_OF(alt, const Go, alt)->chan);
}

/* An alt has been committed: it has waited on the channel. */
static inline void woken(Profile *p, const Alt *alt, const Chan *ch, ProfileWhat what, ProfileWaker waker) {
  int64_t ns = measure(p, alt == &p->S->outside ? p->waits_since : alt->since);
  if (UNLIKELY(ns) && !is_hidden(p, alt)) record(p, alt, ns, (ProfileWait){.chan = ch, .what = what, .waker = waker});
}

/* Adds the samples of a go block's, or with NULL the main program's, recorded waits. L is the stack of the latter. */
static void add_waits(lua_State *L, Profile *p, const Alt *alt, Go *go) {
  uint64_t id = go ? go->chan.id : 0;
  for (uint32_t i = 0; i < p->nwaits; i++) {
    if (p->list[i].alt != alt || p->list[i].id != id) continue;
    ProfileWait wait = p->list[i];
    p->list[i--] = p->list[--p->nwaits];
    if (go) root_push(L, go);
    else lua_pushnil(L);
    add(L, &(ProfileSample){go, go ? alt->co : L, go ? 0 : 1, wait.ns, &wait});
    if (active(p->S) != p || (go && (go->alt.state != ALT_READY || !alt_is_active(alt)))) return;
  }
}

/* ---- the events: see observe.h ---- */

static bool on_run(lua_State *L, Sched *S, Go *go) {
  Profile *p = self(S);
  if (p->nwaits && alt_is_active(&go->alt)) {
    int top = lua_gettop(L);
    if (!lua_checkstack(L, LUA_MINSTACK)) return true;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &profile_key); /* a finalizer may end the profile, or the go block: keeps both */
    root_push(L, go);
    add_waits(L, p, &go->alt, go);
    bool is_ready = go->alt.state == ALT_READY, is_active = active(S) == p;
    lua_settop(L, top);
    if (!is_ready || !is_active) return is_ready;
  }
  if (!p->nwaits && !p->inner) p->observer.run = NULL;
  return !p->inner || !p->inner->run || p->inner->run(L, S, go);
}

/* Set by the signal's handler, until the loop looks at its clock: what waits now waits since the signal at most. */
static void on_left(lua_State *L, Sched *S, const Alt *alt) {
  Profile *p = self(S);
  int64_t ticked = atomic_load(&p->ticked);
  if (ticked <= S->world.looked && !p->inner) p->observer.left = NULL;
  if (ticked > S->world.looked && !S->world.clock.is_virtual) {
    S->world.looked = ticked;
    S->world.left = 1; /* the loop looks next */
    if (alt != p->ended && alt->state != ALT_IDLE) ((Alt *)(uintptr_t)alt)->since = ticked;
  }
  p->ended = NULL;
  PASS_ON(p, left, L, S, alt);
}

static void on_end(Sched *S, const Go *go, bool is_error) {
  Profile *p = self(S);
  p->ended = &go->alt;
  PASS_ON(p, end, S, go, is_error);
}

static void on_main_leaves(lua_State *L, Sched *S) {
  Profile *p = self(S);
  if (!S->world.clock.is_virtual) S->world.looked = clock_ns();
  p->waits = L;
  p->waits_since = S->world.looked;
  PASS_ON(p, main_leaves, L, S);
}

static void on_main_runs(lua_State *L, Sched *S) {
  Profile *p = self(S);
  p->waits = NULL;
  if (p->nwaits && lua_checkstack(L, LUA_MINSTACK)) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &profile_key);
    S->running = true; /* finalizers must not wait: the results of this wait have not been taken */
    add_waits(L, p, &S->outside, NULL);
    S->running = false;
    lua_pop(L, 1);
    if (active(S) != p) return;
  }
  PASS_ON(p, main_runs, L, S);
}

static void on_idle(Sched *S) {
  Profile *p = self(S);
  p->is_idle = p->is_ahead = true;
  PASS_ON(p, idle, S);
}

static void on_awake(Sched *S) {
  Profile *p = self(S);
  p->is_idle = false;
  if (!S->world.clock.is_virtual) S->world.looked = clock_ns(); /* else the next waits would seem to begin earlier */
  PASS_ON(p, awake, S);
}

static void on_slept(Sched *S, const Alt *alt) {
  Profile *p = self(S);
  woken(p, alt, NULL, PROFILE_SLEEP, PROFILE_DRIVER);
  PASS_ON(p, slept, S, alt);
}

static void on_put(lua_State *L, Chan *ch, int at, int value, const Alt *taker) {
  Profile *p = self(ch->sched);
  if (taker) woken(p, taker, ch, PROFILE_TAKE, PROFILE_NOBODY);
  PASS_ON(p, put, L, ch, at, value, taker);
}

static void on_take(Chan *ch, const Alt *putter) {
  Profile *p = self(ch->sched);
  if (putter) woken(p, putter, ch, PROFILE_PUT, PROFILE_NOBODY);
  PASS_ON(p, take, ch, putter);
}

static void on_admit(Chan *ch, const Alt *putter) {
  Profile *p = self(ch->sched);
  woken(p, putter, ch, PROFILE_PUT, PROFILE_NOBODY);
  PASS_ON(p, admit, ch, putter);
}

static void on_serve(Chan *ch, const Alt *taker) {
  Profile *p = self(ch->sched);
  woken(p, taker, ch, PROFILE_TAKE, PROFILE_NOBODY);
  PASS_ON(p, serve, ch, taker);
}

static void on_shared(lua_State *L, Chan *ch, int at, const Alt *alt, bool is_put) {
  Profile *p = self(ch->sched);
  if (alt) woken(p, alt, ch, is_put ? PROFILE_PUT : PROFILE_TAKE, PROFILE_OTHER);
  PASS_ON(p, shared, L, ch, at, alt, is_put);
}

/* The takes that wait on the channel are completed next. */
static void on_close(const Chan *ch) {
  Profile *p = self(ch->sched);
  const Link *link = ch->queues[TAKES].first;
  for (uint32_t n = ch->waiting[TAKES]; n > 0; n--, link = link->next) {
    const Waiter *w = CONTAINER_OF(link, const Waiter, link);
    woken(p, w->alt, ch, PROFILE_TAKE, PROFILE_NOBODY);
  }
  PASS_ON(p, close, ch);
}

static const Observer functions = {
    .run = on_run,
    .left = on_left,
    .slept = on_slept,
    .end = on_end,
    .main_leaves = on_main_leaves,
    .main_runs = on_main_runs,
    .idle = on_idle,
    .awake = on_awake,
    .put = on_put,
    .take = on_take,
    .admit = on_admit,
    .serve = on_serve,
    .shared = on_shared,
    .close = on_close,
    .pass_to = on_pass_to,
};

static void on_pass_to(Sched *S, const Observer *inner) {
  Profile *p = self(S);
  p->inner = inner;
  p->observer = functions;
  if (!inner) return;
  p->observer.spawn = inner->spawn;
  p->observer.died = inner->died;
  p->observer.due = inner->due;
  p->observer.report = inner->report;
}

/* ---- the beginning and the end ---- */

/* __gc: a profile that has not been stopped when the state closes. */
static int on_closed(lua_State *L) {
  Profile *p = (Profile *)lua_touserdata(L, 1);
  if (active(p->S) != p) return 0;
  profile_timer_stop(&p->timer);
  p->S->observer = p->inner;
  return 0;
}

/* Pushes a new profile. May raise. */
static Profile *new_profile(lua_State *L, Sched *S, int namers) {
  Profile *p = (Profile *)lua_newuserdatauv(L, sizeof *p, PROFILE_NUSER);
  int at = lua_gettop(L);
  memset(p, 0, sizeof *p);
  p->observer = functions;
  p->S = S;
  for (int key = PROFILE_RUNNING; key <= PROFILE_NAMES; key++) {
    lua_newtable(L);
    lua_setiuservalue(L, at, key);
  }
  lua_pushvalue(L, namers);
  lua_setiuservalue(L, at, PROFILE_NAMERS);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushvalue(L, at);
  lua_pushcclosure(L, profile_tree_add, 2);
  lua_setiuservalue(L, at, PROFILE_HELP);
  setup_push_meta(L, "__gc", on_closed);
  lua_setmetatable(L, at);
  return p;
}

static void fail(lua_State *L, const char *message) {
  lua_pushstring(L, message);
  lua_error(L);
}

void profile_start(lua_State *L, Sched *S, int namers) {
  Profile *p = new_profile(L, S, namers);
  if (active(S)) fail(L, "a profile is being made already");
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  p->main_thread = lua_tothread(L, -1);
  lua_pop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &profile_key);
  const Observer *inner = S->observer;
  if (!S->world.clock.is_virtual) S->world.looked = clock_ns();
  p->began = p->waits_since = S->world.looked;
  random_seed(&p->random, (uint64_t)p->began);
  choose_step(p);
  p->timer = (ProfileTimer){.tick = on_tick, .data = p, .period = PERIOD};
  S->observer = &p->observer;
  on_pass_to(S, inner);
  int error = profile_timer_start(&p->timer);
  if (!error) return;
  S->observer = inner;
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &profile_key);
  if (error == ENOSYS) fail(L, "only Linux has a timer of a thread's processor time");
  fail(L, error == EBUSY ? "the program uses the signal SIGPROF for something else" : strerror(error));
}

/* Records the present waits: at the end of the profile. */
static void add_present(lua_State *L, Sched *S, Profile *p) {
  int list = lua_gettop(L) + 1;
  uint32_t n = root_push_list(L);
  for (uint32_t i = 1; i <= n && active(S) == p; i++) {
    Go *go = root_push_listed(L, list, i);
    const Alt *alt = go ? &go->alt : NULL;
    if (alt && alt->state == ALT_READY && alt_is_active(alt)) add_waits(L, p, alt, go);
    bool waits = alt && go->slot && (alt->state == ALT_SLEEPING || (alt->count && alt_is_active(alt)));
    int64_t ns = waits ? measure(p, alt->since) : 0;
    if (ns && !is_hidden(p, alt)) {
      const Waiter *w = alt->count ? alt_waiters(alt) : NULL;
      ProfileWait wait = {.id = go->chan.id, .ns = ns, .chan = w ? w->chan : NULL};
      wait.what = alt->flags & ALT_SELECT ? PROFILE_ALTS : w && w->is_put ? PROFILE_PUT : PROFILE_TAKE;
      add(L, &(ProfileSample){go, alt->co, 0, ns, &wait});
    } else {
      lua_pop(L, 1);
    }
  }
  lua_settop(L, list - 1);
  const Alt *alt = &S->outside;
  int64_t ns = p->waits && p->waits != L && alt->state == ALT_PARKED ? measure(p, p->waits_since) : 0;
  if (!ns || active(S) != p) return;
  const Waiter *w = alt_waiters(alt);
  ProfileWait wait = {.ns = ns, .chan = w->chan, .what = w->is_put ? PROFILE_PUT : PROFILE_TAKE};
  lua_pushnil(L);
  add(L, &(ProfileSample){NULL, p->waits, 0, ns, &wait});
}

static void set_integer(lua_State *L, const char *name, int64_t n) {
  lua_pushinteger(L, n);
  lua_setfield(L, -2, name);
}

void profile_stop(lua_State *L, Sched *S) {
  Profile *p = active(S);
  if (!p) {
    lua_pushnil(L);
    return;
  }
  int top = lua_gettop(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &profile_key);
  profile_timer_stop(&p->timer);
  atomic_store(&p->ticked, clock_ns());
  p->is_ahead = true;
  add_present(L, S, p);
  if (active(S) == p) S->observer = p->inner;
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &profile_key);
  lua_createtable(L, 0, 7);
  static const char *const tables[] = {"running", "waiting", "names"};
  for (int i = 0; i < 3; i++) {
    lua_getiuservalue(L, top + 1, PROFILE_RUNNING + i);
    lua_setfield(L, -2, tables[i]);
  }
  set_integer(L, "ran", p->ran + atomic_load(&p->due));
  set_integer(L, "loop", atomic_load(&p->loop));
  set_integer(L, "waited", p->waited);
  set_integer(L, "elapsed", atomic_load(&p->ticked) - p->began);
  lua_replace(L, top + 1);
}
