/* counts: writes gcc's coverage data before a process ends itself by raise or _exit, which do not write it. Only
   `make coverage` links this into the executable and into the module of NATS, with the linker's --wrap. */
void __gcov_dump(void);        /* NOLINT(bugprone-reserved-identifier): these names are gcc's and the linker's */
int __real_raise(int number);  /* NOLINT(bugprone-reserved-identifier) */
int __wrap_raise(int number);  /* NOLINT(bugprone-reserved-identifier) */
void __real__exit(int status); /* NOLINT(bugprone-reserved-identifier) */
void __wrap__exit(int status); /* NOLINT(bugprone-reserved-identifier) */

int __wrap_raise(int number) { /* NOLINT(bugprone-reserved-identifier) */
  __gcov_dump();
  return __real_raise(number);
}

void __wrap__exit(int status) { /* NOLINT(bugprone-reserved-identifier) */
  __gcov_dump();
  __real__exit(status);
}
