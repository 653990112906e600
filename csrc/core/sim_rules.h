/* sim_rules.h: the choices of a simulation (csrc/sim), which replace the scheduler's while World.rules is set. */
#ifndef RUNNEL_SIM_RULES_H
#define RUNNEL_SIM_RULES_H

#include "core/state.h"

typedef struct SimRules {
  /* Returns the alt of the run queue, which is not empty, that runs next. May raise, to end the simulation. */
  Link *(*next)(lua_State *L, Sched *S);
  /* Returns which of `n` >= 2 ready operations an alts does, from 0 on; does not raise. NULL: it chooses at random. */
  uint32_t (*choose_operation)(Sched *S, uint32_t n);
  /* On a deadlock: the go block that the simulation awaits, whose userdata is at index `at`, raises it from its
     operation. Returns false if it waits in none. */
  bool (*raise_deadlock)(lua_State *L, Sched *S, Go *awaited, int at);
} SimRules;

#endif
