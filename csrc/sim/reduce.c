/* reduce.c: see reduce.h. */
#include "sim/reduce.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "sim/races.h"
#include "sim/run_key.h"

/* ---- places ---- */

/* Forgets the places from the k-th on. Their arrays stay, for those that come. */
static void drop_places(Reduce *r, size_t k) {
  while (r->nplaces > k) {
    Place *place = &r->places[--r->nplaces];
    while (place->ntried) free(place->tried[--place->ntried].objects);
    while (place->nothers) free(place->others[--place->nothers].turns);
    place->ntouched = 0;
  }
}

static bool contains(const uint64_t *objects, size_t n, uint64_t object) {
  for (size_t i = 0; i < n; i++) {
    if (objects[i] == object) return true;
  }
  return false;
}

/* Whether the step depends on what a go block would do that was tried. */
static bool depends(const Footprint *f, const Step *s, const Tried *tried) {
  const uint64_t *touched = f->objects + s->objects.first;
  for (uint32_t i = 0; i < s->objects.n; i++) {
    if (touched[i] == OBJECT_ALL || contains(tried->objects, tried->n, touched[i])) return true;
  }
  return contains(tried->objects, tried->n, OBJECT_ALL);
}

/* Lets a go block sleep at the next place, if it may: the step at the place before does not depend on it. */
static void go_on_sleeping(Reduce *r, const Place *before, const Step *s, Tried tried) {
  if (tried.turn == before->turn || depends(&r->run, s, &tried)) return;
  if (!footprint_room(&r->run, &r->sleepers, &r->sleepers_size, r->nsleepers + 1, sizeof tried)) return;
  r->sleepers[r->nsleepers++] = tried;
}

/* Adds the place of the last step, which has just begun. */
static void add_place(Reduce *r) {
  size_t k = r->nplaces, before = r->places_size;
  if (!footprint_room(&r->run, &r->places, &r->places_size, k + 1, sizeof *r->places)) return;
  if (r->places_size > before) memset(r->places + before, 0, (r->places_size - before) * sizeof *r->places);
  Span sleep = {0};
  if (k > 0) {
    const Place *last = &r->places[k - 1];
    const Step *s = &r->run.steps[k - 1];
    sleep.first = r->nsleepers = last->sleep.first + last->sleep.n;
    for (uint32_t i = 0; i < last->sleep.n; i++) go_on_sleeping(r, last, s, r->sleepers[last->sleep.first + i]);
    for (size_t i = 0; i < last->ntried; i++) go_on_sleeping(r, last, s, last->tried[i]);
    sleep.n = (uint32_t)(r->nsleepers - sleep.first);
  }
  r->places[k].sleep = sleep;
  r->places[k].turn = 0;
  r->nplaces++;
}

static bool sleeps(const Reduce *r, const Place *place, uint64_t turn) {
  for (uint32_t i = 0; i < place->sleep.n; i++) {
    if (r->sleepers[place->sleep.first + i].turn == turn) return true;
  }
  return false;
}

/* Which of the `next` ready go blocks has this turn, from 0 on; or UINT32_MAX. */
static uint32_t find_turn(const Footprint *f, const Step *s, uint64_t turn) {
  for (uint32_t i = 0; i < s->next; i++) {
    if (f->blocks[f->words[s->queue.first + i]].turn == turn) return i;
  }
  return UINT32_MAX;
}

/* The step before the k-th place, from 0, has ended: what slept before it, and depends on it, wakes. */
static void wake(Reduce *r, size_t k) {
  Footprint *f = &r->run;
  const Place *last = &r->places[k - 1];
  const Step *s = &f->steps[k - 1];
  for (size_t i = 0; i < last->sleep.n + last->ntried; i++) {
    const Tried *tried = i < last->sleep.n ? &r->sleepers[last->sleep.first + i] : &last->tried[i - last->sleep.n];
    if (tried->turn == last->turn || !depends(f, s, tried)) continue;
    const MapEntry *entry = map_find(&f->numbers, tried->turn);
    if (!entry) continue;
    f->blocks[entry->value - 1].tried = tried->objects;
    f->blocks[entry->value - 1].ntried = tried->n;
  }
}

static uint64_t turn_at(const Footprint *f, const Step *s, uint32_t i) {
  return f->blocks[f->words[s->queue.first + i]].turn;
}

/* ---- a run ---- */

void reduce_begin(lua_State *L, Reduce *r, bool is_path) {
  footprint_begin(&r->run);
  variables_begin(L, &r->variables);
  r->is_on = true;
  r->is_path = is_path;
  r->is_asleep = r->has_ended = false;
  r->key = 0;
}

uint32_t reduce_next(Reduce *r, const Sched *S, uint32_t next, uint32_t made) {
  Footprint *f = &r->run;
  const Step *s = footprint_next(f, S, next, made);
  if (!s) return UINT32_MAX; /* uncovered: only when memory runs out */
  if (!r->is_path) return 0;
  if (f->n > 1) wake(r, f->n - 1);
  if (f->n <= r->nplaces) return 0;
  add_place(r);
  if (f->failed) return UINT32_MAX; /* uncovered: see above */
  size_t k = f->n - 1 - r->from;
  uint32_t wanted = k < r->order.n ? find_turn(f, s, r->order.turns[k]) : UINT32_MAX;
  if (wanted != UINT32_MAX && !sleeps(r, &r->places[f->n - 1], r->order.turns[k])) return wanted;
  for (uint32_t i = 0; i < next; i++) {
    if (!sleeps(r, &r->places[f->n - 1], turn_at(f, s, i))) return i;
  }
  drop_places(r, --f->n);
  r->is_asleep = true;
  return UINT32_MAX;
}

void reduce_choose(Reduce *r, const World *w, Link *link) {
  footprint_choose(&r->run, w, link);
  if (r->is_path) r->places[r->run.n - 1].turn = r->run.blocks[r->run.steps[r->run.n - 1].go].turn;
}

/* The run has ended with its function. What was ready could have run before its last step, which ends it. */
static void try_left(Reduce *r) {
  const Footprint *f = &r->run;
  const Step *s = &f->steps[f->n - 1];
  for (uint32_t i = 0; i < r->left.n; i++) {
    uint64_t turn = f->blocks[f->words[r->left.first + i]].turn;
    if (find_turn(f, s, turn) != UINT32_MAX) races_try(r, &r->places[f->n - 1], &turn, 1);
  }
}

bool reduce_end(lua_State *L, const Explore *e, bool is_whole) {
  Reduce *r = e->reduce;
  Footprint *f = &r->run;
  r->is_on = false;
  footprint_finish(f);
  variables_end(L, &r->variables);
  f->failed |= r->variables.failed;
  if (f->failed || f->n == 0) return !f->failed;
  if (r->is_path) races_find(r);
  if (r->is_path && r->has_ended && !f->failed) try_left(r);
  if (is_whole && !f->failed) r->key = run_key(r, e);
  if (r->is_path && r->key && !map_add(&r->known, r->key)) f->failed = true;
  return !f->failed;
}

/* ---- the next run ---- */

/* Adds what the step at a place has touched to what it has touched there under other choices. */
static void keep_touched(Reduce *r, Place *place, const Step *s) {
  for (uint32_t i = 0; i < s->objects.n; i++) {
    uint64_t object = r->run.objects[s->objects.first + i];
    if (footprint_is_born_in(s, object) || contains(place->touched, place->ntouched, object)) continue;
    if (!footprint_room(&r->run, &place->touched, &place->touched_size, place->ntouched + 1, sizeof object)) return;
    place->touched[place->ntouched++] = object;
  }
}

/* Its go block has run at the place under all choices. */
static void end_trying(Reduce *r, Place *place, const Step *s) {
  keep_touched(r, place, s);
  Tried tried = {place->turn, (uint64_t *)malloc((place->ntouched + 1) * sizeof(uint64_t)), (uint32_t)place->ntouched};
  bool has_room = footprint_room(&r->run, &place->tried, &place->tried_size, place->ntried + 1, sizeof tried);
  if (!tried.objects || !has_room) {
    free(tried.objects); /* uncovered: only when memory runs out */
    r->run.failed = true;
    return;
  }
  memcpy(tried.objects, place->touched, place->ntouched * sizeof *tried.objects);
  place->tried[place->ntried++] = tried;
  place->ntouched = 0;
}

/* The choices up to number n become the path, and the next one is `choice`. */
static bool set_path(Explore *e, size_t n, size_t place, Choice choice) {
  Choices path = e->made;
  e->made = e->path;
  e->path = path;
  e->path.n = n;
  e->reduce->from = place;
  drop_places(e->reduce, place + 1);
  return explore_add(&e->path, choice);
}

/* Whether another go block must be tried at a place: makes it the next one. */
static bool try_other(Reduce *r, Place *place, const Step *s, uint32_t *at) {
  if (!place->nothers) return false;
  free(r->order.turns);
  r->order = place->others[0]; /* the oldest: fewer runs end asleep so */
  memmove(place->others, place->others + 1, --place->nothers * sizeof r->order);
  place->turn = r->order.turns[0];
  *at = find_turn(&r->run, s, place->turn);
  return *at != UINT32_MAX;
}

bool reduce_backtrack(Explore *e) {
  Reduce *r = e->reduce;
  const Footprint *f = &r->run;
  size_t end = e->made.n;
  for (size_t k = r->nplaces; k-- > 0 && !f->failed;) {
    Place *place = &r->places[k];
    const Step *s = &f->steps[k];
    for (size_t i = end; i-- > s->made + (s->next > 1u);) { /* the choices of the step */
      Choice choice = e->made.items[i];
      if (++choice.chosen >= choice.of >> 2) continue;
      keep_touched(r, place, s);
      r->order.n = 0;
      return set_path(e, i, k, choice);
    }
    end = s->made;
    end_trying(r, place, s);
    uint32_t at;
    if (try_other(r, place, s, &at)) return set_path(e, end, k, (Choice){at, s->next << 2 | CHOICE_READY});
    drop_places(r, k);
  }
  return false;
}

void reduce_close(lua_State *L, Reduce *r) {
  drop_places(r, 0);
  for (size_t i = 0; i < r->places_size; i++) {
    free(r->places[i].tried);
    free(r->places[i].others);
    free(r->places[i].touched);
  }
  free(r->order.turns);
  free(r->places);
  free(r->sleepers);
  free(r->clocks);
  free(r->before);
  free(r->begins);
  free(r->order_now);
  free(r->names);
  map_free(&r->known);
  map_free(&r->last);
  footprint_close(&r->run);
  variables_close(L, &r->variables);
}

/* ---- what the core tells ---- */

static void touch(const Chan *ch) {
  Reduce *r = reduce_running(&ch->sched->world);
  if (r) footprint_touch(&r->run, footprint_channel(&ch->sched->world, ch));
}

static void on_put(lua_State *L, Chan *ch, int at, int value, const Alt *taker) {
  (void)L, (void)at, (void)value, (void)taker;
  touch(ch);
}

static void on_take(Chan *ch, const Alt *other) {
  (void)other;
  touch(ch);
}

static void on_shared(lua_State *L, Chan *ch, int at, const Alt *alt, bool is_put) {
  (void)L, (void)at, (void)alt, (void)is_put;
  touch(ch);
}

static void on_look(Chan *ch, Look what) {
  Reduce *r = reduce_running(&ch->sched->world);
  if (!r) return;
  touch(ch);
  const Go *go = chan_to_go(ch);
  if (what == LOOK_BLOCK && go) footprint_touch(&r->run, footprint_turn(&ch->sched->world, go));
  if (what == LOOK_TIMEOUT) footprint_touch(&r->run, OBJECT_TIMERS);
}

static void on_spawn(lua_State *L, Sched *S, Go *go, int at) {
  Reduce *r = reduce_running(&S->world);
  (void)at;
  if (r) variables_spawn(L, &r->variables, S, go);
}

static void on_end(Sched *S, const Go *go, bool is_error) {
  Reduce *r = reduce_running(&S->world);
  (void)is_error;
  if (!r) return;
  if (r->run.alt == &go->alt) r->run.alt = NULL;
  if (go != S->awaited || !r->until_end) return;
  footprint_touch(&r->run, OBJECT_ALL);
  r->left = footprint_queue(&r->run, &S->world);
  r->has_ended = true;
}

static void on_left(lua_State *L, Sched *S, const Alt *alt) {
  Reduce *r = reduce_running(&S->world);
  if (!r || !r->run.is_open) return;
  /* It has let the others run: what can be next depends on which of them have not run yet (lua/turn.h). */
  if (S->world.turned == &alt->own.waiter.link) footprint_touch(&r->run, OBJECT_ALL);
  footprint_left(&r->run, &S->world);
  variables_check(L, &r->variables, &r->run);
}

static void on_idle(Sched *S) {
  Reduce *r = reduce_running(&S->world);
  if (r) footprint_rest(&r->run, &S->world);
}

const Observer reduce_observer = {
    .spawn = on_spawn,
    .left = on_left,
    .end = on_end,
    .idle = on_idle,
    .put = on_put,
    .take = on_take,
    .admit = on_take,
    .serve = on_take,
    .shared = on_shared,
    .close = touch,
    .look = on_look,
};
