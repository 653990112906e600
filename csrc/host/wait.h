/* wait.h: waiting for what a person types, while go blocks, timers and the driver go on. */
#ifndef RUNNEL_HOST_WAIT_H
#define RUNNEL_HOST_WAIT_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

/* Why a wait is over. */
typedef enum Waited {
  WAITED_INPUT,     /* there is something to read, or the end of it */
  WAITED_TIME,      /* the time is over */
  WAITED_INTERRUPT, /* Ctrl-C */
  WAITED_SIGNAL     /* another signal; nothing to do for who does not know better */
} Waited;

/* What is called whenever go blocks have run: `busy` tells that they will at once go on. */
typedef void (*IdleFunction)(void *ud, bool busy);

/* Runs go blocks until standard input can be read, or for `ns`; for ever when negative. Never raises. */
Waited wait_input(lua_State *L, int64_t ns, IdleFunction idle, void *ud);

/* Lets go blocks run in the next wait even if there is input: what was just done may have made some. */
void wait_run_first(void);

/* A byte of standard input that wait_input has announced; -1 at its end. */
int wait_read_byte(void);

/* How many bytes of input are there already. */
int wait_pending(void);

/* Whether more input is there already, or the end of it. */
bool wait_more_input(void);

#endif
