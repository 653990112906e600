/* base: tests csrc/base where specs reach it only partly: queues of bytes, maps, arrays that grow, wakeups and threads;
   also where memory, descriptors or the system fail, and in a child of a fork. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/grow.h"
#include "base/loaded.h"
#include "base/map.h"
#include "base/random.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "check.h"
#include "memory.h"

/* ---- what fails ---- */

static Memory memory;

static void without_memory(bool is_without) {
  memory_start(&memory, 1, MEMORY_ALL);
  atomic_store(&memory.armed, is_without);
  memory_here = is_without ? &memory : NULL;
}

/* How many of the next calls fail, and the error. */
static struct {
  int reads, writes, fcntls, threads;
  int error;
} failing;

static bool fails(int *left) {
  if (*left == 0) return false;
  --*left;
  errno = failing.error;
  return true;
}

static void (*on_sched_yield)(void);
static void (*on_fcntl)(void);

/* The linker's --wrap=NAME has these names. NOLINTBEGIN(bugprone-reserved-identifier) */
ssize_t __real_read(int fd, void *buffer, size_t size);
ssize_t __real_write(int fd, const void *buffer, size_t size);
ssize_t __wrap_read(int fd, void *buffer, size_t size);
ssize_t __wrap_write(int fd, const void *buffer, size_t size);
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *data);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *data);
int __real_sched_yield(void);
int __wrap_sched_yield(void);

ssize_t __wrap_read(int fd, void *buffer, size_t size) {
  return fails(&failing.reads) ? -1 : __real_read(fd, buffer, size);
}

ssize_t __wrap_write(int fd, const void *buffer, size_t size) {
  return fails(&failing.writes) ? -1 : __real_write(fd, buffer, size);
}

int __wrap_fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  int argument = va_arg(arguments, int);
  va_end(arguments);
  if (on_fcntl) on_fcntl();
  return fails(&failing.fcntls) ? -1 : __real_fcntl(fd, command, argument);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *data) {
  return fails(&failing.threads) ? errno : __real_pthread_create(thread, how, run, data);
}

int __wrap_sched_yield(void) {
  if (on_sched_yield) on_sched_yield();
  return __real_sched_yield();
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* ---- memory ---- */

static bool is(const Bytes *bytes, const char *text) {
  return bytes_length(bytes) == strlen(text) && memcmp(bytes_first(bytes), text, strlen(text)) == 0;
}

static void bytes_are_taken_in_the_order_in_which_they_were_added(void) {
  Bytes bytes = {0};
  char taken[8];
  CHECK(is(&bytes, "") && bytes_add(&bytes, "", 0) && !bytes.start);
  CHECK(bytes_take(&bytes, taken, sizeof taken) == 0);
  CHECK(bytes_add(&bytes, "abcdef", 6) && is(&bytes, "abcdef"));
  CHECK(bytes_take(&bytes, taken, 2) == 2 && memcmp(taken, "ab", 2) == 0 && is(&bytes, "cdef"));
  CHECK(bytes_add(&bytes, "gh", 2) && is(&bytes, "cdefgh"));
  CHECK(bytes_take(&bytes, taken, sizeof taken) == 6 && is(&bytes, "") && bytes.from == 0);
  bytes_free(&bytes);
}

static void a_queue_uses_the_room_of_what_was_taken(void) {
  Bytes bytes = {0};
  char block[200];
  memset(block, 'x', sizeof block);
  CHECK(bytes_add(&bytes, block, sizeof block));
  size_t capacity = bytes.capacity;
  bytes_drop(&bytes, 150);
  CHECK(bytes_add(&bytes, block, 10) && bytes.from == 150); /* there is room behind */
  CHECK(bytes_add(&bytes, block, 80) && bytes.from == 0 && bytes.capacity == capacity && bytes_length(&bytes) == 140);
  bytes_drop(&bytes, 10); /* less than what is left, which therefore stays where it is */
  CHECK(bytes_add(&bytes, block, 150) && bytes.from == 10 && bytes.capacity > capacity && bytes_length(&bytes) == 280);
  bytes_free(&bytes);
}

static void an_empty_queue_has_no_memory(void) {
  Bytes bytes = {0};
  char taken[8], text[] = "abc";
  CHECK(bytes_add(&bytes, "abc", 3));
  bytes_drop(&bytes, 3);
  CHECK(!bytes.start && !bytes.capacity);
  CHECK(bytes_add(&bytes, "abc", 3) && bytes_take(&bytes, taken, sizeof taken) == 3);
  CHECK(!bytes.start && !bytes.capacity);
  bytes = (Bytes){.start = text, .to = 3}; /* not from malloc */
  bytes_drop(&bytes, 3);
  CHECK(!bytes.start && !bytes.to);
}

static void bytes_move_to_another_queue(void) {
  Bytes from = {0}, to = {0};
  CHECK(bytes_add(&from, "abc", 3) && bytes_move(&to, &from) && is(&to, "abc") && is(&from, ""));
  CHECK(bytes_add(&from, "def", 3) && bytes_move(&to, &from) && is(&to, "abcdef") && is(&from, ""));
  char large[1000] = {0};
  CHECK(bytes_add(&from, large, sizeof large));
  without_memory(true);
  CHECK(!bytes_move(&to, &from) && is(&to, "abcdef") && bytes_length(&from) == sizeof large);
  CHECK(!bytes_add(&to, large, sizeof large) && is(&to, "abcdef"));
  without_memory(false);
  bytes_free(&from);
  bytes_free(&to);
}

static void an_array_that_would_be_too_large_does_not_grow(void) {
  size_t capacity = 0;
  CHECK(!grow(NULL, &capacity, SIZE_MAX / 2, 8) && capacity == 0);
}

static void a_seed_that_would_be_zero_is_not(void) {
  uint64_t state;
  random_seed(&state, UINT64_MAX);
  CHECK(state != 0);
}

static void the_others_are_seldom(void) {
  enum { TIMES = 10000 };
  uint64_t state;
  int counts[3] = {0};
  random_seed(&state, 1);
  for (int i = 0; i < TIMES; i++) counts[random_seldom(&state, 3, 10)]++;
  CHECK(counts[0] > TIMES * 8 / 10 && counts[1] > TIMES / 50 && counts[2] > TIMES / 50);
}

static void a_map_finds_what_was_added(void) {
  enum { KEYS = 1000 };
  Map map = {0};
  CHECK(!map_find(&map, 7) && map_keep_marked(&map, 1));
  map_clear(&map);
  for (uint64_t key = 1; key <= KEYS; key++) {
    MapEntry *entry = map_add(&map, key);
    CHECK(entry && entry->value == 0);
    entry->value = key * 3;
    entry->mark = (uint32_t)(key % 2);
  }
  CHECK(map.n == KEYS && map_add(&map, 7)->value == 21 && map.n == KEYS && !map_find(&map, KEYS + 1));
  CHECK(map_keep_marked(&map, 1) && map.n == KEYS / 2 && !map_find(&map, 8));
  for (uint64_t key = 1; key <= KEYS; key += 2) CHECK(map_find(&map, key)->value == key * 3);
  map_clear(&map);
  CHECK(map.n == 0 && !map_find(&map, 7));
  map_free(&map);
}

static void a_map_without_memory_stays_as_it_is(void) {
  Map map = {0};
  without_memory(true);
  CHECK(!map_add(&map, 1) && map.n == 0);
  without_memory(false);
  for (uint64_t key = 1; map.n * 2 < map.room || key == 1; key++) CHECK(map_add(&map, key));
  uint32_t n = map.n;
  without_memory(true);
  CHECK(!map_add(&map, 1000) && !map_keep_marked(&map, 1) && map.n == n && map_find(&map, 1));
  without_memory(false);
  map_free(&map);
}

static void hashes_differ(void) {
  CHECK(map_hash("a") != map_hash("b") && map_hash("") == map_hash_bytes(NULL, 0) && map_hash("") != 0);
}

/* ---- wakeups ---- */

static void a_signal_is_seen_once(void) {
  Wakeup *wakeup = wakeup_new();
  CHECK(wakeup && !wakeup_consume(wakeup));
  wakeup_signal(wakeup);
  wakeup_signal(wakeup);
  CHECK(wakeup_is_pending(wakeup) && wakeup_consume(wakeup) && !wakeup_is_pending(wakeup) && !wakeup_consume(wakeup));
  wakeup_release(wakeup_hold(wakeup));
  wakeup_release(wakeup);
}

static void a_wakeup_needs_memory(void) {
  without_memory(true);
  CHECK(!wakeup_new() && errno == ENOMEM);
  without_memory(false);
}

static void a_signal_of_the_system_does_not_lose_a_wakeup(void) {
  Wakeup *wakeup = wakeup_new();
  failing.error = EINTR;
  failing.writes = failing.reads = 2;
  wakeup_signal(wakeup);
  CHECK(failing.writes == 0 && wakeup_consume(wakeup) && failing.reads == 0 && !wakeup_consume(wakeup));
  wakeup_release(wakeup);
}

static bool set_has_news;
static int set_renewed;

static bool call_set(WakeupSet *set) {
  (void)set;
  return set_has_news;
}

static void renew_set(WakeupSet *set, int token) {
  (void)set;
  set_renewed = token;
}

static void free_set(WakeupSet *set) { set->fd = -1; }

/* The thread that signals has not written the token yet: a failing write stands for it. */
static void a_token_that_comes_late_is_not_a_second_signal(void) {
  Wakeup *wakeup = wakeup_new();
  WakeupSet set = {.call = call_set, .renew = renew_set, .free = free_set};
  failing.error = EAGAIN;
  failing.writes = 1;
  wakeup_signal(wakeup);
  CHECK(wakeup_consume(wakeup) && !wakeup_consume(wakeup));
  wakeup_more(wakeup)->set = &set;
  set_has_news = true;
  CHECK(wakeup_consume(wakeup));
  set_has_news = false;
  CHECK(!wakeup_consume(wakeup));
  wakeup_signal(wakeup); /* it has been seen, and so is a new one */
  CHECK(wakeup_consume(wakeup));
  wakeup_release(wakeup);
  CHECK(set.fd == -1);
}

/* Another thread asks while the descriptors are being replaced: it waits until they are. */
static Wakeup *forked;
static pthread_t other;
static atomic_bool other_waits;

static void note_wait(void) { atomic_store(&other_waits, true); }

static void *own(void *unused) {
  wakeup_own(forked);
  return unused;
}

static void let_another_ask(void) {
  on_fcntl = NULL;
  on_sched_yield = note_wait;
  CHECK(pthread_create(&other, NULL, own, NULL) == 0);
  while (!atomic_load(&other_waits)) (void)__real_sched_yield();
}

static void in_a_child(void (*test)(void)) {
  (void)fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    test();
    exit(EXIT_SUCCESS);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

static void own_in_two_threads(void) {
  WakeupSet set = {.fd = 99, .call = call_set, .renew = renew_set, .free = free_set};
  wakeup_more(forked)->set = &set;
  on_fcntl = let_another_ask;
  CHECK(wakeup_fd(forked) == 99);
  CHECK(pthread_join(other, NULL) == 0 && set_renewed > 0 && wakeup_is_pending(forked));
  wakeup_release(forked);
}

static void own_without_a_set(void) {
  wakeup_own(forked);
  CHECK(wakeup_is_pending(forked) && wakeup_consume(forked) && !wakeup_consume(forked));
}

/* Then it goes on with those of its parent. */
static void own_without_a_descriptor(void) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, limit.rlim_max}) == 0);
  wakeup_own(forked);
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(!wakeup_is_pending(forked));
}

static void the_child_of_a_fork_has_descriptors_of_its_own(void) {
  forked = wakeup_new();
  in_a_child(own_in_two_threads);
  in_a_child(own_without_a_set);
  CHECK(!wakeup_is_pending(forked) && !wakeup_consume(forked));
  in_a_child(own_without_a_descriptor);
  wakeup_release(forked);
}

static void a_descriptor_that_cannot_be_replaced_is_said_so(void) {
  CHECK(!wakeup_replace(dup(STDERR_FILENO), INT_MAX));
  int old = dup(STDERR_FILENO);
  failing.error = EINVAL;
  failing.fcntls = 1;
  CHECK(!wakeup_replace(dup(STDERR_FILENO), old));
  CHECK(wakeup_replace(dup(STDERR_FILENO), old));
  (void)close(old);
}

/* ---- threads ---- */

static void *run(void *data) {
  Thread *thread = (Thread *)data;
  while (!thread_ends(thread)) {
    (void)wakeup_consume(thread->wakeup);
    (void)__real_sched_yield();
  }
  return NULL;
}

static void a_thread_is_started_once_and_ended_once(void) {
  Thread thread = {0};
  thread_end(&thread);
  thread_close(&thread);
  CHECK(thread_open(&thread));
  failing.error = EAGAIN;
  failing.threads = 1;
  CHECK(thread_start(&thread, "none", run, &thread) == EAGAIN && !thread.is_running);
  CHECK(thread_start(&thread, "a name that is too long", run, &thread) == 0 && thread.is_running);
  CHECK(thread_start(&thread, "again", run, &thread) == 0);
  thread_end(&thread);
  CHECK(!thread.is_running);
  thread_end(&thread);
  thread_close(&thread);
  CHECK(!thread.wakeup);
}

/* ---- code that stays loaded ---- */

static void only_what_is_loaded_can_stay_loaded(void) {
  CHECK(stay_loaded() && stay_loaded());
  CHECK(stay_loaded_at(stdout)); /* in the C library */
  int on_stack;
  CHECK(!stay_loaded_at(&on_stack));
}

int main(void) {
  bytes_are_taken_in_the_order_in_which_they_were_added();
  a_queue_uses_the_room_of_what_was_taken();
  an_empty_queue_has_no_memory();
  bytes_move_to_another_queue();
  an_array_that_would_be_too_large_does_not_grow();
  a_seed_that_would_be_zero_is_not();
  the_others_are_seldom();
  a_map_finds_what_was_added();
  a_map_without_memory_stays_as_it_is();
  hashes_differ();
  a_signal_is_seen_once();
  a_wakeup_needs_memory();
  a_signal_of_the_system_does_not_lose_a_wakeup();
  a_token_that_comes_late_is_not_a_second_signal();
  the_child_of_a_fork_has_descriptors_of_its_own();
  a_descriptor_that_cannot_be_replaced_is_said_so();
  a_thread_is_started_once_and_ended_once();
  only_what_is_loaded_can_stay_loaded();
  (void)fputs("base: all is well\n", stderr);
  return EXIT_SUCCESS;
}
