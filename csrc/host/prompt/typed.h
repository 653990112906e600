/* typed.h: the bytes that the user types, without the terminal's answers about its width. */
#ifndef RUNNEL_HOST_TYPED_H
#define RUNNEL_HOST_TYPED_H

#include "host/prompt/editing.h"

/* The next byte; or -1 at the end of the input, or after Ctrl-C. Go blocks run meanwhile. `ud` is an Editing. */
int typed_next_byte(void *ud);

/* Lets go blocks run until the screen has settled: output drawn earlier, for an outdated size, could not be removed. */
void typed_wait_to_settle(Editing *ed);

#endif
