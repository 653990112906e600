/* sigterm.h: SIGTERM as news for each Lua state that asks for it, so that what runs in all threads of a program can end
   in good order before the program does. Knows no Lua. */
#ifndef RUNNEL_SIGTERM_H
#define RUNNEL_SIGTERM_H

#include "base/list.h"
#include "port/port.h"

/* What a state has done about the signal. */
typedef enum SigtermProgress {
  SIGTERM_UNAWARE, /* nothing yet */
  SIGTERM_BEGUN,   /* it drains */
  SIGTERM_STAYS,   /* nothing is left to drain there, but the program has something left to do, and ends by itself */
  SIGTERM_DRAINED  /* nothing is left */
} SigtermProgress;

/* The watch of one Lua state. */
typedef struct SigtermWatch {
  Link link;                /* in the list of all watches of the process */
  Port *port;               /* the signal closes it */
  Port *late;               /* is closed when the program should have ended; or NULL */
  SigtermProgress progress; /* of the state */
} SigtermWatch;

/* Begins a watch: from now on the first SIGTERM closes the port instead of ending the program; if there was one
   already, that is done now. `patience`: ms after the signal until the program should have ended, and again until it is
   late again; the first watch of a process decides. The caller keeps its hold on the port. False if the program handles
   the signal, or if there are no resources. */
bool sigterm_watch(SigtermWatch *watch, Port *port, int patience);

/* The state has begun to drain. If the program has not ended when it should, `late` is closed; the watch takes over the
   caller's hold on it. To be called again after that. */
void sigterm_begin(SigtermWatch *watch, Port *late);

/* The state has drained: SIGTERM_STAYS or SIGTERM_DRAINED. Returns whether all have, and none stays: then the caller ends the
   program. */
bool sigterm_drained(SigtermWatch *watch, SigtermProgress progress);

/* Ends a watch. With the last one the signal ends the program again. */
void sigterm_unwatch(SigtermWatch *watch);

/* After a library has let go of the signal: catches it again if there are watches, and only then. */
void sigterm_renew(void);

#endif
