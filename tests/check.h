/* check.h: the assertion of test programs in C. */
#ifndef RUNNEL_TESTS_CHECK_H
#define RUNNEL_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

/* Ends the program with the line and the condition if it is false. */
#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
      exit(EXIT_FAILURE);                                                                                              \
    }                                                                                                                  \
  } while (0)

#endif
