/* profile_waits.c: see profile_waits.h. */
#include "profile/profile_waits.h"

#include <string.h>

#include "base/random.h"
#include "channels/alt.h"
#include "channels/chan.h"
#include "errors/inspect.h"
#include "errors/name.h"
#include "lifetimes/root.h"
#include "profile/profile_blocked.h"

enum { STEP = 1000000 }; /* ns of waiting of each go block between two recorded waits, on average */

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

/* Fills in what has woken the go block of a wait: what runs now. */
static void set_waker(const Sched *S, ProfileWait *w) {
  const Go *go = S->current;
  lua_Debug ar;
  w->waker = go ? PROFILE_GO : S->running ? PROFILE_DRIVER : PROFILE_MAIN;
  if (go) w->by = go->chan.id;
  if (!go || !go->alt.co || !name_find_function(go->alt.co, &ar)) return;
  memcpy(w->source, ar.short_src, sizeof w->source);
  w->line = ar.linedefined;
  w->origin = go->origin;
}

void profile_choose_step(Profile *p) {
  int64_t most = 2 * (int64_t)STEP * ((int64_t)root_count(p->S) + 1);
  p->step = 1 + (int64_t)((uint64_t)most * random_below(&p->random, 1 << 16) >> 16);
}

/* Adds the length of a wait. Returns the length to be recorded, or 0: it is not recorded. */
static inline int64_t measure(Profile *p, int64_t since) {
  int64_t ns = time_of(p) - (since > p->began ? since : p->began);
  if (ns <= 0 || p->S->world.clock.is_virtual) return 0;
  p->waited += ns;
  p->owed += ns;
  if (LIKELY(p->owed < p->step)) return 0;
  int64_t counted = p->owed;
  p->owed = 0;
  profile_choose_step(p);
  return counted;
}

/* Records a wait that is over. Its stack is read when the go block runs again: the caller must not run Lua code. */
static void record(Profile *p, const Alt *alt, int64_t ns, ProfileWait wait) {
  wait.alt = alt;
  wait.id = sched_owner_id(p->S, alt);
  wait.ns = ns;
  if (!wait.waker && !(wait.chan->flags & CHAN_GO)) set_waker(p->S, &wait); /* the channel of a result tells it */
  if (p->nwaits == PROFILE_MOST_WAITS) p->nwaits = 0; /* those never ran: the program has closed them */
  p->list[p->nwaits++] = wait;
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
    profile_add(L, &(ProfileSample){go, go ? alt->co : L, go ? 0 : 1, wait.ns, &wait, false});
    if (profile_active(p->S) != p || (go && (go->alt.state != ALT_READY || !alt_is_active(alt)))) return;
  }
}

/* Fills in what is known of a wait that is not over. Its go block is not looked at again. */
static void describe_present(const Sched *S, ProfileWait *wait, const Alt *alt) {
  const Waiter *w = alt->count ? alt_waiters(alt) : NULL, *used_up = inspect_used_up(alt);
  wait->chan = w ? w->chan : NULL;
  wait->what = alt->flags & ALT_SELECT ? PROFILE_ALTS : w && w->is_put ? PROFILE_PUT : PROFILE_TAKE;
  uint64_t last = w && used_up && used_up->chan == w->chan ? w->chan->last : 0;
  if (!last || last == sched_owner_id(S, alt) || wait->what == PROFILE_ALTS) return;
  wait->waker = PROFILE_HOLDER;
  wait->by = last;
}

/* Adds the waits of go blocks that are not over: those for what another one has used up, or the others. */
static void add_present(lua_State *L, Profile *p, int list, uint32_t n, bool are_held) {
  for (uint32_t i = 1; i <= n && profile_active(p->S) == p; i++) {
    Go *go = root_push_listed(L, list, i);
    const Alt *alt = go ? &go->alt : NULL;
    if (!are_held && alt && alt->state == ALT_READY && alt_is_active(alt)) add_waits(L, p, alt, go);
    bool waits = alt && go->slot && (alt->state == ALT_SLEEPING || (alt->count && alt_is_active(alt)));
    ProfileWait wait = {0};
    if (waits) describe_present(p->S, &wait, alt);
    if (waits && (wait.waker == PROFILE_HOLDER) == are_held) wait.ns = measure(p, alt->since);
    if (wait.ns && !is_hidden(p, alt)) {
      wait.id = go->chan.id;
      profile_add(L, &(ProfileSample){go, alt->co, 0, wait.ns, &wait, false});
    } else {
      lua_pop(L, 1);
    }
  }
}

void profile_add_present(lua_State *L, Profile *p) {
  Sched *S = p->S;
  int list = lua_gettop(L) + 1;
  uint32_t n = root_push_list(L);
  add_present(L, p, list, n, false);
  add_present(L, p, list, n, true); /* these name the others */
  lua_settop(L, list - 1);
  const Alt *alt = &S->outside;
  int64_t ns = p->waits && p->waits != L && alt->state == ALT_PARKED ? measure(p, p->waits_since) : 0;
  if (!ns || profile_active(S) != p) return;
  ProfileWait wait = {.ns = ns};
  describe_present(S, &wait, alt);
  lua_pushnil(L);
  profile_add(L, &(ProfileSample){NULL, p->waits, 0, ns, &wait, false});
}

/* ---- the events: see observe.h ---- */

static bool on_run(lua_State *L, Sched *S, Go *go) {
  Profile *p = profile_active(S);
  if (p->nwaits && alt_is_active(&go->alt)) {
    int top = lua_gettop(L);
    if (!lua_checkstack(L, LUA_MINSTACK)) return true;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &profile_key); /* a finalizer may end the profile, or the go block: keeps both */
    root_push(L, go);
    add_waits(L, p, &go->alt, go);
    bool is_ready = go->alt.state == ALT_READY, is_active = profile_active(S) == p;
    lua_settop(L, top);
    if (!is_ready || !is_active) return is_ready;
  }
  profile_blocked_enter(p, go->alt.co);
  return true;
}

/* Set by the signal's handler, until the loop looks at its clock: what waits now waits since the signal at most. */
static void on_left(lua_State *L, Sched *S, const Alt *alt) {
  (void)L;
  Profile *p = profile_active(S);
  int64_t ticked = atomic_load(&p->ticked);
  if (ticked <= S->world.looked) p->observer.left = NULL;
  if (ticked > S->world.looked && !S->world.clock.is_virtual) {
    S->world.looked = ticked;
    S->world.left = 1; /* the loop looks next */
    if (alt != p->ended && alt->state != ALT_IDLE) ((Alt *)(uintptr_t)alt)->since = ticked;
  }
  p->ended = NULL;
}

static void on_end(Sched *S, const Go *go, bool is_error) {
  (void)is_error;
  profile_active(S)->ended = &go->alt;
}

static void on_main_leaves(lua_State *L, Sched *S) {
  Profile *p = profile_active(S);
  if (!S->world.clock.is_virtual) S->world.looked = clock_ns();
  profile_blocked_leave(p, L);
  p->waits = L;
  p->waits_since = S->world.looked;
}

static void on_main_runs(lua_State *L, Sched *S) {
  Profile *p = profile_active(S);
  p->waits = NULL;
  if (p->nwaits && lua_checkstack(L, LUA_MINSTACK)) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &profile_key);
    S->running = true; /* finalizers must not wait: the results of this wait have not been taken */
    add_waits(L, p, &S->outside, NULL);
    S->running = false;
    lua_pop(L, 1);
    if (profile_active(S) != p) return;
  }
  profile_blocked_enter(p, L);
}

static void on_idle(Sched *S) {
  Profile *p = profile_active(S);
  p->is_idle = p->is_ahead = true;
  profile_blocked_idle(p);
}

static void on_awake(Sched *S) {
  Profile *p = profile_active(S);
  p->is_idle = false;
  profile_blocked_awake(p);
  if (!S->world.clock.is_virtual) S->world.looked = clock_ns(); /* else the next waits would seem to begin earlier */
}

static void on_slept(Sched *S, const Alt *alt) { woken(profile_active(S), alt, NULL, PROFILE_SLEEP, PROFILE_DRIVER); }

static void on_put(lua_State *L, Chan *ch, int at, int value, const Alt *taker) {
  (void)L, (void)at, (void)value;
  if (taker) woken(profile_active(ch->sched), taker, ch, PROFILE_TAKE, PROFILE_NOBODY);
}

static void on_take(Chan *ch, const Alt *putter) {
  if (putter) woken(profile_active(ch->sched), putter, ch, PROFILE_PUT, PROFILE_NOBODY);
}

static void on_admit(Chan *ch, const Alt *putter) {
  woken(profile_active(ch->sched), putter, ch, PROFILE_PUT, PROFILE_NOBODY);
}

static void on_serve(Chan *ch, const Alt *taker) {
  woken(profile_active(ch->sched), taker, ch, PROFILE_TAKE, PROFILE_NOBODY);
}

static void on_shared(lua_State *L, Chan *ch, int at, const Alt *alt, bool is_put) {
  (void)L, (void)at;
  if (alt) woken(profile_active(ch->sched), alt, ch, is_put ? PROFILE_PUT : PROFILE_TAKE, PROFILE_OTHER);
}

/* The takes that wait on the channel are completed next. */
static void on_close(const Chan *ch) {
  Profile *p = profile_active(ch->sched);
  const Link *link = ch->queues[TAKES].first;
  for (uint32_t n = ch->waiting[TAKES]; n > 0; n--, link = link->next) {
    const Waiter *w = CONTAINER_OF(link, const Waiter, link);
    woken(p, w->alt, ch, PROFILE_TAKE, PROFILE_NOBODY);
  }
}

const Observer profile_observer = {
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
};
