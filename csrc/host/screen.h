/* screen.h: the stream on which libedit draws the line.

   libedit assumes that each character takes at least one column, so a character that combines with the one before it
   would shift the rest of the line. libedit gets a private character instead (utf8.h), which this stream draws as the
   combining one on a dotted circle. */
#ifndef RUNNEL_HOST_SCREEN_H
#define RUNNEL_HOST_SCREEN_H

#include <stdio.h>

/* A stream to the terminal of standard output. NULL if memory runs out. If the C library has no fopencookie, private
   characters are drawn as they are. */
FILE *screen_open(void);

#endif
