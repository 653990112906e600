/* width.h: asks the terminal for its width.

   A terminal wraps its lines anew as soon as its size changes, but the kernel, and so the program, may learn of the new
   size much later. Output drawn in between could not be removed. The answer is mixed with the keys, so width_takes
   checks each byte. */
#ifndef RUNNEL_HOST_WIDTH_H
#define RUNNEL_HOST_WIDTH_H

#include <stdbool.h>

/* Writes the question, and forgets earlier answers. If `may_answer`, the terminal may still answer earlier questions;
   width_takes takes these answers, but they are not width_answer. */
void width_ask(bool may_answer);

/* The answer: columns; 0 while there is none. */
int width_answer(void);

/* Takes a byte of input, if it may belong to the answer or width_next must return others before it; false if it is a
   key. */
bool width_takes(int byte);

/* Keeps a key for later. */
void width_keep(int byte);

/* Whether there is room for more kept keys. */
bool width_has_room(void);

/* The next of the taken bytes that were keys, or of the kept ones; -1 if there is none. */
int width_next(void);

#endif
