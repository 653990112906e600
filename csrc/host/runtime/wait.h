/* wait.h: waits for the user's input while go blocks, timers and the driver run. */
#ifndef RUNNEL_HOST_WAIT_H
#define RUNNEL_HOST_WAIT_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

/* Why a wait is over. */
typedef enum Waited {
  WAITED_INPUT,     /* there is input, or its end */
  WAITED_TIME,      /* the time is over */
  WAITED_INTERRUPT, /* Ctrl-C */
  WAITED_SIGNAL     /* another signal; the caller can ignore it */
} Waited;

/* Called whenever go blocks have run; NULL: flushes stdout. `busy`: more go blocks are ready. */
typedef void (*IdleFunction)(void *ud, bool busy);

/* Runs go blocks until standard input can be read, or for `ns`; forever if `ns` is negative. Never raises. */
Waited wait_input(lua_State *L, int64_t ns, IdleFunction idle, void *ud);

/* Makes the next wait run go blocks even if there is input, since a chunk may have just started some. */
void wait_run_first(void);

/* Reads a byte of standard input after wait_input has returned WAITED_INPUT or WAITED_INTERRUPT. Returns -1 at the end of
   the input; or if Ctrl-C is pending (interrupt_pending), also one that has ended the read. */
int wait_read_byte(void);

/* How many bytes of input can be read now. */
int wait_pending(void);

/* Whether more input, or its end, can be read now. */
bool wait_more_input(void);

#endif
