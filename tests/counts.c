/* counts: writes gcc's coverage data before a process ends itself by raise, since a signal would end it without. Only
   `make coverage` links this into the executable, with the linker's --wrap=raise. */
void __gcov_dump(void);       /* NOLINT(bugprone-reserved-identifier): these names are gcc's and the linker's */
int __real_raise(int number); /* NOLINT(bugprone-reserved-identifier) */
int __wrap_raise(int number); /* NOLINT(bugprone-reserved-identifier) */

int __wrap_raise(int number) { /* NOLINT(bugprone-reserved-identifier) */
  __gcov_dump();
  return __real_raise(number);
}
