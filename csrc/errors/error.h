/* error.h: errors: their text, their tracebacks, and how they are reported. The functions here call user code
   protected; its errors go to the error handler (on_error), or are written if there is none: to stderr, or by the
   program's ErrorWriter. */
#ifndef RUNNEL_ERROR_H
#define RUNNEL_ERROR_H

#include "core/state.h"

/* Pushes the text of the error at the absolute index `at`: tostring's; for a table without __tostring, its message, if
   it has one, and its other fields that are strings, numbers or booleans. Returns false for a table without such a
   field; the text is then tostring's. If the object's metamethods raise, the text says so: this raises only if memory
   runs out. */
bool error_push_text(lua_State *L, int at);

/* Raises the error on top of L. A string gets the position of the innermost function on the stack that does not belong
   to the library; none if it has called another C function that led here, such as pcall. */
int error_raise(lua_State *L);

/* Pushes a traceback from the caller of the running C function on. May raise. */
void error_push_here(lua_State *L);

/* Pushes the traceback that the message handler SCHED_MSGH has kept of the last error, or nil, and forgets it. If
   memory runs out, no traceback is kept: an earlier one must not be shown with a later error. */
void error_push_traceback(lua_State *L);

/* Sets the function on top of L, which is popped: f(err, traceback) is called for each reported error, and returns the
   traceback for the report. It adds the traceback from the error's thread. */
void error_set_elsewhere(lua_State *L);

/* What writes errors in place of stderr (runnel_on_error). */
typedef struct ErrorWriter {
  void (*write)(void *data, const char *message, const char *where, const char *traceback); /* or NULL: stderr */
  void *data;                                                                               /* its argument */
} ErrorWriter;

/* The state's writer; sets it. Setting may raise. */
ErrorWriter error_writer(lua_State *L);
void error_set_writer(lua_State *L, const ErrorWriter *writer);

/* Calls the error handler, or writes the error if there is none. On top of L and popped: the error, its traceback or
   nil, and where it happened: the name of a go block or the function that stands for it, or a channel, or nil for the
   scheduler itself. Never raises. */
void error_report(lua_State *L);

/* Whether the error at index `at` is that of Ctrl-C: "interrupted!", and in front of it nothing but the position that
   the hook has added. Nothing else tells it, since the hook may be that of the plain interpreter. */
bool error_is_interrupt(lua_State *L, int at);

/* If the error on top of L is that of Ctrl-C, makes a hook raise it again, as soon as the program that runs on L goes on,
   or the scheduler there checks for hooks. Returns whether it is. */
bool error_defer_interrupt(lua_State *L);

/* Calls the function below the `nargs` arguments on top of L, protected. They are replaced by its `nresults` results, or
   by its error, whose traceback is kept (error_push_traceback). The function cannot wait; error messages say that it is
   `inside`. Returns whether there was no error. */
bool error_pcall(lua_State *L, int nargs, int nresults, const char *inside);

/* The error at index `at` has this status. After an overflow of the stack Lua often says only "error in error handling":
   always if a finalizer runs at that moment, and the core has one in each cycle of the collector. Then an error that says
   what has happened replaces it, or the one of memory. Does not raise. */
void error_name_overflow(lua_State *L, int status, int at);

/* Reports the error on top of L, which is popped, with the traceback that was kept of it, as one of the channel at index
   `at`. Never raises. */
void error_report_of(lua_State *L, int at);

/* Calls a function of the library, as error_pcall does, without results; an error is reported, as one of the channel at
   index `at`. An interrupt (interruption.h) ends the go block that runs only when the function has returned. */
bool error_call(lua_State *L, int nargs, const char *inside, int at);

/* Pushes the traceback and the name of a go block that has raised and whose stack is unchanged; if memory runs out, nil
   instead of either. In place of the name it may be the function after which it is named (name_push_function). Its
   userdata is at index `at`, below that its error: that of an overflow is made to say so. Three go blocks get no
   traceback: a cancelled one, because it would take long; one that raises while its variables are being closed, because
   that error comes from elsewhere; and one whose traceback is never shown. */
void error_describe_death(lua_State *L, int at, bool is_cancelled);

/* Sets up the functions that are called protected, so that reporting does not allocate them (SCHED_MSGH and
   others). */
void error_open(lua_State *L);

#endif
