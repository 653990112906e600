/* runnel.h: runnel inside a C program: channels, the scheduler a step at a time, and ports through which other
   threads post messages. How to use it is told in docs/embedding.md.

   Link with `pkg-config --cflags --libs runnel`. The Lua modules are in the library: there is nothing to put on
   LUA_PATH.

   Threads. A lua_State belongs to one thread at a time, the Lua thread. Functions that take a lua_State may be
   called in that thread only, with the state's main thread or the coroutine that is running; the port functions that
   take none in any. None of them may be called in a signal handler.

   Errors. Every function returns one of the codes below, or what its comment says; none raises a Lua error or jumps
   out of the call. Apart from what is said of them they leave the Lua stack as it was. A NULL where something else
   is expected is RUNNEL_BAD_ARGUMENT. */
#ifndef RUNNEL_H
#define RUNNEL_H

#include <stddef.h>
#include <stdint.h>

#define RUNNEL_VERSION "0.1.0"

#ifndef RUNNEL_API
#if defined(__GNUC__)
#define RUNNEL_API __attribute__((visibility("default")))
#else
#define RUNNEL_API
#endif
#endif

#ifdef __cplusplus
extern "C" { /* as is the Lua that the library is linked with */
#endif

#include <lua.h>

/* ---- codes ---- */

enum {
  RUNNEL_OK = 0,
  /* what may well happen: positive */
  RUNNEL_IDLE = 1,   /* nothing is ready, timed or alive: nothing will happen of itself */
  RUNNEL_EMPTY = 2,  /* nothing to take now */
  RUNNEL_FULL = 3,   /* no room now */
  RUNNEL_CLOSED = 4, /* the channel or port is closed, or its lua_State is */
  /* what is wrong: negative */
  RUNNEL_BAD_ARGUMENT = -1, /* an argument cannot be what it is */
  RUNNEL_NO_MEMORY = -2,    /* out of memory; nothing has happened */
  RUNNEL_RAISED = -3,       /* Lua code, or the system, failed: runnel_message tells how */
  RUNNEL_RUNNING = -4,      /* called from within the scheduler, or from a callback */
  RUNNEL_NOT_OPEN = -5,     /* runnel_open has not been called for this lua_State */
  RUNNEL_FOREIGN = -6       /* another copy of runnel is open in this lua_State */
};

/* What a code means, in English. Any thread. */
RUNNEL_API const char *runnel_strerror(int code);

/* The library's version, which is that of this header where they fit. Any thread. */
RUNNEL_API const char *runnel_version(void);

/* The message of the last RUNNEL_RAISED; and after RUNNEL_CLOSED from runnel_poll why the channel was closed. NULL
   where there is none. Valid until the next call that takes this lua_State. Lua thread. */
RUNNEL_API const char *runnel_message(lua_State *L);

/* ---- opening and running ---- */

/* Makes `require "runnel"` work in the state, and with it "runnel.core", "runnel.sim" and the others; Lua's own
   libraries must be open when Lua code does so. Once is enough, more does no harm. lua_close ends all of it. Lua
   thread. */
RUNNEL_API int runnel_open(lua_State *L);

/* Starts a go block of the function and its `nargs` arguments on top of the stack, which are popped; it runs when the
   scheduler does. *result, unless `result` is NULL, is a hold on its result channel. Lua thread. */
typedef struct runnel_chan runnel_chan;
RUNNEL_API int runnel_go(lua_State *L, int nargs, runnel_chan **result);

/* Fires due timers, polls the driver, wakes what waits for ports, and resumes at most `resumes` ready go blocks; where
   that takes long, timers and the driver get their turn about every millisecond. RUNNEL_OK or RUNNEL_IDLE;
   *next_us, unless `next_us` is NULL, is then as after runnel_next. Lua thread. */
RUNNEL_API int runnel_step(lua_State *L, int64_t resumes, int64_t *next_us);

/* The same until `us` microseconds have passed: no go block is resumed after that. One that computes for longer than
   that without waiting is not interrupted. Lua thread. */
RUNNEL_API int runnel_step_for(lua_State *L, int64_t us, int64_t *next_us);

/* When to step again: *next_us is 0 if a go block is ready, else the microseconds to the next deadline, or -1 if there
   is none. Returns RUNNEL_OK; or RUNNEL_IDLE if there is no timer, no open port, and no event of a driver to come. Then
   *next_us is -1, or the microseconds until a step is to report an error that nobody has taken. Lua thread. */
RUNNEL_API int runnel_next(lua_State *L, int64_t *next_us);

/* *fd is a descriptor that is readable when messages have arrived at a port and it is time to step, for the
   program's own poll. It must only be polled; stepping is what makes it unreadable. It lives until lua_close. Lua
   thread. */
RUNNEL_API int runnel_fd(lua_State *L, int *fd);

/* ---- channels ----

   A runnel_chan is a hold on a channel, which keeps the collector away from it. A hold ends with runnel_chan_release or
   with its lua_State; to use it after that is an error that is noticed (RUNNEL_BAD_ARGUMENT) in the first case only. */

/* Kinds of buffers. */
enum {
  RUNNEL_FIXED,    /* full at its size; a size of 0 means no buffer */
  RUNNEL_DROPPING, /* when full it drops the new value; size 1 or more */
  RUNNEL_SLIDING   /* when full it drops the oldest value; size 1 or more */
};

/* Makes a channel. Lua thread. */
RUNNEL_API int runnel_chan_new(lua_State *L, int kind, size_t size, runnel_chan **ch);

/* A hold on the channel at the index. Lua thread. */
RUNNEL_API int runnel_chan_get(lua_State *L, int index, runnel_chan **ch);

/* Pushes the channel. Lua thread. */
RUNNEL_API int runnel_chan_push(lua_State *L, runnel_chan *ch);

/* Ends a hold. Lua thread. */
RUNNEL_API int runnel_chan_release(lua_State *L, runnel_chan *ch);

/* Closes the channel; again does nothing. Unless `reason` is NULL, takes of the drained channel give nil and that
   string. Lua thread. */
RUNNEL_API int runnel_chan_close(lua_State *L, runnel_chan *ch, const char *reason);

/* Puts a value if that can be done at once: RUNNEL_OK, RUNNEL_FULL or RUNNEL_CLOSED. runnel_offer puts the value on
   top of the stack, which is popped whatever comes; nil cannot be put. Lua thread. */
RUNNEL_API int runnel_offer(lua_State *L, runnel_chan *ch);
RUNNEL_API int runnel_offer_boolean(lua_State *L, runnel_chan *ch, int b);
RUNNEL_API int runnel_offer_integer(lua_State *L, runnel_chan *ch, lua_Integer n);
RUNNEL_API int runnel_offer_number(lua_State *L, runnel_chan *ch, lua_Number n);
RUNNEL_API int runnel_offer_bytes(lua_State *L, runnel_chan *ch, const void *bytes, size_t size);

/* Takes a value if that can be done at once, and pushes it: RUNNEL_OK. Else pushes nothing: RUNNEL_EMPTY, or
   RUNNEL_CLOSED of a channel that is closed and drained. Lua thread. */
RUNNEL_API int runnel_poll(lua_State *L, runnel_chan *ch);

/* ---- ports ----

   A port carries messages from other threads into a channel: any number of posters, in the order in which they post,
   never more of them under way than its limit. The scheduler carries them on when it runs; while the channel has no
   room the port fills up, and posters are told. An open port counts as alive: rn.run() goes on and nothing is a
   deadlock, since a message may still come. */
typedef struct runnel_port runnel_port;

/* For runnel_port_open. */
enum {
  RUNNEL_LEAVE_OPEN,   /* the channel stays as it is when the port closes */
  RUNNEL_CLOSE_CHANNEL /* when the port has closed and all is delivered the channel is closed */
};

enum { RUNNEL_PORT_MAX = 0x7fffffff }; /* the highest limit */

/* Opens a port to the channel for at most `limit` messages, 1 or more. The caller has one hold on it. It closes by
   runnel_port_close, with its channel, with its last hold, or with its lua_State. Lua thread. */
RUNNEL_API int runnel_port_open(lua_State *L, runnel_chan *ch, size_t limit, int end, runnel_port **port);

/* One hold more: for a thread that may use the port longer than whoever gave it away. Any thread that has a hold. */
RUNNEL_API int runnel_port_hold(runnel_port *port);

/* Ends a hold. The last one closes the port. Nothing of this depends on the lua_State, which may be closed. Any
   thread. */
RUNNEL_API int runnel_port_release(runnel_port *port);

/* Lets nobody post any more; what has been posted is delivered. Wakes those in runnel_port_wait. Again does nothing.
   Any thread. */
RUNNEL_API int runnel_port_close(runnel_port *port);

/* Posts a message: RUNNEL_OK; or, and then nothing has happened, RUNNEL_FULL, RUNNEL_CLOSED or RUNNEL_NO_MEMORY.
   Bytes are copied. None of them waits for longer than another thread takes to post. Any thread, the Lua thread too. */
RUNNEL_API int runnel_post_boolean(runnel_port *port, int b);
RUNNEL_API int runnel_post_integer(runnel_port *port, lua_Integer n);
RUNNEL_API int runnel_post_number(runnel_port *port, lua_Number n);
RUNNEL_API int runnel_post_bytes(runnel_port *port, const void *bytes, size_t size);

/* Posts what a function will make of `data`, in the Lua thread when the message's turn has come. `push` leaves one
   value on top of the stack and returns 1, or returns 0 when there is nothing to put; it may raise Lua errors, of
   which on_error hears, and must not wait. If the message is dropped undelivered, because the channel or the state
   is closed, `drop` is called instead, in the Lua thread, unless it is NULL; it must use no lua_State. Once this
   returns RUNNEL_OK exactly one of them is called; with any other code neither. Any thread. */
typedef int (*runnel_push)(lua_State *L, void *data);
typedef void (*runnel_drop)(void *data);
RUNNEL_API int runnel_post_call(runnel_port *port, runnel_push push, runnel_drop drop, void *data);

/* After RUNNEL_FULL: waits until about half the limit is free. RUNNEL_OK, or RUNNEL_CLOSED; to have it return, close
   the port. Any thread but the Lua thread, which it would keep from making room. */
RUNNEL_API int runnel_port_wait(runnel_port *port);

#ifdef __cplusplus
}
#endif

#endif
