/* counts: for `make coverage`, which links this into the executable and the modules, with the linker's --wrap. Writes
   gcc's coverage data before a process ends itself by raise or _exit, which do not write it. And makes the data of a
   source one write to its file: the length of its records depends on the counts, so a process that is killed between
   two writes would leave a file that is read wrongly. */
#include <stdio.h>

void __gcov_dump(void);        /* NOLINT(bugprone-reserved-identifier): these names are gcc's and the linker's */
int __real_raise(int number);  /* NOLINT(bugprone-reserved-identifier) */
int __wrap_raise(int number);  /* NOLINT(bugprone-reserved-identifier) */
void __real__exit(int status); /* NOLINT(bugprone-reserved-identifier) */
void __wrap__exit(int status); /* NOLINT(bugprone-reserved-identifier) */
FILE *__real_fdopen(int fd, const char *mode); /* NOLINT(bugprone-reserved-identifier) */
FILE *__wrap_fdopen(int fd, const char *mode); /* NOLINT(bugprone-reserved-identifier) */

int __wrap_raise(int number) { /* NOLINT(bugprone-reserved-identifier) */
  __gcov_dump();
  return __real_raise(number);
}

void __wrap__exit(int status) { /* NOLINT(bugprone-reserved-identifier) */
  __gcov_dump();
  __real__exit(status);
}

/* Only gcc's code calls this, with one file open at a time. */
FILE *__wrap_fdopen(int fd, const char *mode) { /* NOLINT(bugprone-reserved-identifier) */
  static char buffer[1 << 20];
  FILE *file = __real_fdopen(fd, mode);
  if (file) (void)setvbuf(file, buffer, _IOFBF, sizeof buffer);
  return file;
}
