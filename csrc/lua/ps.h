/* lua/ps.h: the list of rn.ps, also for the errors of deadlocks and leaks. */
#ifndef RUNNEL_PS_H
#define RUNNEL_PS_H

#include "core/state.h"

/* Pushes the entry of ps for the go block at index `at`. */
void ps_push_entry(lua_State *L, Go *go, int at);

/* ps() -> the list of all go blocks that are not hidden, in the order of their ids. After each part of a long list the
   others have a turn: it has those go blocks that were there at the call and have not ended meanwhile. */
int ps_walk(lua_State *L);

/* Pushes such a list of the go blocks of the running simulation, if there is one, with the data for errors of deadlocks
   and leaks, at once. Empties L first. */
void ps_push_report(lua_State *L);

/* states() -> the number of go blocks in each state, as ps names them, of those that are not hidden. The others have turns
   as in ps: each is counted in the state in which it was when it was looked at. */
int ps_count(lua_State *L);

#endif
