/* term.h: SIGTERM as news for each Lua state that asks for it, so that the workers of all threads of a program can end
   their jobs before it ends. Knows no Lua. */
#ifndef RUNNEL_TERM_H
#define RUNNEL_TERM_H

#include "base/list.h"
#include "port/port.h"

/* The watch of one Lua state. */
typedef struct TermWatch {
  Link link;  /* in the list of all watches of the process */
  Port *port; /* the signal closes it */
} TermWatch;

/* Begins a watch: from now on the first SIGTERM closes the port instead of ending the program; if there was one
   already, that is done now. The caller keeps its hold on the port. False if the program handles the signal, or if
   there are no resources. */
bool term_watch(TermWatch *watch, Port *port);

/* Ends a watch. With the last one the signal ends the program again. */
void term_unwatch(TermWatch *watch);

#endif
