/* former.h: the actions that signals have had before a library, such as libuv, catches them. Such a library sets the
   default action when it no longer needs a signal. Knows no Lua. */
#ifndef RUNNEL_FORMER_H
#define RUNNEL_FORMER_H

#include <signal.h>
#include <stdbool.h>

/* To be called before the library catches the signal. */
void former_keep(int number);

/* To be called after each former_keep once the library has caught the signal: an action that is still the same was the
   library's own. */
void former_caught(int number);

/* To be called once for each former_keep, after the library has let go of the signal: the last call restores the
   action, unless something else has set another one. */
void former_restore(int number);

/* As sigaction, but for a signal that is kept, these read and change the action that will be restored. They take a
   lock, so no handler of a signal may call them. */
bool former_get(int number, struct sigaction *action);
void former_set(int number, const struct sigaction *action);

#endif
