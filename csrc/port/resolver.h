/* resolver.h: looks up the addresses of hosts in threads of its own, since the system's resolver blocks its thread for
   many seconds while a server of names is silent. As many threads as names are looked up, so that no name, and nothing
   else, waits for another one. Knows no Lua. */
#ifndef RUNNEL_RESOLVER_H
#define RUNNEL_RESOLVER_H

#include <stdbool.h>

#include "port/port.h"

typedef struct Resolver Resolver;

/* NULL if there is no memory. */
Resolver *resolver_new(void);

/* Looks up a host: posts a text to the port, whose hold it takes over, and releases it. The text has a line for each
   address, or a line with an error of a name, a space, and more. Does nothing and returns false if there is no thread
   and no memory for it. */
bool resolver_look_up(Resolver *resolver, const char *host, Port *port);

/* Ends it: names that no thread looks up yet are dropped. Threads that wait for the system end later. */
void resolver_close(Resolver *resolver);

#endif
