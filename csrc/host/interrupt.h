/* interrupt.h: what Ctrl-C and SIGQUIT do to Lua code that is running.

   As in lua5.4 a hook raises "interrupted!" on the main thread: at the next instruction there, or as soon as the scheduler
   that waits there notices (driver_check_hook). A go block that runs when the signal comes is left alone, since it is about
   to park; only where it goes on for a million instructions the error is raised in it.

   SIGQUIT, which Ctrl-\ sends, writes to stderr what runs, the go blocks, and the channels on which they wait, at the next
   instruction or as soon as the scheduler notices. The script goes on. */
#ifndef RUNNEL_HOST_INTERRUPT_H
#define RUNNEL_HOST_INTERRUPT_H

#include <lua.h>
#include <stdbool.h>

/* From here on Ctrl-C interrupts L, the main thread. Where one is not noticed, the next kills the process. With NULL it is
   only noted, for interrupt_pending. */
void interrupt_catch(lua_State *L);

/* From here on Ctrl-C does again what it did before. */
void interrupt_release(lua_State *L);

/* Whether one was noted that nobody has taken notice of. */
bool interrupt_pending(void);

/* Whether one has come since interrupt_catch. */
bool interrupt_came(void);

#endif
