/* races.c: see races.h. Steps are numbered from 1 in clocks and in lists, so 0 is none. */
#include "sim/races.h"

#include <stdlib.h>
#include <string.h>

bool races_has(const Reduce *r, const Place *place, uint64_t turn) {
  if (place->turn == turn) return true;
  for (size_t i = 0; i < place->ntried; i++) {
    if (place->tried[i].turn == turn) return true;
  }
  for (size_t i = 0; i < place->nothers; i++) {
    if (place->others[i].turns[0] == turn) return true;
  }
  for (uint32_t i = 0; i < place->sleep.n; i++) {
    if (r->sleepers[place->sleep.first + i].turn == turn) return true;
  }
  return false;
}

void races_try(Reduce *r, Place *place, const uint64_t *turns, uint32_t n) {
  if (races_has(r, place, turns[0])) return;
  Other other = {(uint64_t *)malloc(n * sizeof *turns), n};
  bool has_room = footprint_room(&r->run, &place->others, &place->others_size, place->nothers + 1, sizeof other);
  if (!other.turns || !has_room) {
    free(other.turns);    /* uncovered: only when memory runs out */
    r->run.failed = true; /* uncovered: see above */
    return;               /* uncovered: see above */
  }
  memcpy(other.turns, turns, n * sizeof *turns);
  place->others[place->nothers++] = other;
}

static bool is_among(const Footprint *f, Span span, uint32_t n, uint32_t number) {
  for (uint32_t i = 0; i < n; i++) {
    if (f->words[span.first + i] == number) return true;
  }
  return false;
}

/* For each go block, the last of its steps that comes before step `number`, or is it. */
static uint32_t *clock_of(const Reduce *r, uint64_t number) {
  return r->clocks + (size_t)(number - r->clocked - 1) * r->run.nblocks;
}

/* Steps e and j race: notes at the place of e an order in which j comes first: the steps between that j needs, and j. None
   of them needs e. Nothing is noted if an initial of an equivalent order was tried there, or sleeps: a go block whose
   first step, among all between that do not need e, needs no other of them. */
static void reverse(Reduce *r, uint32_t e, uint32_t j) {
  Footprint *f = &r->run;
  const Step *first = &f->steps[e - 1];
  Place *place = &r->places[e - 1];
  const uint32_t *of_j = clock_of(r, j);
  uint32_t last = f->steps[j - 1].go;
  bool was_ready = is_among(f, first->queue, first->next, last), can_begin = false;
  if (!was_ready && is_among(f, first->woken, first->woken.n, last)) return; /* no race: j needs e */
  if (!footprint_room(f, &r->order_now, &r->order_size, j - e, sizeof *r->order_now)) return;
  r->norder = 0;
  for (size_t i = 0; i < f->nblocks; i++) r->begins[i] = 0;
  for (uint32_t i = e + 1; i <= j; i++) {
    const uint32_t *clock = clock_of(r, i);
    uint32_t go = f->steps[i - 1].go;
    uint64_t turn = f->blocks[go].turn;
    if (i < j && clock[first->go] >= e) continue;
    bool is_initial = !r->begins[go] && is_among(f, first->queue, first->next, go);
    for (size_t k = 0; k < f->nblocks && is_initial; k++) is_initial = !r->begins[k] || clock[k] < r->begins[k];
    if (!r->begins[go]) r->begins[go] = i;
    if (is_initial && races_has(r, place, turn)) return;
    if (i < j && of_j[go] < i) continue;
    if (r->norder == 0) can_begin = is_initial;
    r->order_now[r->norder++] = turn;
  }
  if (can_begin) {
    races_try(r, place, r->order_now, (uint32_t)r->norder);
    return;
  }
  /* One that has just let the others run could not be next there (lua/turn.h): tries all that could. */
  for (uint32_t i = 0; i < first->next; i++) {
    races_try(r, place, &f->blocks[f->words[first->queue.first + i]].turn, 1);
  }
}

/* Notes that step `number`, if not 0, comes before the step with this clock. */
static void add_before(Reduce *r, uint64_t number, uint32_t *clock) {
  if (!number) return;
  for (size_t i = 0; i < r->nbefore; i++) {
    if (r->before[i] == number) return;
  }
  const uint32_t *other = clock_of(r, number);
  for (size_t i = 0; i < r->run.nblocks; i++) {
    if (other[i] > clock[i]) clock[i] = other[i];
  }
  r->before[r->nbefore++] = (uint32_t)number;
}

static uint64_t last_of(const Reduce *r, uint64_t object) {
  const MapEntry *entry = map_find(&r->last, object);
  return entry ? entry->value : 0;
}

/* Lists in r->before the steps that come directly before step j. */
static void list_before(Reduce *r, uint32_t j, uint32_t *clock) {
  Footprint *f = &r->run;
  const Step *s = &f->steps[j - 1];
  r->nbefore = 0;
  size_t most = s->objects.n + f->nblocks + 1;
  if (!footprint_room(f, &r->before, &r->before_size, most, sizeof *r->before)) return;
  for (uint32_t i = 0; i < s->objects.n; i++) {
    uint64_t object = f->objects[s->objects.first + i];
    MapEntry *entry = map_add(&r->last, object);
    f->failed |= !entry;
    if (!entry) return; /* uncovered: only when memory runs out */
    uint64_t before = entry->value;
    entry->value = j;
    add_before(r, before, clock);
    /* What comes after the last step that has touched the turn of a go block comes after all that go block's steps. */
    for (size_t k = 0; object == OBJECT_ALL && k < f->nblocks; k++) {
      before = last_of(r, f->blocks[k].turn);
      if (before != j) add_before(r, before, clock);
    }
  }
  uint64_t all = last_of(r, OBJECT_ALL);
  if (all != j) add_before(r, all, clock);
}

/* Reverses step j and those of r->before that no other one puts before it. */
static void find_at(Reduce *r, uint32_t j) {
  const Step *steps = r->run.steps;
  for (size_t i = 0; i < r->nbefore; i++) {
    uint32_t e = r->before[i], go = steps[e - 1].go;
    bool is_direct = go != steps[j - 1].go;
    for (size_t k = 0; k < r->nbefore && is_direct; k++) is_direct = k == i || clock_of(r, r->before[k])[go] < e;
    if (is_direct) reverse(r, e, j);
  }
}

void races_find(Reduce *r) {
  Footprint *f = &r->run;
  size_t start = r->from < f->n ? r->from : f->n - 1;
  while (start > 0 && !f->steps[start].rests) start--;
  r->clocked = start;
  size_t room = (f->n - start) * f->nblocks;
  if (!footprint_room(f, &r->clocks, &r->clocks_size, room, sizeof *r->clocks)) return;
  if (!footprint_room(f, &r->begins, &r->begins_size, f->nblocks, sizeof *r->begins)) return;
  map_clear(&r->last);
  for (uint32_t j = (uint32_t)start + 1; j <= f->n && !f->failed; j++) {
    const Step *s = &f->steps[j - 1];
    uint32_t *clock = clock_of(r, j);
    for (size_t i = 0; i < f->nblocks; i++) clock[i] = 0;
    if (s->rests) map_clear(&r->last);
    list_before(r, j, clock);
    if (j > r->from) find_at(r, j);
    clock[s->go] = j;
  }
}
