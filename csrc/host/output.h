/* output.h: what is printed while a line is edited appears above it.

   stdout and stderr become streams that write to where they wrote before, but take the line off the screen first; whoever
   edits it draws it again when there is time. So it holds for print, io.write, and C code that writes to them. */
#ifndef RUNNEL_HOST_OUTPUT_H
#define RUNNEL_HOST_OUTPUT_H

#include <stdbool.h>

/* Puts the streams in place of stdout and stderr, before Lua's io library takes note of these. Where the C library cannot
   do that, nothing happens, and what is printed overwrites the line until it is drawn again. */
void output_install(void);

/* Calls `hide` before the next output; NULL for nobody. It is called once. */
void output_before(void (*hide)(void));

/* Makes sure that the next output is at the beginning of a line. What was printed on the line before without an end is kept
   in mind, and goes on there when more is printed. */
void output_fresh_line(void);

#endif
