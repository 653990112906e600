/* standard.h: the standard descriptors 0, 1 and 2, and whether more can be opened. Knows no Lua. */
#ifndef RUNNEL_STANDARD_H
#define RUNNEL_STANDARD_H

#include <stdbool.h>

/* Opens those of 0, 1 and 2 that are closed, so that no socket or file that is opened later gets such a number: what the
   program prints would go there. Reading 0 and writing 1 or 2 fails as before, and children find them closed. */
void standard_reserve(void);

/* Moves a descriptor that the caller has opened to a number above 2. Returns the new one, or -1 (errno) with the old one
   closed. */
int standard_avoid(int fd);

/* Whether the process can open as many descriptors now as luv's library and its loop need at most: luv crashes if the
   loop lacks one. Sets errno if not. */
bool standard_has_room(void);

#endif
