/* run_key.c: see run_key.h. Ids depend on the order in which things are made, so a go block or a channel is named by
   the step that has made it. A step is named by its go block, how many steps that has run before, and its choices. */
#include "sim/run_key.h"

/* A hash of two hashes, in this order (splitmix64's finalizer). */
static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t h = a * UINT64_C(0x9E3779B97F4A7C15) + b;
  h = (h ^ h >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  h = (h ^ h >> 27) * UINT64_C(0x94D049BB133111EB);
  return h ^ h >> 31;
}

/* The name of an object: that of the step in which it was made, and what it is there. names[i] is that of step i. */
static uint64_t name_of(const Footprint *f, const uint64_t *names, uint64_t object) {
  if (object >> 63 || object < f->steps[0].born) return object;
  size_t low = 0, high = f->n; /* it was made in a step of low to high - 1 */
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (f->steps[middle].born <= object) low = middle;
    else high = middle;
  }
  return mix(names[low], object - f->steps[low].born);
}

/* The name of step i, which is the turn with this name of its go block. */
static uint64_t name_step(const Footprint *f, const Explore *e, size_t i, uint64_t turn) {
  const Step *s = &f->steps[i];
  size_t end = i + 1 < f->n ? s[1].made : e->made.n;
  for (size_t k = s->made + (s->next > 1u); k < end; k++) turn = mix(turn, e->made.items[k].chosen);
  return turn;
}

uint64_t run_key(Reduce *r, const Explore *e) {
  Footprint *f = &r->run;
  if (!footprint_room(f, &r->names, &r->names_size, f->n + f->nblocks, sizeof *r->names)) return 0;
  uint64_t *steps = r->names, *turns = steps + f->n, key = 0;
  for (size_t i = 0; i < f->nblocks; i++) turns[i] = 0;
  map_clear(&r->last);
  for (size_t i = 0; i < f->n; i++) {
    const Step *s = &f->steps[i];
    uint64_t *turn = &turns[s->go];
    *turn = mix(*turn ? *turn : name_of(f, steps, f->blocks[s->go].turn), 1);
    steps[i] = name_step(f, e, i, *turn);
    for (uint32_t k = 0; k < s->done; k++) {
      MapEntry *entry = map_add(&r->last, f->objects[s->objects.first + k]);
      if (entry) entry->value = mix(entry->value, steps[i]);
      else f->failed = true; /* uncovered: only when memory runs out */
    }
  }
  for (uint32_t i = 0; i < r->last.room; i++) {
    const MapEntry *entry = &r->last.slots[i];
    if (entry->key) key += mix(name_of(f, steps, entry->key), entry->value);
  }
  return key ? key : 1;
}
