/* counts: writes gcc's coverage data before a process ends itself by raise or _exit, which do not write it; and writes
   them once. When two threads end a process at the same time, or a signal's handler does while it ends, gcc's code would
   run twice at once, and its files would be damaged. Only `make coverage` links this into the executable and the
   modules, with the linker's --wrap. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

void __gcov_dump(void);        /* NOLINT(bugprone-reserved-identifier): these names are gcc's and the linker's */
int __real_raise(int number);  /* NOLINT(bugprone-reserved-identifier) */
int __wrap_raise(int number);  /* NOLINT(bugprone-reserved-identifier) */
void __real__exit(int status); /* NOLINT(bugprone-reserved-identifier) */
void __wrap__exit(int status); /* NOLINT(bugprone-reserved-identifier) */

enum { NOT_WRITTEN, IS_WRITING, WRITTEN };

/* Also at a normal end, before gcc's own code. */
__attribute__((destructor)) static void write_once(void) {
  static atomic_int state;
  static _Atomic(pthread_t) writer;
  int before = NOT_WRITTEN;
  if (atomic_compare_exchange_strong(&state, &before, IS_WRITING)) {
    atomic_store(&writer, pthread_self());
    __gcov_dump();
    atomic_store(&state, WRITTEN);
  }
  while (atomic_load(&state) == IS_WRITING && !pthread_equal(atomic_load(&writer), pthread_self())) (void)sched_yield();
}

int __wrap_raise(int number) { /* NOLINT(bugprone-reserved-identifier) */
  write_once();
  return __real_raise(number);
}

void __wrap__exit(int status) { /* NOLINT(bugprone-reserved-identifier) */
  write_once();
  __real__exit(status);
}
