/* origin.h: where the program has called the library. A go block that the library starts is named after that line, not
   after a line of runnel's own.

   An origin is a small number that stands for a text like "pipe at job.lua:2"; each text has one number. A go block
   inherits the origin of the go block that starts it, until it gets another one. Origins are used only for go blocks
   whose function belongs to the library. */
#ifndef RUNNEL_ORIGIN_H
#define RUNNEL_ORIGIN_H

#include "core/state.h"

/* Whether a function is one of the library's own Lua functions. */
bool origin_is_library(lua_State *L, const lua_Debug *ar);

/* Pushes the text of an origin and returns true, or pushes nothing. */
bool origin_push(lua_State *L, uint32_t origin);

/* Sets up the table of origins and adds its functions to the module on top of L; the scheduler's userdata is at
   SCHED_SELF. */
void origin_open(lua_State *L);

#endif
