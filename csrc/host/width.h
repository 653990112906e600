/* width.h: asks the terminal how wide it is.

   A terminal wraps its lines anew as soon as its size changes, but the kernel, and so the program, may learn of the new
   size much later. What is drawn in between could not be taken away again. The answer comes among the keys, so each byte
   that is read is shown to width_takes. */
#ifndef RUNNEL_HOST_WIDTH_H
#define RUNNEL_HOST_WIDTH_H

#include <stdbool.h>
#include <stdio.h>

/* Writes the question. Forgets an earlier answer. */
void width_ask(FILE *screen);

/* The answer: columns; 0 while there is none. */
int width_answer(void);

/* Takes a byte that was read, if it may belong to the answer or width_next must return others before it; false if it is a
   key. */
bool width_takes(int byte);

/* Keeps a key that is to be read later. */
void width_keep(int byte);

/* Whether there is room for more kept keys. */
bool width_has_room(void);

/* The next of the bytes that were taken and turned out to be keys, or were kept; -1 if there is none. */
int width_next(void);

#endif
