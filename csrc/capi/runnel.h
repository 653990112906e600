/* runnel.h: runnel inside a C program: channels, the scheduler a step at a time, ports through which other threads post
   messages, and channels that several states share. docs/embedding.md explains how to use it.

   Link with `pkg-config --cflags --libs runnel`. The library contains the Lua modules, so that LUA_PATH need not be
   set.

   Threads. A lua_State belongs to one thread at a time, the Lua thread. Call functions that take a lua_State in that
   thread only, with the state's main thread or the coroutine that is running. Call functions of ports and of shared
   channels that take no lua_State in any thread. Call none of them in a signal handler, except runnel_interrupt.

   Errors. Every function returns one of the codes below, or what its comment says. None but runnel_get_functions raises
   a Lua error or jumps out of the call. Unless their comments say otherwise, they leave the Lua stack as it was. NULL for
   a pointer that is needed is RUNNEL_BAD_ARGUMENT.

   C++. No exception may leave a function that runnel or Lua calls: a C function of a go block, or a callback below. If
   one leaves a function of runnel all the same, the lua_State is broken: later calls return RUNNEL_RAISED, and only
   lua_close may follow.

   After a fork, the child may close its copy of a state, or go on with it, unless it has threads; docs/embedding.md says
   more. */
#ifndef RUNNEL_H
#define RUNNEL_H

#include <stddef.h>
#include <stdint.h>

#define RUNNEL_VERSION "1.0.0"

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
  /* ordinary results: positive */
  RUNNEL_IDLE = 1,   /* no go block is ready, no timer is pending, no event can come */
  RUNNEL_EMPTY = 2,  /* there is no value to take now */
  RUNNEL_FULL = 3,   /* there is no room now */
  RUNNEL_CLOSED = 4, /* the channel or port is closed, or its lua_State is */
  /* errors: negative */
  RUNNEL_BAD_ARGUMENT = -1, /* an argument is invalid */
  RUNNEL_NO_MEMORY = -2,    /* out of memory; nothing has changed */
  RUNNEL_RAISED = -3,       /* Lua code raised an error, or the system failed: see runnel_message */
  RUNNEL_RUNNING = -4,      /* called from within the scheduler, or from a callback */
  RUNNEL_NOT_OPEN = -5,     /* runnel_open has not been called for this lua_State */
  RUNNEL_FOREIGN = -6       /* another copy of runnel is open in this lua_State */
};

/* What a code means, in English. Any thread. */
RUNNEL_API const char *runnel_strerror(int code);

/* The version of the library; it should be RUNNEL_VERSION of this header. Any thread. */
RUNNEL_API const char *runnel_version(void);

/* The message of the last RUNNEL_RAISED; after RUNNEL_CLOSED from runnel_poll, runnel_take or runnel_alts, why the
   channel was closed; after RUNNEL_IDLE from a function that waits, who waits for what. NULL if there is none. Valid
   until the next call that takes this lua_State. Lua thread. */
RUNNEL_API const char *runnel_message(lua_State *L);

/* ---- opening and running ---- */

/* Makes `require "runnel"` work in the state, and likewise "runnel.core", "runnel.sim" and the other modules. Lua code
   that requires them needs Lua's own libraries. Calling it again does nothing. lua_close frees everything. Lua
   thread. */
RUNNEL_API int runnel_open(lua_State *L);

/* What runnel_open_limited leaves out, and adds. Add them up. */
enum {
  RUNNEL_NO_THREADS = 1, /* rn.thread, rn.threads and what uses them raise an error */
  RUNNEL_NO_EXIT = 2,    /* so does rn.exit, which ends the process */
  RUNNEL_NO_SYSTEM = 4,  /* so do rn.file, rn.trace and rn.profile; modules that reach files, processes or the network
                            cannot be required, nor runnel.sim. Includes RUNNEL_NO_THREADS: the function of a thread has
                            all of Lua's libraries */
  RUNNEL_COUNT = 8       /* runnel_interrupt reaches coroutines that scripts make, too: all code of the state looks for
                            it every 1,000 instructions, by a debug hook, and runs at about half the speed */
};

/* As runnel_open, for scripts that may not do everything. `memory` is how many bytes they may use that the state's own
   allocator does not see: for the buffers and values of shared channels that they make, and for the states of their
   threads, all together; SIZE_MAX: no limit. What is too much raises "not enough memory". RUNNEL_BAD_ARGUMENT if runnel
   is open already. docs/embedding.md has a section about sandboxes. Lua thread. */
RUNNEL_API int runnel_open_limited(lua_State *L, unsigned options, size_t memory);

/* Starts a go block of the function and its `nargs` arguments on top of the stack, which are popped. It runs when the
   scheduler does. Unless `result` is NULL, *result is a handle to its result channel. Lua thread. */
typedef struct runnel_chan runnel_chan;
RUNNEL_API int runnel_go(lua_State *L, int nargs, runnel_chan **result);

/* Cancels the go block with this result channel, as rn.cancel does: its operation, or its next one if it does not wait,
   raises the error `reason`; NULL is "cancelled". The result channel of a thread cancels the thread. RUNNEL_OK;
   RUNNEL_CLOSED if it has ended already; RUNNEL_BAD_ARGUMENT if the channel is no such result. Lua thread. */
RUNNEL_API int runnel_cancel(lua_State *L, runnel_chan *result, const char *reason);

/* For C functions that go blocks call: pushes the name of the go block that is running, as rn.ps shows it. Unless
   `result` is NULL, *result is a handle to its result channel. RUNNEL_OK; or RUNNEL_IDLE, and nothing is pushed, if none
   is running. Lua thread. */
RUNNEL_API int runnel_current(lua_State *L, runnel_chan **result);

/* What is called with an error that nobody has handled: `where` is the name of a go block or of a channel, or what else
   has failed; `traceback` may be NULL. The strings are valid during the call only. It must use no lua_State, but may
   post to ports. */
typedef void (*runnel_report)(void *data, const char *error, const char *where, const char *traceback);

/* Has `report` called with `data` for each error that runnel would write to stderr: those that no take gets while there
   is no handler of rn.on_error, and those of such a handler. NULL: stderr again. The state's threads (rn.thread) that
   start afterwards call it, too, each in its own thread: then it must be safe for that, and `data` must be valid until
   they have ended, which may be after lua_close. Else it is called in the Lua thread, also by lua_close. Lua thread. */
RUNNEL_API int runnel_on_error(lua_State *L, runnel_report report, void *data);

/* Fires due timers, polls the driver and the ports, and resumes at most `resumes` ready go blocks; if that takes long,
   timers, driver and ports get their turn about every millisecond. Returns RUNNEL_OK or RUNNEL_IDLE, and sets *next_us,
   unless `next_us` is NULL, as runnel_next does. Lua thread. */
RUNNEL_API int runnel_step(lua_State *L, int64_t resumes, int64_t *next_us);

/* Like runnel_step, but resumes go blocks until `us` microseconds have passed. It does not interrupt a go block that
   computes for longer without waiting. Lua thread. */
RUNNEL_API int runnel_step_for(lua_State *L, int64_t us, int64_t *next_us);

/* When to step again: *next_us is 0 if a go block is ready, else the microseconds to the next deadline, or -1 if there
   is none. Returns RUNNEL_OK; or RUNNEL_IDLE if there is no timer, no open port, and no event of a driver to come. A
   timeout channel on which nothing waits is no timer. Then *next_us is -1, or the microseconds until a step will report
   an error that was not taken. Lua thread. */
RUNNEL_API int runnel_next(lua_State *L, int64_t *next_us);

/* Sets *fd to a descriptor for the program's own poll. It is readable when it is time to step: messages have arrived at
   a port, another thread has completed an operation on a shared channel, a reader has something to read, or a function
   above or below, as runnel_go, has made go blocks ready, also before the first step. It does not tell of timers, nor of
   go blocks that Lua code has made ready outside a step: runnel_next does. Only poll it; a step makes it unreadable again
   unless go blocks are still ready. It stays open until lua_close. Lua thread. */
RUNNEL_API int runnel_fd(lua_State *L, int *fd);

/* Ends the go block that is running now with the error `why`, a string of at most 255 bytes (the rest is cut off); NULL
   is "interrupted". The error comes at its next instruction, without a position. No pcall catches it, so that a go block
   that computes for ever ends whatever it calls; its to-be-closed variables are closed, and whoever takes its result
   gets the error. Returns RUNNEL_OK; RUNNEL_IDLE if the scheduler does not run: outside runnel_step and the like; or
   RUNNEL_NOT_OPEN, also once the state is closed. With RUNNEL_OK, nothing happens if at that moment no go block runs, or
   one is just ending: who waits for the end of a computation calls this again until it has ended. The error
   comes when a C function, a message handler of xpcall, or a coroutine that the go block has resumed, has returned.

   `L` is the state's main thread, as luaL_newstate returns it. Any thread, and any signal handler. Called in another
   thread than the Lua thread, this sends the Lua thread the signal SIGURG, for which runnel sets a handler, which calls
   the program's own afterwards; the first step in a thread unblocks that signal there. */
RUNNEL_API int runnel_interrupt(lua_State *L, const char *why);

/* ---- channels ----

   A runnel_chan is a handle that keeps a channel from being collected. After runnel_chan_release, using the handle is
   RUNNEL_BAD_ARGUMENT. After lua_close, it must not be used. */

/* Kinds of buffers, for runnel_chan_new. */
enum {
  RUNNEL_FIXED,    /* full at its size; a size of 0 means no buffer */
  RUNNEL_DROPPING, /* when full it drops the new value; size 1 or more */
  RUNNEL_SLIDING   /* when full it drops the oldest value; size 1 or more */
};

/* Makes a channel. Lua thread. */
RUNNEL_API int runnel_chan_new(lua_State *L, int kind, size_t size, runnel_chan **ch);

/* Makes a handle to the channel at the stack index. Lua thread. */
RUNNEL_API int runnel_chan_get(lua_State *L, int index, runnel_chan **ch);

/* Pushes the channel. Lua thread. */
RUNNEL_API int runnel_chan_push(lua_State *L, runnel_chan *ch);

/* Releases a handle. Lua thread. */
RUNNEL_API int runnel_chan_release(lua_State *L, runnel_chan *ch);

/* Closes the channel; closing again does nothing. Unless `reason` is NULL, a take from the drained channel gives nil
   and that string. Lua thread. */
RUNNEL_API int runnel_chan_close(lua_State *L, runnel_chan *ch, const char *reason);

/* Puts a value if that can be done at once: RUNNEL_OK, RUNNEL_FULL or RUNNEL_CLOSED. runnel_offer puts the value on
   top of the stack and always pops it; nil cannot be put. Lua thread. */
RUNNEL_API int runnel_offer(lua_State *L, runnel_chan *ch);
RUNNEL_API int runnel_offer_boolean(lua_State *L, runnel_chan *ch, int b);
RUNNEL_API int runnel_offer_integer(lua_State *L, runnel_chan *ch, lua_Integer n);
RUNNEL_API int runnel_offer_number(lua_State *L, runnel_chan *ch, lua_Number n);
RUNNEL_API int runnel_offer_bytes(lua_State *L, runnel_chan *ch, const void *bytes, size_t size);

/* Takes a value if that can be done at once, and pushes it: RUNNEL_OK. Else pushes nothing: RUNNEL_EMPTY, or
   RUNNEL_CLOSED if the channel is closed and drained. Lua thread. */
RUNNEL_API int runnel_poll(lua_State *L, runnel_chan *ch);

/* ---- waiting ----

   These functions wait for channels by running the scheduler in the calling thread, like an operation of a main program
   in Lua. They wait for at most `us` microseconds; not at all if that is 0; without limit if it is negative. They can
   wait only outside the scheduler: in a go block or a callback they return RUNNEL_RUNNING, unless `us` is 0.
   RUNNEL_IDLE: without a limit, nothing is left that could end the wait; runnel_message lists the waiting go blocks. */

/* Takes a value and pushes it: RUNNEL_OK. Else pushes nothing: RUNNEL_EMPTY if none has come in time, RUNNEL_CLOSED if
   the channel is closed and drained, or RUNNEL_IDLE. Lua thread. */
RUNNEL_API int runnel_take(lua_State *L, runnel_chan *ch, int64_t us);

/* Puts the value on top of the stack, which is always popped: RUNNEL_OK once it is taken or in the buffer,
   RUNNEL_FULL if that has not happened in time (the value was not put), RUNNEL_CLOSED, or RUNNEL_IDLE. Lua thread. */
RUNNEL_API int runnel_put(lua_State *L, runnel_chan *ch, int64_t us);

/* An operation of runnel_alts. */
typedef struct runnel_op {
  runnel_chan *ch; /* the channel */
  int value;       /* 0: a take; else a put of the value at this stack index, which stays there; nil cannot be put */
} runnel_op;

enum {
  RUNNEL_ALTS_MAX = 1000, /* most operations */
  RUNNEL_PRIORITY = 1     /* option: if several can be done at once, the first is; else each is equally likely */
};

/* Does exactly one of `n` operations, 1 or more, and sets *done to its number, counted from 0. RUNNEL_OK: it was done;
   the value of a take is pushed. RUNNEL_CLOSED: its channel is closed. RUNNEL_EMPTY: none could be done in time. Or
   RUNNEL_IDLE. Lua thread. */
RUNNEL_API int runnel_alts(lua_State *L, const runnel_op *ops, int n, int options, int64_t us, int *done);

/* Makes a channel that closes after `us` microseconds, or up to 10 ms later, since timeouts that are close to each other
   are one, like rn.timeout. Lua thread. */
RUNNEL_API int runnel_timeout(lua_State *L, int64_t us, runnel_chan **ch);

/* ---- ports ----

   A port delivers messages from other threads to a channel. Any number of threads may post. Messages are delivered in
   the order in which they were posted, and no more than the limit are under way. The scheduler delivers them when it
   runs. While the channel has no room the port fills up, and posts return RUNNEL_FULL. While a port is open, a message
   may still come: rn.run() does not return, and no wait is a deadlock. */
typedef struct runnel_port runnel_port;

/* What happens to the channel in the end, for runnel_port_open. RUNNEL_QUIET may be added to the others. */
enum {
  RUNNEL_LEAVE_OPEN = 0,    /* the channel stays as it is when the port closes */
  RUNNEL_CLOSE_CHANNEL = 1, /* once the port has closed and all messages are delivered, the channel is closed */
  RUNNEL_QUIET = 2          /* does not keep rn.run() from returning, unless a take waits on the channel */
};

enum { RUNNEL_PORT_MAX = 0x7fffffff }; /* the highest limit */

/* Opens a port to the channel for at most `limit` messages, 1 or more. The caller gets one reference to it. The port
   closes on runnel_port_close, when its channel closes, when its last reference is released, or on lua_close. When the
   channel closes, posts are refused at once (after another thread has closed a shared channel: once the scheduler has
   run), and the messages that are still in the port are dropped. An open port keeps its channel from being collected.
   Lua thread. */
RUNNEL_API int runnel_port_open(lua_State *L, runnel_chan *ch, size_t limit, int end, runnel_port **port);

/* Adds a reference, for a thread that may use the port for longer than the thread that passed it on. Any thread that
   has a reference. */
RUNNEL_API int runnel_port_hold(runnel_port *port);

/* Releases a reference. The last release closes the port. The lua_State may be closed already. Any thread. */
RUNNEL_API int runnel_port_release(runnel_port *port);

/* Closes the port to further posts; what has been posted is still delivered. Ends every runnel_port_wait. Closing it
   again does nothing. Any thread. */
RUNNEL_API int runnel_port_close(runnel_port *port);

/* Posts a message: RUNNEL_OK, RUNNEL_FULL, RUNNEL_CLOSED or RUNNEL_NO_MEMORY. Bytes are copied. A post never waits for
   room; it takes a mutex for a short time. Any thread, including the Lua thread. */
RUNNEL_API int runnel_post_boolean(runnel_port *port, int b);
RUNNEL_API int runnel_post_integer(runnel_port *port, lua_Integer n);
RUNNEL_API int runnel_post_number(runnel_port *port, lua_Number n);
RUNNEL_API int runnel_post_bytes(runnel_port *port, const void *bytes, size_t size);

/* Posts the value that `push` makes of `data` when the message is delivered. `push` is called in the Lua thread. It
   pushes one value and returns 1, or returns 0 if there is nothing to put; it may raise Lua errors, which go to
   on_error, and must not wait. If the message is dropped, because the channel or the state is closed, `drop` is called
   instead, unless it is NULL, in the Lua thread; it must use no lua_State. If this returns RUNNEL_OK, exactly one of
   the two is called; otherwise neither is. Any thread. */
typedef int (*runnel_push)(lua_State *L, void *data);
typedef void (*runnel_drop)(void *data);
RUNNEL_API int runnel_post_call(runnel_port *port, runnel_push push, runnel_drop drop, void *data);

/* After RUNNEL_FULL: waits until about half the limit is free. RUNNEL_OK, or RUNNEL_CLOSED; closing the port makes it
   return. Any thread except the Lua thread, which has to make the room. */
RUNNEL_API int runnel_port_wait(runnel_port *port);

/* ---- tasks ----

   A task is something that a module puts off until the scheduler has run all ready go blocks: for example to send with
   one system call what they have written. */
typedef struct runnel_task {
  void (*run)(void *data);   /* what to do: called in the Lua thread; must use no lua_State */
  void *data;                /* for `run` */
  struct runnel_task *next;  /* runnel's, as the rest; NULL at first */
  struct runnel_task **list; /* the pointer to the task while it is put off, else NULL */
} runnel_task;

/* Puts a task off. It is run once: before the scheduler next waits, or returns while no go block is ready; after about a
   millisecond if go blocks are ready all the time; or in lua_close. What computes for longer delays it: a go block, or the main
   program while go blocks are ready. Returns RUNNEL_OK, also if it is put off already; or RUNNEL_IDLE if the scheduler
   is not running. The task must stay in memory until it is run or cancelled. Lua thread. */
RUNNEL_API int runnel_task_add(lua_State *L, runnel_task *task);

/* The task is not run, unless it is added again. Before lua_close has returned; Lua thread. */
RUNNEL_API int runnel_task_cancel(runnel_task *task);

/* ---- readers ----

   A reader calls a function of a module in the Lua thread while a descriptor, such as a socket, can be read, or
   written, and the scheduler has nothing else to do. So what comes need not pass through another thread. */
typedef struct runnel_reader runnel_reader;

/* Makes a reader, which waits for no descriptor yet. `ready` is called in the Lua thread, and must use no lua_State; it
   may post to ports, and may make any reader wait for another descriptor, and end any, also its own. RUNNEL_IDLE if
   there can be no readers: on systems other than Linux. Lua thread. */
RUNNEL_API int runnel_reader_open(lua_State *L, void (*ready)(void *data), void *data, runnel_reader **reader);

/* Makes it wait for a descriptor, or for none: -1. Call it before the previous descriptor is closed. In the Lua thread,
   `ready` is not called afterwards for the previous one, even if that could be read; in another thread, it may be in the
   middle of a call. RUNNEL_RAISED, and errno and runnel_message say why, if the system refuses the descriptor, for
   example a regular file, or one that another reader waits for: then it waits for none. Any thread, but not two at a
   time for one reader. */
RUNNEL_API int runnel_reader_watch(runnel_reader *reader, int fd);

/* What a reader waits for. */
enum { RUNNEL_READABLE = 1, RUNNEL_WRITABLE = 2 };

/* The same, until the descriptor can be read, or written, or both if both are added up: then `ready` is called for either,
   and tries what it has to do. An error of the descriptor counts as either. A socket can nearly always be written: wait
   for that only after a write that was cut short. */
RUNNEL_API int runnel_reader_watch_for(runnel_reader *reader, int fd, int events);

/* Ends it; the descriptor must still be open. Lua thread; or any thread, once the Lua thread has made it wait for none,
   even if the lua_State is closed already. */
RUNNEL_API int runnel_reader_close(runnel_reader *reader);

/* ---- shared channels ----

   Several states, and C code in any thread, can use a shared channel (rn.shared_chan). A runnel_shared is a reference
   to one. As long as there is a reference, no wait on the channel is a deadlock, since its owner may put. So release it
   when it is not needed any more; the state may be closed already. Using a reference after its release is an error that
   is not detected. */
typedef struct runnel_shared runnel_shared;

/* Makes a shared channel, with a buffer as for runnel_chan_new, which belongs to no state yet. Any thread. */
RUNNEL_API int runnel_shared_new(int kind, size_t size, runnel_shared **shared);

/* Makes a reference to the shared channel at the stack index; RUNNEL_BAD_ARGUMENT for anything else. Lua thread. */
RUNNEL_API int runnel_shared_get(lua_State *L, int index, runnel_shared **shared);

/* Pushes the channel; from now on this state can use it. Lua thread. */
RUNNEL_API int runnel_shared_push(lua_State *L, runnel_shared *shared);

/* Adds a reference, for another thread; releases one. Any thread. */
RUNNEL_API int runnel_shared_hold(runnel_shared *shared);
RUNNEL_API int runnel_shared_release(runnel_shared *shared);

/* Closes the channel, as runnel_chan_close. Any thread. */
RUNNEL_API int runnel_shared_close(runnel_shared *shared, const char *reason);

/* Puts a value: returns RUNNEL_OK once it is taken or in the buffer, or RUNNEL_CLOSED, or RUNNEL_NO_MEMORY. Waits for
   at most `us` microseconds, or without limit if that is negative, and then returns RUNNEL_FULL: the value was not put.
   Returns RUNNEL_IDLE if it would wait, and nothing else refers to the channel any more. Bytes are copied. Any thread.
   If a state is to take the value in the calling thread, `us` must be 0: while this call waits, that state cannot run. */
RUNNEL_API int runnel_shared_put_boolean(runnel_shared *shared, int b, int64_t us);
RUNNEL_API int runnel_shared_put_integer(runnel_shared *shared, lua_Integer n, int64_t us);
RUNNEL_API int runnel_shared_put_number(runnel_shared *shared, lua_Number n, int64_t us);
RUNNEL_API int runnel_shared_put_bytes(runnel_shared *shared, const void *bytes, size_t size, int64_t us);

/* Kinds of runnel_value. */
enum {
  RUNNEL_BOOLEAN,
  RUNNEL_INTEGER,
  RUNNEL_NUMBER,
  RUNNEL_BYTES, /* a string */
  RUNNEL_OTHER  /* a table or a shared channel: runnel_value_push makes it one in a state */
};

/* A value that was taken from a shared channel. It belongs to no state. */
typedef struct runnel_value {
  int kind; /* which of the following it is */
  union {
    int boolean;
    lua_Integer integer;
    lua_Number number;
    struct {
      const char *start; /* valid until runnel_value_release; no zero byte follows */
      size_t size;
    } bytes;
  } as;
} runnel_value;

/* Takes a value: RUNNEL_OK. Waits for at most `us` microseconds, or without limit if that is negative, and then returns
   RUNNEL_EMPTY. Returns RUNNEL_IDLE if it would wait, and nothing else refers to the channel any more. RUNNEL_CLOSED: the
   channel is closed and drained; *value is the reason, or NULL without one. With other codes *value is NULL.
   RUNNEL_NO_MEMORY: no value was taken. Any thread. If a state is to put the value in the calling thread, `us` must
   be 0. */
RUNNEL_API int runnel_shared_take(runnel_shared *shared, int64_t us, runnel_value **value);

/* Pushes a value of any kind, which stays as it is. Lua thread. */
RUNNEL_API int runnel_value_push(lua_State *L, const runnel_value *value);

/* Releases a value; NULL is RUNNEL_OK. Any thread. */
RUNNEL_API int runnel_value_release(runnel_value *value);

/* ---- C modules ----

   A C module that Lua loads beside runnel.core is not linked with any library of runnel, and cannot call its functions
   by name. It gets them in a table:

     static int open(lua_State *L) {
       const runnel_functions *rn = runnel_get_functions(L);
       runnel_port *port;
       int code = rn->port_open(L, ch, 100, RUNNEL_LEAVE_OPEN, &port);

   The functions are those above, without the prefix, with the same rules about threads. The core stays loaded until the
   process ends, so that a thread may post after the state is closed. A thread that runs code of the module must end
   before lua_close unloads the module. */

/* A later release of runnel with the same version may add functions at the end. */
#define RUNNEL_FUNCTIONS_VERSION 1

typedef struct runnel_functions {
  unsigned version; /* RUNNEL_FUNCTIONS_VERSION of the runnel that is loaded */
  size_t size;      /* sizeof(runnel_functions) there */
  const char *(*strerror)(int code);
  const char *(*message)(lua_State *L);
  int (*chan_new)(lua_State *L, int kind, size_t size, runnel_chan **ch);
  int (*chan_get)(lua_State *L, int index, runnel_chan **ch);
  int (*chan_push)(lua_State *L, runnel_chan *ch);
  int (*chan_release)(lua_State *L, runnel_chan *ch);
  int (*chan_close)(lua_State *L, runnel_chan *ch, const char *reason);
  int (*offer)(lua_State *L, runnel_chan *ch);
  int (*poll)(lua_State *L, runnel_chan *ch);
  int (*port_open)(lua_State *L, runnel_chan *ch, size_t limit, int end, runnel_port **port);
  int (*port_hold)(runnel_port *port);
  int (*port_release)(runnel_port *port);
  int (*port_close)(runnel_port *port);
  int (*port_wait)(runnel_port *port);
  int (*post_boolean)(runnel_port *port, int b);
  int (*post_integer)(runnel_port *port, lua_Integer n);
  int (*post_number)(runnel_port *port, lua_Number n);
  int (*post_bytes)(runnel_port *port, const void *bytes, size_t size);
  int (*post_call)(runnel_port *port, runnel_push push, runnel_drop drop, void *data);
  int (*shared_new)(int kind, size_t size, runnel_shared **shared);
  int (*shared_get)(lua_State *L, int index, runnel_shared **shared);
  int (*shared_push)(lua_State *L, runnel_shared *shared);
  int (*shared_hold)(runnel_shared *shared);
  int (*shared_release)(runnel_shared *shared);
  int (*shared_close)(runnel_shared *shared, const char *reason);
  int (*shared_put_boolean)(runnel_shared *shared, int b, int64_t us);
  int (*shared_put_integer)(runnel_shared *shared, lua_Integer n, int64_t us);
  int (*shared_put_number)(runnel_shared *shared, lua_Number n, int64_t us);
  int (*shared_put_bytes)(runnel_shared *shared, const void *bytes, size_t size, int64_t us);
  int (*task_add)(lua_State *L, runnel_task *task);
  int (*task_cancel)(runnel_task *task);
  int (*reader_open)(lua_State *L, void (*ready)(void *data), void *data, runnel_reader **reader);
  int (*reader_watch)(runnel_reader *reader, int fd);
  int (*reader_close)(runnel_reader *reader);
  int (*interrupt)(lua_State *L, const char *why);
  int (*cancel)(lua_State *L, runnel_chan *result, const char *reason);
  int (*current)(lua_State *L, runnel_chan **result);
  int (*timeout)(lua_State *L, int64_t us, runnel_chan **ch);
  int (*take)(lua_State *L, runnel_chan *ch, int64_t us);
  int (*put)(lua_State *L, runnel_chan *ch, int64_t us);
  int (*alts)(lua_State *L, const runnel_op *ops, int n, int options, int64_t us, int *done);
  int (*shared_take)(runnel_shared *shared, int64_t us, runnel_value **value);
  int (*value_push)(lua_State *L, const runnel_value *value);
  int (*value_release)(runnel_value *value);
  int (*reader_watch_for)(runnel_reader *reader, int fd, int events);
} runnel_functions;

/* The registry key of the table, a light userdata. */
#define RUNNEL_FUNCTIONS_KEY "runnel.functions"

/* The functions of the runnel that is loaded in the state; `require "runnel.core"` comes before. Raises a Lua error if
   none is loaded, or if the module was compiled for another version. Lua thread. */
static inline const runnel_functions *runnel_get_functions(lua_State *L) {
  const runnel_functions *functions;
  lua_getfield(L, LUA_REGISTRYINDEX, RUNNEL_FUNCTIONS_KEY);
  functions = (const runnel_functions *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (!functions) {
    lua_pushliteral(L, "this C module needs runnel, which is not loaded: require \"runnel\" before it");
    lua_error(L);
  } else if (functions->version != RUNNEL_FUNCTIONS_VERSION || functions->size < sizeof *functions) {
    lua_pushfstring(L,
                    "this C module was compiled for version %d of runnel's functions (%d bytes); the runnel that is "
                    "loaded has version %d (%d bytes): compile the module with its runnel.h",
                    RUNNEL_FUNCTIONS_VERSION, (int)sizeof *functions, (int)functions->version, (int)functions->size);
    lua_error(L);
  }
  return functions;
}

#ifdef __cplusplus
}
#endif

#endif
