/* sim_rules.h: what a simulation does in a way of its own (csrc/sim), while World.rules is set. */
#ifndef RUNNEL_SIM_RULES_H
#define RUNNEL_SIM_RULES_H

#include "core/state.h"

typedef struct SimRules {
  /* Which alt of the run queue, which is not empty, runs next. May raise, to end the simulation. */
  Link *(*next)(lua_State *L, Sched *S);
  /* Which of the `n` operations, 2 or more, that can complete an alts does, from 0. NULL: it chooses at random. Does
     not raise. */
  uint32_t (*choose_operation)(Sched *S, uint32_t n);
  /* Nothing will ever be ready: makes the go block that the simulation awaits, whose userdata is at index `at`, raise a
     deadlock from its operation. Returns false if it waits in none. */
  bool (*raise_deadlock)(lua_State *L, Sched *S, Go *awaited, int at);
} SimRules;

#endif
