/* scenarios.c: see scenarios.h. */
#include "scenarios.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

/* Seconds for one run; and for one that collects at each instruction, which on a busy machine takes minutes. */
enum { PATIENCE = 60, LONG_PATIENCE = 600 };

/* How many instructions are between two collections with a stride: a simulated world runs a million. */
enum { SOME = 7 };

typedef struct Run {
  const Scenarios *scenarios;
  int number;      /* of the scenario */
  int descriptors; /* how many are open while none runs */
  int collects;    /* before each such instruction; or 0 */
  bool exists;     /* there is a scenario with this number */
  Memory memory;
} Run;

/* arm(on): allocations fail from now on, or no more. */
static int arm(lua_State *L) {
  memory_of(L)->armed = lua_toboolean(L, 1);
  return 0;
}

static int count_descriptors(void) {
  int count = 0;
  for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

/* The allocations of all threads count together. */
static void attempt(void *data) {
  Run *run = (Run *)data;
  const Scenarios *s = run->scenarios;
  memory_elsewhere = &run->memory;
  unsigned patience = run->collects ? LONG_PATIENCE : PATIENCE;
  memory_now(&run->memory, patience, "%s: scenario %d", s->program, run->number);
  lua_State *L = memory_open(&run->memory, s->modules);
  lua_register(L, "arm", arm);
  int status = memory_load(L, s->file);
  lua_pushinteger(L, run->number);
  int more = s->push ? s->push(L) : 0;
  if (status == LUA_OK) status = lua_pcall(L, 1 + more, 2, 0);
  run->exists = status == LUA_OK && !lua_isnil(L, -2);
  if (run->exists) {
    memory_now(&run->memory, patience, "%s: %s", s->program, lua_tostring(L, -2));
    memory_collect(L, run->collects);
    status = lua_pcall(L, 0, 0, 0);
  }
  run->memory.armed = false;
  memory_must(L, status);
  memory_close(L);
  int left = count_descriptors() - run->descriptors;
  if (left) memory_die("%d descriptors are left", left);
}

int scenarios_run(const Scenarios *scenarios, uint32_t stride) {
  Run run = {.scenarios = scenarios, .descriptors = count_descriptors()};
  uint32_t far = stride ? stride : UINT32_MAX, attempts = 0;
  for (run.number = 1; run.number == 1 || run.exists; run.number++) {
    memory_start(&run.memory, 0, 0);
    run.collects = stride ? SOME : 1;
    attempt(&run);
    run.collects = 0;
    for (uint32_t count = 1; run.exists && count <= 8; count *= 8) {
      attempts += memory_each(&run.memory, count, &far, MEMORY_MOST, attempt, &run);
    }
  }
  memory_elsewhere = NULL; /* it is in this frame; at the exit, --coverage allocates */
  (void)printf("%s: %u attempts at %d scenarios\n", scenarios->program, (unsigned)attempts, run.number - 2);
  return run.number > 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
