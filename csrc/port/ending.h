/* ending.h: child processes that the program must not leave running. Whatever ends the program, be it a signal such as
   SIGTERM or exit(), first sends each of them a signal. Nothing can do that if SIGKILL or a crash ends it. Knows no
   Lua. */
#ifndef RUNNEL_ENDING_H
#define RUNNEL_ENDING_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

/* A child process. Stays valid for ever: a signal handler of any thread may read it. */
typedef struct EndingChild {
  atomic_int target; /* a process; a negative number is a process group; 0: this place is free */
  atomic_int signal; /* what it gets */
} EndingChild;

/* The program is not ended by a signal, nor by exit() of another thread, until ending_release: for a process that is
   being started, which cannot be added before it exists. `before` is for ending_release. */
void ending_hold(sigset_t *before);

void ending_release(const sigset_t *before);

/* Adds a process, or the group of a negative number. NULL if there is no memory. */
EndingChild *ending_add(int target, int signal);

/* Removes it; to be called before, or at once after, its status is taken, since the number may belong to another process
   later. */
void ending_remove(EndingChild *child);

/* Lets signals end the children again, after a library has restored their default action. */
void ending_renew(void);

/* The rest may also be called by a signal handler. */

/* Whether the signal ends the program with this action, as it does by default. */
bool ending_is_default(const struct sigaction *action);

/* Makes the signal end the program, as it does by default, but the children first. */
void ending_restore(int number);

/* Ends the program by the signal, after the children. */
void ending_by(int number);

#endif
