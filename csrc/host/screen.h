/* screen.h: the stream on which libedit draws the line.

   libedit takes each character to have a column of its own. One that combines with the character before it would shift
   all that follows: so libedit gets a private one for it (utf8.h), which is drawn here as the combining one on a dotted
   circle. */
#ifndef RUNNEL_HOST_SCREEN_H
#define RUNNEL_HOST_SCREEN_H

#include <stdio.h>

/* A stream to the terminal of standard output. NULL where memory runs out. Where the C library has no fopencookie,
   private characters are drawn as they are. */
FILE *screen_open(void);

#endif
