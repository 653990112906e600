/* budget.h: how much memory a state may still take outside its own allocator: for what its shared channels carry, and for
   its threads' states. Shared with its threads. Knows no Lua. */
#ifndef RUNNEL_BUDGET_H
#define RUNNEL_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Budget Budget; /* NULL, in all functions but these two: without a limit */

/* A budget of that many bytes, with one hold; NULL if there is no memory. Adds a hold. Any thread. */
Budget *budget_new(size_t bytes);
Budget *budget_hold(Budget *budget);

/* Removes a hold. The last one frees it. Any thread. */
void budget_release(Budget *budget);

/* Whether it has so many bytes left now. Any thread. */
bool budget_has(const Budget *budget, size_t bytes);

/* Takes so many bytes, together with a hold, unless that is too much; gives them back. Any thread. */
bool budget_take(Budget *budget, size_t bytes);
void budget_give(Budget *budget, size_t bytes);

/* A lua_Alloc; `data` is a budget, on which somebody else has a hold. */
void *budget_allocate(void *data, void *block, size_t old_size, size_t size);

#endif
