/* error_text.h: the text of an error, which may be any value. */
#ifndef RUNNEL_ERROR_TEXT_H
#define RUNNEL_ERROR_TEXT_H

#include <lua.h>
#include <stdbool.h>

/* Pushes the text of the error at the absolute index `at`: what tostring gives; for a table without __tostring, its
   message, if it has one, and its other fields that are strings, numbers or booleans. Returns false for a table that
   has no such field; the text is then what tostring gives. May raise. */
bool error_text_push(lua_State *L, int at);

#endif
