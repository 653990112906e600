/* explore.c: core.internal.explore: an explorer (sim/explore.h) for search/explore.lua. */
#include "sim/explore.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "blocks/sched.h"
#include "errors/origin.h"
#include "lua/check.h"
#include "lua/module.h"
#include "sim/reduce.h"
#include "sim/sim.h"
#include "tracing/story.h"
#include "tracing/trace_state.h"

#define EXPLORE_TNAME "runnel.explore"

typedef struct Explorer {
  Explore explore; /* makes the choices */
  Story story;     /* the events of a run, if it is recorded */
  Reduce reduce;   /* which orders it leaves out, after `share` */
} Explorer;

static Explorer *check_explorer(lua_State *L) { return (Explorer *)luaL_checkudata(L, 1, EXPLORE_TNAME); }

static Explore *check_explore(lua_State *L) { return &check_explorer(L)->explore; }

/* Explore.on_choice */
static void add_choice(Explore *e, ChoiceKind kind, uint32_t chosen, uint32_t of) {
  story_add(&CONTAINER_OF(e, Explorer, explore)->story, STORY_CHOICE + (int)kind, 0, 0, chosen, of, 0);
}

/* __gc */
static int explore_gc(lua_State *L) {
  Explorer *e = check_explorer(L);
  explore_close(&e->explore);
  reduce_close(L, &e->reduce);
  story_clear(&e->story);
  return 0;
}

/* new(limit, any_timers) -> an explorer that gives up runs of more steps than `limit`; raises inside a go block or a
   callback */
static int lua_new(lua_State *L) {
  sched_check_outside(L, sched_self(L), "sim.explore");
  lua_Integer limit = luaL_checkinteger(L, 1);
  luaL_argcheck(L, limit > 0 && limit <= INT32_MAX, 1, "not a number of steps");
  Explorer *e = (Explorer *)lua_newuserdatauv(L, sizeof(Explorer), 0);
  *e = (Explorer){.explore = {.limit = (uint32_t)limit, .any_timers = lua_toboolean(L, 2)}};
  luaL_setmetatable(L, EXPLORE_TNAME);
  return 1;
}

/* share(e, until_end): from now on, orders that are equivalent to another one are left out. `until_end`: a run ends when
   its function has returned. */
static int lua_share(lua_State *L) {
  Explorer *e = check_explorer(L);
  e->explore.reduce = &e->reduce;
  e->reduce.until_end = lua_toboolean(L, 2);
  variables_open(L, &e->reduce.variables);
  return 0;
}

/* shared(e) -> the key of the last run, or nil if it was given up; and whether that was because it is equivalent to one
   that was run */
static int lua_shared(lua_State *L) {
  const Reduce *r = &check_explorer(L)->reduce;
  if (r->key) lua_pushinteger(L, (lua_Integer)r->key);
  else lua_pushnil(L);
  lua_pushboolean(L, r->is_asleep);
  return 2;
}

/* is_known(e, key) -> whether a run of the search has had this key */
static int lua_is_known(lua_State *L) {
  const Reduce *r = &check_explorer(L)->reduce;
  lua_pushboolean(L, map_find(&r->known, (uint64_t)luaL_checkinteger(L, 2)) != NULL);
  return 1;
}

/* Pushes the text of what there was to choose at a choice. */
static void push_choice(lua_State *L, Choice choice) {
  static const char *const of[] = {"", "ready go blocks", "ready operations of an alts", "numbers of sim.choose"};
  if (choice.of == 0) lua_pushliteral(L, "was nothing to choose");
  else lua_pushfstring(L, "were %d %s", (int)(choice.of >> 2), of[choice.of & 3]);
}

/* run(e, f, leaks, prefix, strategy, seed, changes, until) runs f in a simulation, and gives it up at the time `until`
   of now(). prefix: "script", "path" or nil; strategy:
   of Strategy. Returns: whether it went well, or nil if it was given up or went astray; elapsed ms; its error, or nil;
   and if it went astray: the number of the choice, what there was before, what there was now. */
static int lua_run(lua_State *L) {
  Sched *S = sched_self(L);
  Explore *e = check_explore(L);
  SimOptions options = {.seed = 1, .leaks = lua_toboolean(L, 3), .explore = e};
  const char *prefix = lua_tostring(L, 4);
  const Choices *of = !prefix ? NULL : *prefix == 's' ? &e->script : &e->path;
  Strategy strategy = (Strategy)luaL_optinteger(L, 5, STRATEGY_FIRST);
  explore_begin(e, of, strategy, (uint64_t)luaL_optinteger(L, 6, 1), (uint32_t)luaL_optinteger(L, 7, 0));
  e->until = (int64_t)(luaL_optnumber(L, 8, 0) * (lua_Number)CLOCK_MS);
  lua_pushvalue(L, 2);
  int at = lua_gettop(L);
  int64_t elapsed;
  /* A script repeats a run of any search, which says what happens and not what else could. */
  bool is_followed = e->reduce && of != &e->script;
  if (is_followed) reduce_begin(L, e->reduce, of == &e->path);
  observe_seat(S, SEAT_SEARCH, is_followed ? &reduce_observer : NULL);
  bool ok = sim_run(L, S, at, &options, &elapsed);
  observe_seat(S, SEAT_SEARCH, NULL);
  explore_end(e);
  if (is_followed && !reduce_end(L, e, !e->gave_up && !e->astray)) return luaL_error(L, "not enough memory");
  if (e->gave_up || e->astray) lua_pushnil(L);
  else lua_pushboolean(L, ok);
  check_push_ms(L, elapsed);
  if (ok) lua_pushnil(L);
  else lua_pushvalue(L, at);
  if (!e->astray) return 3;
  lua_pushinteger(L, (lua_Integer)e->stray_at + 1);
  push_choice(L, e->stray_before);
  push_choice(L, e->stray_now);
  return 6;
}

/* backtrack(e) -> whether there is another path, for the next run with the path as its prefix */
static int lua_backtrack(lua_State *L) {
  Explore *e = check_explore(L);
  lua_pushboolean(L, e->reduce ? reduce_backtrack(e) : explore_backtrack(e));
  return 1;
}

/* script(e, list): sets the script, a list of numbers from 0. */
static int lua_script(lua_State *L) {
  Explore *e = check_explore(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  e->script.n = 0;
  for (lua_Integer i = 1; lua_rawgeti(L, 2, i) == LUA_TNUMBER; i++) {
    if (!explore_add(&e->script, (Choice){.chosen = (uint32_t)lua_tointeger(L, -1)})) {
      return luaL_error(L, "not enough memory"); /* uncovered: only when memory runs out */
    }
    lua_pop(L, 1);
  }
  return 0;
}

/* repeat_last(e): makes the choices of the last run the script, with what there was to choose. */
static int lua_repeat_last(lua_State *L) {
  Explore *e = check_explore(L);
  e->script.n = 0;
  for (uint32_t i = 0; i < e->made.n; i++) {
    if (!explore_add(&e->script, e->made.items[i]))
      return luaL_error(L, "not enough memory"); /* uncovered: see above */
  }
  return 0;
}

/* made(e) -> list, hash: the choices of the last run, from 0, and a hash of the alternatives */
static int lua_made(lua_State *L) {
  Explore *e = check_explore(L);
  lua_createtable(L, (int)e->made.n, 0);
  for (uint32_t i = 0; i < e->made.n; i++) {
    lua_pushinteger(L, (lua_Integer)e->made.items[i].chosen);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_pushinteger(L, (lua_Integer)explore_hash(e));
  return 2;
}

/* record(e, whether): turns the story of each run on or off. The caller must hold the trace's ring (trace.hold), and
   release it only after record(e, false). */
static int lua_record(lua_State *L) {
  Explorer *e = check_explorer(L);
  Sched *S = sched_self(L);
  Story *story = &e->story;
  bool records = lua_toboolean(L, 2) && S->tracer;
  if (S->tracer) S->tracer->story = NULL;
  e->explore.on_choice = NULL;
  story_clear(story);
  if (!records) return 0;
  const char *library = origin_push_library(L);
  size_t size = library ? strlen(library) + 1 : 0;
  story->library = size ? malloc(size) : NULL;
  if (story->library) memcpy(story->library, library, size);
  story->sched = S;
  S->tracer->story = story;
  e->explore.on_choice = add_choice;
  return 0;
}

/* event(e, i) -> kind, time in ms, go, chan, seq, what, label, where or nil: event i, from 1, of the story */
static int lua_event(lua_State *L) {
  const Story *story = &check_explorer(L)->story;
  lua_Integer i = luaL_checkinteger(L, 2);
  if (i < 1 || i > (lua_Integer)story->n) return 0;
  const StoryEvent *event = &story->events[i - 1];
  lua_pushinteger(L, event->kind);
  check_push_ms(L, event->time);
  lua_pushinteger(L, event->go);
  lua_pushinteger(L, event->chan);
  lua_pushinteger(L, event->seq);
  lua_pushinteger(L, event->what);
  lua_pushinteger(L, event->label);
  if (event->line) lua_pushfstring(L, "%s:%d", event->source, event->line);
  else lua_pushnil(L);
  return 8;
}

/* choose(n, odds or nil) -> 1 to n: the explorer's choice, or a random one; nothing outside a simulation. With odds,
   what is random is 1, but once in `odds` times one of the others. */
static int lua_choose(lua_State *L) {
  Sched *S = sched_self(L);
  lua_Integer n = luaL_checkinteger(L, 1), odds = luaL_optinteger(L, 2, 0);
  luaL_argcheck(L, n >= 1 && n <= INT32_MAX / 2, 1, "out of range");
  luaL_argcheck(L, odds >= 0 && odds <= INT32_MAX, 2, "out of range");
  World *w = &S->world;
  if (!w->clock.is_virtual) return 0;
  uint32_t chosen = 0;
  if (w->explore && w->explore->gave_up) return luaL_error(L, "sim.choose: too many choices in one run");
  if (n > 1 && odds && w->explore) chosen = explore_seldom(w->explore, (uint32_t)n, (uint32_t)odds);
  else if (n > 1 && odds) chosen = random_seldom(&w->random, (uint32_t)n, (uint32_t)odds);
  else if (n > 1 && w->explore) chosen = explore_choose(w->explore, (uint32_t)n, CHOICE_PROGRAM);
  else if (n > 1) chosen = random_below(&w->random, (uint32_t)n);
  lua_pushinteger(L, (lua_Integer)chosen + 1);
  return 1;
}

/* is_alone() -> whether no other go block is ready and no timer is pending: however long the running one takes, nothing
   happens meanwhile */
static int lua_is_alone(lua_State *L) {
  const World *w = &sched_self(L)->world;
  lua_pushboolean(L, w->nready == 0 && w->heap.count == 0);
  return 1;
}

/* note(n): adds a note with this number to the story, if one is recorded */
static int lua_note(lua_State *L) {
  const Sched *S = sched_self(L);
  if (S->tracer && S->tracer->story) {
    story_add(S->tracer->story, STORY_NOTE, 0, 0, 0, (uint64_t)luaL_checkinteger(L, 1), 0);
  }
  return 0;
}

void lua_explore_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"backtrack", lua_backtrack},     {"choose", lua_choose}, {"event", lua_event},   {"is_alone", lua_is_alone},
      {"is_known", lua_is_known},       {"made", lua_made},     {"new", lua_new},       {"note", lua_note},
      {"repeat_last", lua_repeat_last}, {"run", lua_run},       {"script", lua_script}, {"share", lua_share},
      {"shared", lua_shared},           {"record", lua_record}, {NULL, NULL},
  };
  luaL_newmetatable(L, EXPLORE_TNAME);
  lua_pushcfunction(L, explore_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  lua_newtable(L);
  module_register(L, functions);
  lua_setfield(L, -2, "explore");
}
