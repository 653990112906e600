/* limits.h: what the program that runs a state has forbidden it (runnel_open_limited), also its threads. */
#ifndef RUNNEL_LIMITS_H
#define RUNNEL_LIMITS_H

#include <lua.h>

#include "shared/budget.h"

/* What a state is without: RUNNEL_NO_THREADS and the like (capi/runnel.h). */
enum { LIMITS_THREADS = 1, LIMITS_EXIT = 2, LIMITS_SYSTEM = 4 };

typedef struct Limits {
  unsigned without; /* of the above */
  Budget *budget;   /* or NULL: no limit. The state holds it until it is closed */
} Limits;

/* Sets the limits of a state, before the core is opened in it, and adds a hold on the budget. May raise. */
void limits_set(lua_State *L, const Limits *limits);

/* The limits of a state. Does not raise. */
Limits limits_get(lua_State *L);

#endif
