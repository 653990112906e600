/* error_text.h: how an error is written that may be any value. */
#ifndef RUNNEL_ERROR_TEXT_H
#define RUNNEL_ERROR_TEXT_H

#include <lua.h>
#include <stdbool.h>

/* Pushes the text of an error, at the absolute index `at`: what tostring gives; or of a table without a __tostring, its
   message, if it has one, and its other fields that are strings, numbers and booleans. Returns false of a
   table in which there is nothing to show. May raise. */
bool error_text_push(lua_State *L, int at);

#endif
