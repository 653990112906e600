/* map.h: a hash table from 64 bits to 64 bits, with a mark on each entry to find those that are no longer used. */
#ifndef RUNNEL_MAP_H
#define RUNNEL_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct MapEntry {
  uint64_t key;   /* 0: the slot is empty */
  uint64_t value; /* what the key stands for */
  uint32_t mark;  /* the caller's */
} MapEntry;

/* Begins as zeros. */
typedef struct Map {
  MapEntry *slots; /* the table */
  uint32_t room;   /* its slots: a power of two, or 0 */
  uint32_t n;      /* entries */
} Map;

/* The entry of a key, or NULL. */
MapEntry *map_find(const Map *map, uint64_t key);

/* The entry of a key, which is added with zeros if there is none. NULL if there is no memory. It stays where it is
   until the next entry is added or removed. */
MapEntry *map_add(Map *map, uint64_t key);

/* Removes the entries that do not have this mark. Returns false if there was no memory, and then removes none. */
bool map_keep_marked(Map *map, uint32_t mark);

/* Removes all entries; frees the memory. */
void map_clear(Map *map);
void map_free(Map *map);

/* A key for bytes, and for a string: two different ones never have the same, for all practical purposes. */
uint64_t map_hash_bytes(const void *bytes, size_t length);
uint64_t map_hash(const char *string);

#endif
