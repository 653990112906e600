/* interruption.h: raises an error in the go block that runs, on behalf of any thread or signal handler.

   Only a debug hook ends a go block that computes, and only the Lua thread may set one: so another thread sends it a
   signal (SIGURG, which does nothing to a program that does not expect it), whose handler sets the hook.

   A signal handler gets no argument. So the Interruptions of the process are in a list, which only grows: one that its
   last hold has left is used for another state. */
#ifndef RUNNEL_INTERRUPTION_H
#define RUNNEL_INTERRUPTION_H

#include "core/state.h"

typedef struct Interruption Interruption;

/* The state's Interruption, made if there is none: Sched.interruption. The state holds it until it is closed. Raises if there
   is no memory, or if the code cannot stay loaded, which the handler needs. Lua thread. */
Interruption *interruption_open(lua_State *L, Sched *S);

/* Has the coroutines of the state look for an interrupt every 1,000 instructions, also those that a script makes, instead
   of sending a signal. They run at about half the speed. After interruption_open, before coroutines are made. */
void interruption_count(lua_State *L, Sched *S);

/* Whether they do. Lua thread. */
bool interruption_counts(const Sched *S);

/* The Interruption of the state with this main thread, with a hold; or NULL. Does not look into the lua_State, which may be
   closed. Any thread, and signal handlers. */
Interruption *interruption_find(const lua_State *main_thread);

/* Adds a hold; removes one. Any thread, and signal handlers. */
Interruption *interruption_hold(Interruption *interruption);
void interruption_release(Interruption *interruption);

/* The go block that runs when this arrives ends at its next instruction with the error `why` (of which it gets
   INTERRUPTION_WHY bytes at most), which no pcall catches. Nothing happens if no go block runs, or if
   one is just being closed. Returns false if the scheduler does not run at all. Any thread, and signal handlers. */
enum { INTERRUPTION_WHY = 255 };
bool interruption_raise(Interruption *interruption, const char *why);

/* Whether the running go block has yielded since it is to end; and what raises its error then. Lua thread. */
bool interruption_has_ended(const Sched *S);
int interruption_throw(lua_State *L);

/* The scheduler begins to run in this thread; has stopped running. */
void interruption_begins(Interruption *interruption);
void interruption_ends(Interruption *interruption);

#endif
