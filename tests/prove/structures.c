/* structures: random operations on the structures of csrc/base, each of which is compared with a simple one after every
   step. A part of `make prove`:

     structures SEED */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/random.h"
#include "base/windows.h"

enum { ROUNDS = 200, STEPS = 400, MANY = 300, KEPT_BY_MALLOC = 400000 };

static uint64_t state = 1;
static const char *what = "nothing";

static uint32_t below(uint32_t n) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((state >> 33) % n);
}

/* Ends the program with a message, unless `is` is true. */
static void check(bool is, const char *rule) {
  if (is) return;
  printf("structures: %s: %s\n", what, rule);
  exit(1);
}

/* ---- heap.c ---- */

typedef struct Timed {
  Timer timer;
  int64_t deadline;
  int order; /* of insertion; 0: it is in no heap */
} Timed;

/* The timer that is due first: the earliest deadline, and of equal ones the first that was inserted. */
static Timed *first_of(Timed *all) {
  Timed *first = NULL;
  for (int i = 0; i < MANY; i++) {
    if (!all[i].order) continue;
    bool is_before = !first || all[i].deadline < first->deadline ||
                     (all[i].deadline == first->deadline && all[i].order < first->order);
    if (is_before) first = &all[i];
  }
  return first;
}

static void check_heap(void) {
  what = "heap";
  static Timed all[MANY];
  memset(all, 0, sizeof all);
  Heap heap = {0};
  int order = 0;
  uint32_t n = 0, most = 1 + below(MANY), removes = below(4);
  for (int step = 0; step < STEPS; step++) {
    Timed *one = &all[below(most)];
    Timed *first = first_of(all);
    check((first ? &first->timer : NULL) == heap_first(&heap), "the first timer is the one that is due first");
    if (!one->order && below(3)) {
      if (heap.count == heap.capacity) {
        uint32_t capacity = heap.capacity ? heap.capacity * 2 : 2;
        HeapEntry *before = heap.entries;
        HeapEntry *entries = malloc(capacity * sizeof *entries);
        assert(entries);
        check(heap_move(&heap, entries, capacity) == before, "moving returns the old storage");
        check(heap.entries == entries && heap.capacity == capacity, "moving changes the storage");
        free(before);
      }
      one->deadline = below(8) ? below(50) : 7;
      one->timer = (Timer){.deadline = one->deadline, .place = HEAP_NOWHERE, .is_timeout = below(3) == 0};
      heap_insert(&heap, &one->timer);
      one->order = ++order;
      n++;
    } else if (first && below(4) >= removes) {
      check(heap_pop(&heap) == &first->timer, "popping removes the first timer");
      check(first->timer.place == HEAP_NOWHERE, "a timer that was popped is in no place");
      first->order = 0;
      n--;
    } else if (one->order && !one->timer.is_timeout) {
      heap_remove(&heap, &one->timer);
      check(one->timer.place == HEAP_NOWHERE, "a timer that was removed is in no place");
      one->order = 0;
      n--;
    }
    check(heap.count == n, "it counts its timers");
    for (int i = 0; i < MANY; i++) {
      const Timed *t = &all[i];
      if (!t->order) continue;
      if (t->timer.is_timeout) check(t->timer.place == HEAP_NOWHERE, "a timeout's timer is not written to");
      else
        check(t->timer.place < n && heap_timer(heap.entries[t->timer.place]) == &t->timer, "a sleeper knows its place");
    }
  }
  free(heap.entries);
}

/* ---- list.h ---- */

static void check_list(void) {
  what = "list";
  static Link links[MANY];
  memset(links, 0, sizeof links);
  List list = {NULL};
  Link *members[MANY] = {NULL};
  uint32_t n = 0, most = 1 + below(8);
  for (int step = 0; step < STEPS; step++) {
    uint32_t i = below(most);
    Link *link = &links[i];
    if (!link->next) {
      list_append(&list, link);
      members[n++] = link;
    } else {
      list_remove(&list, link);
      check(link->next == NULL, "a link that was removed has no next one");
      uint32_t at = 0;
      while (at < n && members[at] != link) at++;
      check(at < n, "a link with a next one is in the list");
      memmove(&members[at], &members[at + 1], (n - at - 1) * sizeof(Link *));
      n--;
    }
    check(list.first == (n ? members[0] : NULL), "the first member");
    for (uint32_t k = 0; k < n; k++) {
      check(members[k]->next == members[(k + 1) % n], "the next member");
      check(members[(k + 1) % n]->prev == members[k], "the previous member");
      check(list_next(&list, members[k]) == (k + 1 < n ? members[k + 1] : NULL), "list_next");
    }
  }
}

/* ---- windows.c ---- */

static void check_windows(void) {
  what = "windows";
  enum { SLOTS = 1000 };
  static int64_t deadlines[SLOTS]; /* of pending timeouts, by their numbers; 0: none */
  memset(deadlines, 0, sizeof deadlines);
  Windows windows = {0};
  int64_t now = (10 + (int64_t)below(1000)) * CLOCK_MS, grain = below(2) ? 1 : CLOCK_MS;
  uint32_t ms = below(2) ? 100 : 5000;
  for (int step = 0; step < STEPS; step++) {
    if (below(3)) {
      int64_t t = now + (int64_t)below(below(2) ? ms : 20) * CLOCK_MS + (int64_t)below(3) * grain;
      uint32_t latest = 0, earliest = 0; /* of its window, and of the next one */
      for (uint32_t i = 1; i < SLOTS; i++) {
        if (!deadlines[i]) continue;
        int64_t window = deadlines[i] / WINDOW_NS - t / WINDOW_NS;
        if (window == 0 && (!latest || deadlines[i] > deadlines[latest])) latest = i;
        if (window == 1 && (!earliest || deadlines[i] < deadlines[earliest])) earliest = i;
      }
      uint32_t expected = latest && deadlines[latest] >= t                  ? latest
                          : earliest && deadlines[earliest] - t < WINDOW_NS ? earliest
                                                                            : 0;
      check(windows_find(&windows, t) == expected,
            "it finds the latest of the window, or the earliest of the next one");
      if (expected) continue;
      while (windows_full(&windows)) {
        uint32_t capacity = windows.capacity ? windows.capacity * 2 : 16;
        Window *entries = malloc(capacity * sizeof *entries), *before = windows.entries;
        assert(entries);
        memset(entries, 0x55, capacity * sizeof *entries);
        windows_move(&windows, entries, capacity);
        check(windows.entries == entries && windows.capacity == capacity, "moving changes the storage");
        free(before);
      }
      uint32_t number = 1;
      while (deadlines[number]) number++;
      windows_add(&windows, t, number);
      deadlines[number] = t;
    } else {
      uint32_t first = 0;
      for (uint32_t i = 1; i < SLOTS; i++) {
        if (deadlines[i] && (!first || deadlines[i] < deadlines[first])) first = i;
      }
      if (!first) continue;
      now = deadlines[first];
      windows_remove(&windows, now, first);
      deadlines[first] = 0;
    }
    uint32_t n = 0;
    for (uint32_t i = 1; i < SLOTS; i++) {
      bool is_last = deadlines[i] != 0;
      for (uint32_t k = i + 1; k < SLOTS && is_last; k++)
        is_last = deadlines[k] / WINDOW_NS != deadlines[i] / WINDOW_NS;
      n += is_last;
    }
    check(windows.count == n, "it counts its windows");
    check(windows.count * 4 <= windows.capacity * 3, "a quarter of the entries stays free");
  }
  check(windows.capacity <= 2048, "it grows with the number of windows only");
  free(windows.entries);
}

/* ---- map.c ---- */

static void check_map(void) {
  what = "map";
  static uint64_t values[MANY];
  static uint32_t marks[MANY];
  memset(values, 0, sizeof values);
  Map map = {0};
  uint64_t factor = below(2) ? 1 : UINT64_C(1) << below(40);
  uint32_t n = 0, most = 1 + below(MANY);
  for (int step = 0; step < STEPS; step++) {
    uint32_t i = below(most), kind = below(100);
    uint64_t key = (i + 1) * factor;
    if (kind < 60) {
      MapEntry *entry = map_add(&map, key);
      assert(entry);
      check(entry->key == key && entry->value == values[i], "adding finds an entry, or makes one with zeros");
      if (!values[i]) {
        check(entry->mark == 0, "a new entry has no mark");
        n++;
      }
      entry->value = values[i] = (uint64_t)step + 1;
      entry->mark = marks[i] = below(2);
    } else if (kind < 97) {
      const MapEntry *entry = map_find(&map, key);
      check((entry != NULL) == (values[i] != 0), "it finds what was added");
      if (entry) check(entry->key == key && entry->value == values[i], "it finds the value");
    } else if (kind < 99) {
      bool had_room = map.room > 0;
      check(map_keep_marked(&map, 1), "it keeps the marked");
      check(had_room == (map.room > 0), "the marked stay where there is room");
      for (uint32_t k = 0; k < MANY; k++) {
        if (!values[k] || marks[k] == 1) continue;
        values[k] = 0;
        n--;
      }
    } else {
      map_clear(&map);
      memset(values, 0, sizeof values);
      n = 0;
    }
    check(map.n == n, "it counts its entries");
    check(map.room == 0 || map.n * 2 <= map.room + 1, "half of the slots stay free");
  }
  check(map.room <= 1024, "it grows with the number of entries only");
  map_free(&map);
  check(!map.slots && !map.room && !map.n && !map_find(&map, 1), "it is empty when it is freed");
  check(map_hash_bytes("abc", 2) == map_hash_bytes("abd", 2), "a hash is that of the given bytes only");
  check(map_hash("abc") == map_hash_bytes("abcd", 3), "a string's hash is that of its bytes");
  check(map_hash("abc") != map_hash("bbc") && map_hash("abc") != map_hash("abd"), "each byte counts");
  for (char text[] = "a"; text[0] < 'z'; text[0]++) check(map_hash(text) & 1, "a hash is odd, and so not 0");
}

/* ---- grow.h and bytes.h ---- */

static void check_grow(void) {
  what = "grow";
  size_t capacity = 0, size = 1 + below(300);
  void *items = grow(NULL, &capacity, 1, size);
  check(items && capacity == (GROW_LEAST / size + 1 > 1 ? GROW_LEAST / size + 1 : 1), "the first size");
  check(grow(items, &capacity, capacity, size) == items, "it stays while there is room");
  size_t before = capacity;
  items = grow(items, &capacity, before + 1, size);
  check(items && capacity == before * 2, "it doubles");
  before = capacity;
  items = grow(items, &capacity, before * 3, size);
  check(items && capacity == before * 3, "it grows to what is needed");
  before = capacity;
  check(!grow(items, &capacity, SIZE_MAX / size, size) && capacity == before, "too much is refused");
  free(items);
}

static void check_bytes(void) {
  what = "bytes";
  static char expected[100000], got[100000];
  size_t from = 0, to = 0;
  Bytes bytes = {0}, other = {0};
  check(bytes_first(&bytes)[0] == '\0', "an empty one has a first byte that may be read");
  size_t most = below(2) ? 100 : 10;
  for (int step = 0; step < STEPS; step++) {
    uint32_t kind = below(10);
    if (kind < 5) {
      size_t n = below((uint32_t)most);
      for (size_t i = 0; i < n; i++) expected[to + i] = (char)below(256);
      bool has_room = n <= bytes.capacity - bytes.to;
      size_t before = bytes.from;
      check(bytes_add(&bytes, expected + to, n), "adding");
      check(!has_room || bytes.from == before, "none is moved while there is room");
      to += n;
    } else if (kind < 7) {
      size_t n = below((uint32_t)most), left = to - from;
      check(bytes_take(&bytes, got, n) == (n < left ? n : left), "as many are taken as there are");
      if (n > left) n = left;
      check(memcmp(got, expected + from, n) == 0, "they are taken in order");
      from += n;
      if (n && from == to) check(!bytes.start && bytes.capacity == 0, "an empty one has no memory");
    } else if (kind < 9) {
      size_t n = to > from ? below((uint32_t)(to - from) + 1) : 0;
      bytes_drop(&bytes, n);
      from += n;
      if (from == to) check(!bytes.start && bytes.capacity == 0, "an empty one has no memory");
    } else {
      bool was_empty = bytes_length(&other) == 0;
      const char *start = bytes.start;
      check(bytes_move(&other, &bytes), "moving");
      check(!was_empty || other.start == start, "to an empty one they move with their memory");
      check(bytes_length(&bytes) == 0 && bytes_length(&other) == to - from, "all are moved");
      check(was_empty || bytes_length(&other) == to - from, "behind the others");
      check(bytes_move(&bytes, &other), "moving back");
      if (to > from && below(2)) {
        check(bytes_add(&other, expected + from, 1), "adding");
        bytes_drop(&bytes, 1);
        check(bytes_move(&other, &bytes) && bytes_move(&bytes, &other), "moving to one that has some");
      }
    }
    check(bytes_length(&bytes) == to - from, "it knows its length");
    check(memcmp(bytes_first(&bytes), expected + from, to - from) == 0, "it has the bytes");
    if (step == STEPS / 2) {
      bytes_clear(&bytes);
      from = to;
      check(bytes_length(&bytes) == 0, "a clear one is empty");
    }
  }
  bytes_free(&bytes);
  for (int i = 0; i < 1000; i++) { /* 90 to 190 bytes at any time */
    check(bytes_add(&bytes, expected, 100), "adding");
    bytes_drop(&bytes, i ? 100 : 10);
  }
  check(bytes.capacity <= 1200, "bytes that are dropped make room");
  bytes_drop(&bytes, bytes_length(&bytes));
  check(!bytes.start && bytes.capacity == 0, "the memory is freed when it is empty");
  bytes_free(&bytes);
  bytes_free(&other);
  check(!bytes.start && !bytes.capacity && !bytes.to, "it is empty when it is freed");
}

/* ---- buffer.h: the ring of slots ---- */

static void check_buffer(void) {
  what = "buffer";
  Buffer b = {.kind = (uint8_t)(BUFFER_FIXED + below(4)), .limit = below(2) ? 1 + below(4) : 1 + below(40)};
  if (b.kind == BUFFER_PROMISE) b.limit = 1;
  bool is_many = b.kind == BUFFER_FIXED && below(4) == 0; /* a transducer makes many of one */
  uint32_t slots[2048], values[2048], n = 0, value = 0;
  for (int step = 0; step < STEPS; step++) {
    bool is_at_limit = n >= b.limit;
    check(buffer_full(&b) == (b.kind == BUFFER_FIXED && is_at_limit), "full");
    check(buffer_count(&b) == n, "count");
    BufferAdd add = buffer_add(&b);
    BufferAdd expected = !is_at_limit || b.kind == BUFFER_FIXED ? BUFFER_ADD
                         : b.kind == BUFFER_SLIDING             ? BUFFER_SLIDE
                                                                : BUFFER_DROP;
    check(add == expected, "what adding does");
    bool adds = below(2) && (!is_at_limit || b.kind != BUFFER_FIXED || (is_many && n < 900));
    if ((adds && add == BUFFER_SLIDE) || (!adds && n)) {
      check(slots[b.head] == values[0], "the oldest value");
      bool is_at_end = buffer_at_end(&b);
      check(is_at_end == (n == 1 || b.head + 1 == b.size), "whether the ring begins again");
      buffer_advance(&b);
      check(!is_at_end || b.head == 0, "the ring begins again");
      memmove(values, values + 1, --n * sizeof values[0]);
    }
    if (!adds || add == BUFFER_DROP) continue;
    if (b.count == b.size) {
      uint32_t size = buffer_grown(&b), first = b.limit < BUFFER_FIRST_SIZE ? b.limit : BUFFER_FIRST_SIZE;
      check(size == (!b.size                                    ? first
                     : b.size < b.limit && b.size * 2 > b.limit ? b.limit
                                                                : b.size * 2),
            "the size to grow to");
      for (uint32_t i = 0; i < n; i++) slots[i] = values[i];
      b.size = size;
      b.head = 0;
    }
    uint32_t tail = buffer_tail(&b);
    check(tail < b.size && (n == 0 || tail == (b.head + n) % b.size), "the slot of the next value");
    slots[tail] = values[n++] = ++value;
    b.count++;
  }
  check(b.size <= b.limit || is_many, "no more slots than the limit");
  Buffer none = {.kind = BUFFER_NONE};
  check(buffer_full(&none) && buffer_count(&none) == 0, "without a buffer");
  for (int kind = BUFFER_NONE; kind <= BUFFER_PROMISE; kind++) {
    bool is = kind == BUFFER_DROPPING || kind == BUFFER_SLIDING || kind == BUFFER_PROMISE;
    check(buffer_unblocking((BufferKind)kind) == is, "which kinds never make a put wait");
  }
}

/* ---- random.h and clock.h ---- */

static void check_random(void) {
  what = "random";
  uint64_t random;
  random_seed(&random, 7);
  const uint32_t first[] = {0x15a83654, 0x45552c78, 0xf855b703, 0x350bfd12};
  for (int i = 0; i < 4; i++) check(random_next(&random) == first[i], "the same numbers for the same seed, for ever");
  random_seed(&random, UINT64_MAX);
  check(random != 0, "a state is not 0");
  for (uint32_t n = 1; n < 20; n++) {
    uint32_t counts[20] = {0};
    for (int i = 0; i < 2000; i++) {
      uint32_t k = random_below(&random, n);
      check(k < n, "below n");
      counts[k]++;
    }
    for (uint32_t k = 0; k < n; k++) check(counts[k] > 1000 / n, "each one");
  }
  uint32_t counts[4] = {0};
  for (int i = 0; i < 8000; i++) {
    uint32_t k = random_seldom(&random, 4, 8);
    check(k < 4, "seldom: below n");
    counts[k]++;
  }
  check(counts[0] > 6500 && counts[0] < 7500, "seldom: once in 8 times");
  for (int k = 1; k < 4; k++) check(counts[k] > 200, "seldom: each of the others");
}

static void check_clock(void) {
  what = "clock";
  Clock clock = {.is_virtual = true, .virtual_ns = 5};
  clock_jump(&clock, 9);
  check(clock_now(&clock) == 9, "virtual time jumps");
  clock_jump(&clock, 3);
  check(clock_now(&clock) == 9, "never back");
  check(clock_due(&clock, 5) == clock.virtual_ns + 5, "virtual deadlines are exact");
  int64_t now = clock_ns(), due = clock_due(&(Clock){0}, CLOCK_MS);
  check(due % CLOCK_MS == 0 && due >= now + CLOCK_MS && due < clock_ns() + 2 * CLOCK_MS, "real ones are rounded up");
  check(clock_after(3, 4) == 7 && clock_after(3, INT64_MAX - 3) == INT64_MAX &&
            clock_after(3, INT64_MAX) == INT64_MAX && clock_after(3, INT64_MAX - 4) == INT64_MAX - 1,
        "a time that is never");
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  int64_t before = clock_ns(), ms = clock_ms();
  int64_t left = before - ((int64_t)ts.tv_sec * 1000 * CLOCK_MS + ts.tv_nsec);
  check(left >= 0 && left < 10000 * CLOCK_MS, "the real time");
  check(ms >= before / CLOCK_MS && ms < before / CLOCK_MS + 10000, "the real time in ms");
  clock_jump(&clock, INT64_MAX);
  check(clock_now(&(Clock){.virtual_ns = 1}) >= before, "it goes forward");
}

/* Bytes that are allocated; 0 if the system does not tell. */
static size_t allocated(void) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  return mallinfo2().uordblks;
#else
  return 0;
#endif
}

int main(int argc, char **argv) {
  setrlimit(RLIMIT_CPU, &(struct rlimit){.rlim_cur = 20, .rlim_max = 20}); /* a fault may make it run for ever */
  size_t before = allocated();
  if (argc > 1) state = strtoull(argv[1], NULL, 10) * 2 + 1;
  for (int i = 0; i < ROUNDS; i++) {
    check_heap();
    check_list();
    check_windows();
    check_map();
    check_grow();
    check_bytes();
    check_buffer();
  }
  what = "memory";
  check(allocated() < before + KEPT_BY_MALLOC, "all memory is freed");
  check_random();
  check_clock();
  printf("structures: the structures of csrc/base do what their models do, in %d rounds\n", ROUNDS);
  return 0;
}
