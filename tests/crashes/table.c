/* Sets of hashes. See crashes.h. */
#include "crashes.h"

#include <stdlib.h>

struct Entry {
  uint64_t hash; /* 0: none */
  int64_t value;
};

static Entry *find(const Table *table, uint64_t hash) {
  size_t i = hash & (table->room - 1);
  while (table->entries[i].hash && table->entries[i].hash != hash) i = (i + 1) & (table->room - 1);
  return &table->entries[i];
}

static void grow(Table *table) {
  Table larger = {.count = table->count, .room = table->room ? 2 * table->room : 1024};
  larger.entries = calloc(larger.room, sizeof *larger.entries);
  if (!larger.entries) abort();
  for (size_t i = 0; i < table->room; i++)
    if (table->entries[i].hash) *find(&larger, table->entries[i].hash) = table->entries[i];
  free(table->entries);
  *table = larger;
}

bool table_put(Table *table, uint64_t hash, int64_t value) {
  if (hash == 0) hash = 1;
  if (2 * table->count >= table->room) grow(table);
  Entry *entry = find(table, hash);
  bool is_new = entry->hash == 0;
  if (is_new) table->count++;
  *entry = (Entry){hash, value};
  return is_new;
}

int64_t table_get(const Table *table, uint64_t hash) {
  if (table->room == 0) return -1;
  const Entry *entry = find(table, hash ? hash : 1);
  return entry->hash ? entry->value : -1;
}
