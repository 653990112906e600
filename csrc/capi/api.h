/* api.h: what the files of the C API share: a call into Lua that cannot raise.

   Each function of the API that takes a lua_State describes itself by a Call. Its body runs protected, in a C
   function that has the scheduler as its first upvalue like any other of runnel, and as the second the last error's
   message. */
#ifndef RUNNEL_API_INTERNAL_H
#define RUNNEL_API_INTERNAL_H

#include "capi/runnel.h"
#include "lua/face.h"
#include "port/port.h"

typedef struct Call Call;

/* Does what is asked for: may raise, and returns how many results it has pushed, or API_MESSAGE when what it has
   pushed is to be the message; its code is in `code`. The values that the Call was given are on the stack from
   API_VALUES on, with nothing above them. */
typedef int (*Body)(lua_State *L, Sched *S, Call *call);

enum { API_VALUES = 2, API_MESSAGE = -1 };

struct Call {
  Body body;          /* what is done */
  int code;           /* what the API's function returns; RUNNEL_OK at first */
  runnel_chan *chan;  /* the channel that it is about */
  runnel_chan **hold; /* where a new hold goes, or NULL */
  Message value;      /* a value that is not on the stack */
  int64_t resumes;    /* a step's limits */
  int64_t ns;
  int64_t *next_us; /* when to step again, or NULL */
  size_t size;      /* of a buffer, or a port's limit */
  int option;       /* a kind of buffer, a port's end, or a number of arguments */
  const char *text; /* why a channel is closed, or NULL */
  int *fd;          /* where the descriptor goes */
  Port **port;      /* where the port goes */
};

/* Makes the call with the `n` values on top of the stack, which are popped. Its results are pushed if the code is
   RUNNEL_OK. */
int api_call(lua_State *L, int n, Call *call);

/* For bodies: sets the code. No results. */
static inline int api_code(Call *call, int code) {
  call->code = code;
  return 0;
}

/* For bodies: pushes the channel of a hold, or returns NULL when it is none. */
Chan *api_push_chan(lua_State *L, const runnel_chan *hold);

/* For bodies: makes a hold on the channel on top of the stack, which is popped; or nil for a channel to come. */
runnel_chan *api_hold(lua_State *L);

/* For bodies: the channel on top of the stack, which is popped, is what the hold is on. Does not raise. */
void api_set_hold(lua_State *L, const runnel_chan *hold);

#endif
