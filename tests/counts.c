/* counts: writes gcc's coverage data before a process ends itself by raise or _exit, which do not write it; and writes
   them once. When two threads end a process at the same time, or a second signal comes meanwhile, gcc's code would run
   twice at once, and its files would be damaged. Only `make coverage` links this into the executable and the modules,
   with the linker's --wrap. */
#include <pthread.h>
#include <signal.h>

void __gcov_dump(void);        /* NOLINT(bugprone-reserved-identifier): these names are gcc's and the linker's */
int __real_raise(int number);  /* NOLINT(bugprone-reserved-identifier) */
int __wrap_raise(int number);  /* NOLINT(bugprone-reserved-identifier) */
void __real__exit(int status); /* NOLINT(bugprone-reserved-identifier) */
void __wrap__exit(int status); /* NOLINT(bugprone-reserved-identifier) */

/* Also at a normal end, before gcc's own code. */
__attribute__((destructor)) static void write_once(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  sigset_t all, before;
  sigfillset(&all);
  (void)pthread_sigmask(SIG_BLOCK, &all, &before);
  (void)pthread_once(&once, __gcov_dump);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int __wrap_raise(int number) { /* NOLINT(bugprone-reserved-identifier) */
  write_once();
  return __real_raise(number);
}

void __wrap__exit(int status) { /* NOLINT(bugprone-reserved-identifier) */
  write_once();
  __real__exit(status);
}
