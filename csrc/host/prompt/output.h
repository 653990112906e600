/* output.h: shows output above the line while the user edits it.

   Replaces stdout and stderr with streams that write to the same files, but first remove the line from the screen; the
   editor draws it again when it is idle. So this works for print, io.write, and C code that uses stdout. */
#ifndef RUNNEL_HOST_OUTPUT_H
#define RUNNEL_HOST_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

/* Replaces stdout and stderr. Must be called before Lua's io library is opened, which stores them. If the C library
   has no such streams, this does nothing, and output overwrites the line until it is drawn again. */
void output_install(void);

/* Writes all bytes to a descriptor, waiting while it is non-blocking and full. False if that fails. */
bool output_write(int fd, const char *bytes, size_t size);

/* The present size of the terminal at stdout; 24 rows and 80 columns if it is not known. The kernel is asked each time:
   libedit learns of a change later than the terminal, which has wrapped the line anew by then. */
void output_size(int *rows, int *columns);

/* Sets the function to call before the next output, once; NULL for none. */
void output_before(void (*hide)(void));

/* Makes sure that the next output is at the beginning of a line. If the last output did not end with a newline, its
   last line is stored, and later output continues it. */
void output_fresh_line(void);

/* Later output does not continue the line that output_fresh_line has stored: something that stays is below it. The
   cursor must be, or soon be, at the beginning of a line. */
void output_forget_line(void);

#endif
