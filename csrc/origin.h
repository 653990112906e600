/* origin.h: where the program has called the library, for the go blocks that the library starts: a pipe is called by the line
   that asked for it, not by a line of runnel's own.

   An origin is a small number that stands for a text like "pipe at job.lua:2"; each text has one. A go block has the origin of
   the one that started it, until it is given another; it says something only of blocks whose function is the library's. */
#ifndef RUNNEL_ORIGIN_H
#define RUNNEL_ORIGIN_H

#include "sched.h"

/* Whether a function is one of the library's own Lua functions. */
bool origin_is_library(lua_State *L, const lua_Debug *ar);

/* Pushes the text of an origin and returns true, or pushes nothing. */
bool origin_push(lua_State *L, uint32_t origin);

/* Sets it up and adds its functions to the module on top of L; the scheduler's userdata is at SCHED_SELF. */
void origin_open(lua_State *L);

#endif
