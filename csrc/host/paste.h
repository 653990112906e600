/* paste.h: what a terminal pastes, between the marks that it writes around it where it is asked to (bracketed paste). */
#ifndef RUNNEL_HOST_PASTE_H
#define RUNNEL_HOST_PASTE_H

/* What asks the terminal for the marks, and what ends that. */
#define PASTE_ASK "\033[?2004h"
#define PASTE_ASK_NO_MORE "\033[?2004l"

/* The marks: as a key of libedit's, and as bytes. */
#define PASTE_BEGINS L"\033[200~"
#define PASTE_ENDS_KEY L"\033[201~"
#define PASTE_ENDS "\033[201~"

/* Reads a paste as far as the mark at its end, byte by byte: next(ud) is negative at the end of the input. The text is to
   be freed; its lines end with \n only, and it has no NUL. NULL where the input ended, or memory runs out. */
char *paste_read(int (*next)(void *), void *ud);

/* The beginning of a long text, to be shown in place of all of it on a screen of so many columns; to be freed. NULL where
   memory runs out. */
char *paste_beginning(const char *text, int columns);

#endif
