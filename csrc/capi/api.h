/* api.h: how the functions of the C API enter Lua without raising.

   Each function of the API that takes a lua_State describes what it does by a Call, and api_call runs that protected.
   The body of a Call runs in a C function that has the scheduler at SCHED_SELF, like any other of runnel. */
#ifndef RUNNEL_API_INTERNAL_H
#define RUNNEL_API_INTERNAL_H

#include "capi/runnel.h"
#include "core/state.h"
#include "port/port.h"
#include "shared/shared_chan.h"

typedef struct Call Call;

/* Does the work of an API function. May raise. Sets `code` unless it is RUNNEL_OK. Returns how many results it has
   pushed, or API_MESSAGE if it has pushed a message for runnel_message. The values passed to api_call are on the stack
   from API_VALUES on, with nothing above them. */
typedef int (*Body)(lua_State *L, Sched *S, Call *call);

enum { API_VALUES = 2, API_MESSAGE = -1 };

struct Call {
  Body body;            /* does the work */
  Sched *sched;         /* while the body runs; NULL at first */
  int code;             /* what the API function returns; RUNNEL_OK at first */
  runnel_chan *chan;    /* the channel to work on */
  runnel_chan **hold;   /* where a new hold goes, or NULL */
  Message value;        /* a value to put that is not on the stack */
  int64_t resumes;      /* most go blocks that a step resumes */
  int64_t ns;           /* for how long it resumes them; how long an operation may wait, negative: without limit */
  int64_t *next_us;     /* where the time of the next step goes, or NULL */
  Buffer buffer;        /* the buffer of a new channel */
  size_t size;          /* limit of a port */
  int option;           /* how a port ends, number of arguments, or options of alts */
  const runnel_op *ops; /* the operations of alts, and */
  int count;            /* how many they are */
  int *done;            /* where the number of the one that has completed goes */
  const Operation *operation; /* of what the program calls it; NULL if it does not wait */
  const char *text;           /* why a channel is closed, or a go block cancelled; or NULL */
  int *fd;                    /* where the descriptor goes */
  Port **port;                /* where the port goes */
  SharedChan *shared;         /* the shared channel to push */
  runnel_shared **held;       /* where a reference to a shared channel goes */
  runnel_task *task;          /* the task to put off */
  runnel_reader *reader;      /* the reader to begin */
  const SharedValue *packed;  /* the value to push */
  runnel_report report;       /* what is called for errors, or NULL, and */
  void *data;                 /* its argument */
};

/* Makes the call with the `n` values on top of the stack, which are popped, and returns its code. Pushes its results if
   that is RUNNEL_OK. */
int api_call(lua_State *L, int n, Call *call);

/* The same with the userdata at an index of the stack, which stays. */
int api_call_with(lua_State *L, int index, Call *call);

/* Sets the buffer of a kind and a size, and returns whether there is such a buffer. */
bool api_set_buffer(Buffer *buffer, int kind, size_t size);

/* Makes the C API work in the state. The scheduler's userdata is at SCHED_SELF. */
void api_open(lua_State *L);

/* Stores the table of functions for C modules in the registry. */
void functions_open(lua_State *L);

/* Microseconds of the API in ns; negative stays negative. */
static inline int64_t api_ns(int64_t us) { return us < 0 ? -1 : us < INT64_MAX / 2000 ? us * 1000 : INT64_MAX / 2; }

/* For bodies: sets the code, and returns 0: no results. */
static inline int api_code(Call *call, int code) {
  call->code = code;
  return 0;
}

#endif
