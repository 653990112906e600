/* map.c: see map.h. */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

/* The slot with the key, or the empty one where it belongs. */
static MapEntry *slot_of(const Map *map, uint64_t key) {
  uint64_t mask = map->room - 1, i = (key ^ key >> 29) * UINT64_C(0x9E3779B97F4A7C15) >> 20 & mask;
  while (map->slots[i].key && map->slots[i].key != key) i = (i + 1) & mask;
  return &map->slots[i];
}

MapEntry *map_find(const Map *map, uint64_t key) {
  if (!map->room) return NULL;
  MapEntry *entry = slot_of(map, key);
  return entry->key ? entry : NULL;
}

/* Moves the entries with the mark, or all, to a new table. */
static bool move(Map *map, uint32_t room, bool all, uint32_t mark) {
  Map to = {.slots = calloc(room, sizeof(MapEntry)), .room = room};
  if (!to.slots) return false;
  for (uint32_t i = 0; i < map->room; i++) {
    if (!map->slots[i].key || (!all && map->slots[i].mark != mark)) continue;
    *slot_of(&to, map->slots[i].key) = map->slots[i];
    to.n++;
  }
  free(map->slots);
  *map = to;
  return true;
}

MapEntry *map_add(Map *map, uint64_t key) {
  if (map->n * 2 >= map->room && !move(map, map->room ? map->room * 2 : 64, true, 0)) return NULL;
  MapEntry *entry = slot_of(map, key);
  if (!entry->key) {
    *entry = (MapEntry){.key = key};
    map->n++;
  }
  return entry;
}

bool map_keep_marked(Map *map, uint32_t mark) { return !map->room || move(map, map->room, false, mark); }

void map_clear(Map *map) {
  if (map->room) memset(map->slots, 0, map->room * sizeof(MapEntry));
  map->n = 0;
}

void map_free(Map *map) {
  free(map->slots);
  *map = (Map){0};
}

uint64_t map_hash_bytes(const void *bytes, size_t length) {
  const unsigned char *at = (const unsigned char *)bytes;
  uint64_t h = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < length; i++) h = (h ^ at[i]) * UINT64_C(1099511628211);
  h ^= h >> 32;
  return h * UINT64_C(0x9E3779B97F4A7C15) | 1;
}

uint64_t map_hash(const char *string) { return map_hash_bytes(string, strlen(string)); }
