/* name.h: the names of go blocks, and of the places where they wait, in lists and in messages. */
#ifndef RUNNEL_NAME_H
#define RUNNEL_NAME_H

#include "core/state.h"

/* Pushes the name of the go block whose userdata is at index `at`: the one that rn.rename has given it, or where its
   function was defined (file:line), or, for one that the library has started, its origin (origin.h). */
void name_push_go(lua_State *L, Go *go, int at);

/* Pushes the function after which a go block is named that has raised, and whose userdata is at index `at`; returns true.
   Pushes nothing if its name is another one. While its variables are being closed, this function is in the place of the
   name on the stack of its closer (blocks/go_close.h), where name_push_go finds it. */
bool name_push_function(lua_State *L, const Go *go, int at);

/* Replaces such a function at index `i` by the name. May raise. */
void name_write(lua_State *L, int i);

/* The same as name_push_go, without the numbers of unnamed channels: all calls of one line have one name, so there are
   as many names as the program has places. */
void name_push_label(lua_State *L, Go *go, int at);

/* Pops the list of the names of hosts in a simulated world, or nil. A go block of a host is named after that, too:
   "bank: server.lua:3". */
void name_set_hosts(lua_State *L);

/* Puts the name of a host, unless it is 0, before the name on top of L. */
void name_add_host(lua_State *L, uint32_t host);

/* Pushes the channel into which the go block at index `at` moves values, if the library has started it, and returns
   true; or pushes nothing. */
bool name_push_target(lua_State *L, int at);

/* Fills in the outermost function of a coroutine and where it was defined; false if the coroutine has not started. If
   that is a C function (pcall, or one of the core's own), it is the outermost Lua function instead. Allocates
   nothing. */
bool name_find_function(lua_State *co, lua_Debug *ar);

/* Whether a go block was started by the library for itself: its function is the library's. */
bool name_is_library(lua_State *L, const Go *go);

/* Describes the innermost function of the program in which a go block waits, by its file and line, and returns true; or
   that of the library, and returns false: currentline is 0 if there is none, since it has not started. */
bool name_find_where(lua_State *L, const Go *go, lua_Debug *ar);

/* Pushes the line of the program (file:line) at which a go block waits, or nil if it has not started. For a library's
   go block: the line of the call that started it, unless it waits in a function of the program. Returns whether there
   is such a function. */
bool name_push_where(lua_State *L, const Go *go);

#endif
