/* interrupt.h: how Ctrl-C and SIGQUIT affect running Lua code.

   Ctrl-C: as in lua5.4 a hook raises "interrupted!" on the main thread, at its next instruction, or as soon as a
   scheduler that waits there checks for hooks (driver_check_hook). A go block that runs when the signal arrives
   usually parks soon, so the error is not raised there, unless it runs for a million more instructions. A program may
   catch the error. While it runs on, a second Ctrl-C ends it by the signal, after a report like that of SIGQUIT; at the
   prompt it ends the chunk, since pcall and xpcall raise that error again.

   SIGQUIT, which Ctrl-\ sends: a hook writes the traceback, the go blocks, and the channels on which they wait to
   stderr, at the next instruction or as soon as the scheduler checks. The script continues.

   SIGTERM and SIGHUP end the program as usual. While --trace records, a hook first writes the file, at the next
   instruction or as soon as the scheduler checks. If that takes more than 2 s, or a second such signal arrives, the
   program ends without the file; and so without the report after a second Ctrl-C.

   An action that a library of the program has set while its code ran stays when that code has ended. Below a channel of
   uv.signal, all this applies to the action that the signal has once the channel is closed (port/former.h). */
#ifndef RUNNEL_HOST_INTERRUPT_H
#define RUNNEL_HOST_INTERRUPT_H

#include <lua.h>
#include <stdbool.h>

/* Makes Ctrl-C interrupt L, the main thread. A second one kills the process if the first has had no effect yet. With
   NULL, Ctrl-C is only recorded, for interrupt_pending. */
void interrupt_catch(lua_State *L);

/* From now on Ctrl-C interrupts chunks of the prompt, and does not end the program once its error was raised. */
void interrupt_at_prompt(lua_State *L);

/* Restores the action of Ctrl-C before interrupt_catch. */
void interrupt_release(lua_State *L);

/* Makes SIGTERM and SIGHUP write the trace before they end the program, unless they are ignored. L is the main
   thread. */
void interrupt_end_trace(lua_State *L);

/* Closes the state, which writes the trace; a SIGTERM or SIGHUP waits until then. */
void interrupt_close(lua_State *L);

/* Whether a Ctrl-C was recorded and has had no effect yet. */
bool interrupt_pending(void);

/* Whether Ctrl-C was pressed since interrupt_catch. */
bool interrupt_came(void);

#endif
