/* footprint.c: see footprint.h. */
#include "sim/footprint.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

/* ---- memory ---- */

bool footprint_room(Footprint *f, void *items, size_t *capacity, size_t n, size_t size) {
  void *array;
  memcpy(&array, items, sizeof array);
  array = grow(array, capacity, n ? n : 1, size);
  if (array) memcpy(items, &array, sizeof array);
  else f->failed = true; /* uncovered: only when memory runs out */
  return array != NULL;
}

void footprint_begin(Footprint *f) {
  f->n = f->nobjects = f->nwaits = f->nwords = f->nblocks = 0;
  f->is_open = f->rests = f->passes = f->failed = false;
  f->alt = NULL;
  map_clear(&f->numbers);
}

void footprint_close(Footprint *f) {
  free(f->steps);
  free(f->objects);
  free(f->waits);
  free(f->words);
  free(f->blocks);
  map_free(&f->numbers);
  *f = (Footprint){0};
}

/* ---- objects ---- */

enum { CHANNEL, TURN_OF };

/* Ids of this world count from its first one on, so that they are the same in each run. Those of outer worlds are the
   same anyway. */
static uint64_t object_of(const World *w, uint64_t id, int kind) {
  if (id >= w->first_id) return (id - w->first_id + 1) << 2 | (uint64_t)kind;
  return UINT64_C(1) << 63 | id << 2 | (uint64_t)kind;
}

uint64_t footprint_channel(const World *w, const Chan *ch) { return object_of(w, ch->id, CHANNEL); }

uint64_t footprint_turn(const World *w, const Go *go) { return object_of(w, go->chan.id, TURN_OF); }

/* The number of the go block with this turn. */
static uint32_t number_of(Footprint *f, uint64_t turn) {
  MapEntry *entry = map_add(&f->numbers, turn);
  if (!entry || !footprint_room(f, &f->blocks, &f->blocks_size, f->nblocks + 1, sizeof *f->blocks)) {
    f->failed = true; /* uncovered: only when memory runs out */
    return 0;         /* uncovered: see above */
  }
  if (!entry->value) {
    f->blocks[f->nblocks++] = (Block){.turn = turn};
    entry->value = f->nblocks;
  }
  return (uint32_t)entry->value - 1;
}

void footprint_touch(Footprint *f, uint64_t object) {
  if (!f->is_open) return;
  Span *touched = &f->steps[f->n - 1].objects;
  for (uint32_t i = 0; i < touched->n; i++) {
    if (f->objects[touched->first + i] == object) return;
  }
  if (!footprint_room(f, &f->objects, &f->objects_size, f->nobjects + 1, sizeof object)) return;
  f->objects[f->nobjects++] = object;
  touched->n++;
}

/* ---- the run queue ---- */

static const Go *block_at(const Link *link) { return CONTAINER_OF(link, const Go, alt.own.waiter.link); }

static void add_word(Footprint *f, Span *span, uint32_t word) {
  if (!footprint_room(f, &f->words, &f->words_size, f->nwords + 1, sizeof word)) return;
  f->words[f->nwords++] = word;
  span->n++;
}

Span footprint_queue(Footprint *f, const World *w) {
  Span queue = {.first = f->nwords};
  const Link *link = w->ready.first;
  for (uint32_t i = 0; i < w->nready; i++, link = link->next) {
    add_word(f, &queue, number_of(f, footprint_turn(w, block_at(link))));
  }
  return queue;
}

/* Those that were ready before the step come first, without the one that it resumed: the others have become ready. */
static void note_woken(Footprint *f, const World *w, Step *s) {
  Span now = footprint_queue(f, w), woken = {.first = f->nwords};
  for (uint32_t i = 0, before = 0; i < now.n && !f->failed; i++) {
    uint32_t number = f->words[now.first + i];
    bool was_ready = false;
    while (before < s->queue.n && !was_ready) {
      uint32_t was = f->words[s->queue.first + before++];
      was_ready = was == number && was != s->go;
    }
    if (!was_ready) add_word(f, &woken, number);
  }
  s->woken = woken;
}

/* ---- steps ---- */

void footprint_finish(Footprint *f) {
  if (!f->is_open || f->failed) return;
  Step *s = &f->steps[f->n - 1];
  Block *block = &f->blocks[s->go];
  s->done = s->objects.n;
  for (uint32_t k = 0; k < block->ntried; k++) footprint_touch(f, block->tried[k]);
  block->ntried = 0;
  f->is_open = false;
}

void footprint_end(Footprint *f, const World *w) {
  if (!f->is_open || f->failed) return;
  Step *s = &f->steps[f->n - 1];
  note_woken(f, w, s);
  for (uint32_t i = 0; i < s->woken.n && !f->failed; i++) {
    const Block *block = &f->blocks[f->words[s->woken.first + i]];
    footprint_touch(f, block->turn);
    for (uint32_t k = 0; k < block->waits.n; k++) footprint_touch(f, f->waits[block->waits.first + k]);
  }
  footprint_finish(f);
}

const Step *footprint_next(Footprint *f, const Sched *S, uint32_t next, uint32_t made) {
  const World *w = &S->world;
  footprint_end(f, w);
  if (!footprint_room(f, &f->steps, &f->size, f->n + 1, sizeof *f->steps)) return NULL;
  Step *s = &f->steps[f->n++];
  *s = (Step){.made = made, .next = next, .rests = f->rests, .queue = footprint_queue(f, w)};
  s->born = object_of(w, S->next_id, 0);
  s->objects.first = f->nobjects;
  f->rests = false;
  return f->failed ? NULL : s;
}

void footprint_choose(Footprint *f, const World *w, Link *link) {
  const Go *go = block_at(link);
  f->alt = &go->alt;
  uint32_t number = number_of(f, footprint_turn(w, go));
  f->steps[f->n - 1].go = number;
  if (!f->failed) f->blocks[number].waits.n = 0;
  f->is_open = true;
  footprint_touch(f, footprint_turn(w, go));
  if (f->passes) footprint_touch(f, OBJECT_ALL);
  f->passes = false;
}

void footprint_left(Footprint *f, const World *w) {
  const Alt *alt = f->alt;
  if (!f->is_open || f->failed || !alt || alt->state != ALT_PARKED) return;
  if (!footprint_room(f, &f->waits, &f->waits_size, f->nwaits + alt->count, sizeof *f->waits)) return;
  Span waits = {f->nwaits, alt->count};
  for (uint32_t i = 0; i < alt->count; i++) {
    uint64_t object = footprint_channel(w, alt_waiters(alt)[i].chan);
    footprint_touch(f, object);
    f->waits[f->nwaits++] = object;
  }
  f->blocks[f->steps[f->n - 1].go].waits = waits;
}

void footprint_rest(Footprint *f, const World *w) {
  footprint_end(f, w);
  f->rests = true;
}
