/* paste.h: bracketed paste: a terminal that supports it sends a mark before and after pasted text. */
#ifndef RUNNEL_HOST_PASTE_H
#define RUNNEL_HOST_PASTE_H

/* Turn bracketed paste on and off. */
#define PASTE_ASK "\033[?2004h"
#define PASTE_ASK_NO_MORE "\033[?2004l"

/* The marks, as libedit's keys and as bytes. */
#define PASTE_BEGINS L"\033[200~"
#define PASTE_ENDS_KEY L"\033[201~"
#define PASTE_ENDS "\033[201~"

/* Reads pasted text up to the mark at its end, byte by byte; next(ud) is negative at the end of the input. Lines end
   with \n only, and NULs are removed. The caller frees the text. NULL if the input ended, or memory ran out. */
char *paste_read(int (*next)(void *), void *ud);

/* The beginning of a long text, to be shown instead of it on a screen with this many columns. The caller frees it. NULL
   if memory runs out. */
char *paste_beginning(const char *text, int columns);

#endif
