/* keys.h: the editor's own keys: the arrows, Enter, Tab, and the marks of a paste. */
#ifndef RUNNEL_HOST_KEYS_H
#define RUNNEL_HOST_KEYS_H

#include "host/prompt/editing.h"

/* Binds the keys. The user's .editrc may bind others. */
void keys_bind(EditLine *el);

/* Inserts what a line begins with. */
void keys_begin(Editing *ed);

/* Moves the last line to the left if the key that was just typed completed an `end` or the like at its beginning. */
void keys_move_closing(Editing *ed);

#endif
