/* restore.h: gives the terminal back as it was. While a line is edited or a key awaited, the terminal has another mode;
   whatever ends the program then restores the first one: a signal that can be caught, or exit() of any thread. */
#ifndef RUNNEL_HOST_RESTORE_H
#define RUNNEL_HOST_RESTORE_H

#include <stdbool.h>

/* To be called before the mode of standard input is changed. `text` is written to standard output when the program ends
   meanwhile; it must stay valid. False if standard input is no terminal. */
bool restore_at_end(const char *text);

/* To be called when the mode has been changed back. */
void restore_no_more(void);

/* Installs a handler of a signal, unless that has a handler or is ignored. */
void restore_catch(int signal_number, void (*handler)(int));

#endif
