/* counts: lets gcc's coverage count processes that end by a signal, too: those that have set their affairs in order
   raise it themselves. Linked into the executable by `make coverage` alone, with the linker's --wrap=raise. */
void __gcov_dump(void);       /* NOLINT(bugprone-reserved-identifier): these names are gcc's and the linker's */
int __real_raise(int number); /* NOLINT(bugprone-reserved-identifier) */
int __wrap_raise(int number); /* NOLINT(bugprone-reserved-identifier) */

int __wrap_raise(int number) { /* NOLINT(bugprone-reserved-identifier) */
  __gcov_dump();
  return __real_raise(number);
}
