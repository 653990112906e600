/* scenarios.h: runs the scenarios of a Lua file while allocations fail (memory.h): of Lua, and of C code in any thread.

   A scenario does its work while allocations fail, between arm(true) and arm(false): the work may fail. Then it does the
   work again, when there is memory, and it must succeed. Each run has a state of its own. In the first one no allocation
   fails, but all garbage is collected, before each instruction of Lua or before some. In the others each allocation fails
   in turn, alone and with the seven that follow.

   The program ends if a run waits for ever, or leaves a descriptor. The address sanitizer looks for what is not freed. */
#ifndef RUNNEL_TEST_SCENARIOS_H
#define RUNNEL_TEST_SCENARIOS_H

#include "memory.h"

typedef struct Scenarios {
  const char *program;       /* its name, for reports */
  const char *file;          /* called with a scenario's number, from 1; returns its name and a function, or nothing */
  const luaL_Reg *modules;   /* what `require` finds */
  int (*push)(lua_State *L); /* pushes further arguments of the file, and returns how many; or NULL */
} Scenarios;

/* Runs them all, and prints how many runs that were. With a stride of 0 each allocation fails in turn, and garbage is
   collected before each instruction; with n, of the allocations beyond the n-th only some, and before each seventh.
   Returns an exit status: a failure if there is no scenario. */
int scenarios_run(const Scenarios *scenarios, uint32_t stride);

#endif
