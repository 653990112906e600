/* unhandled.h: unhandled errors: errors of go blocks that have not been taken yet.

   A go block that raises closes its result channel with the error. An error that a take returns, as `nil, err`, is not
   reported. An error that is not taken within GRACE is reported once: most programs that want an error take it sooner,
   and the log of a server gets it without much delay. At the end of the program or of a simulation, and before the main
   program raises a deadlock, all remaining errors are reported.

   The collector could find out exactly whether an error can still be taken. But in an idle server it would run too
   late, and simulations would not be reproducible.

   A for loop over a channel drops the error with which the channel was closed; that does not count as taking it
   (ALT_LOOP). If the program itself has closed the channel, so that the error is not in the list yet, it is an
   unhandled error from then on. Functions of the library that take an error and close another channel with it pass it
   on: then it must be taken from that channel.

   A go block that dies may close other channels with its error, by its to-be-closed variables. Then a take from
   any of these, or from the result channel, takes it (ATTR_ALSO). If the program has closed the result channel before,
   that does not give the error.

   CHAN_ERROR_KNOWN keeps an error from being reported twice. It is set on a channel that is closed, or about to be,
   with an error that has been in the list already, for this channel or another one; or with the error of a cancelled go
   block, which is not reported. */
#ifndef RUNNEL_UNHANDLED_H
#define RUNNEL_UNHANDLED_H

#include "core/state.h"

/* Keeps an error until it is taken from the channel at index `at`, or is due for a report. On top of L and popped: the
   error, its traceback or nil, the go block's name. Reports the error at once if memory runs out. Does not raise. */
void unhandled_add(lua_State *L, Sched *S, int at);

/* Notes that the running go block, which dies, has closed the channel at index `at` with an error, unless that is the
   result of a go block. May raise. */
void unhandled_note_closed(lua_State *L, const Sched *S, int at);

/* Drops taken errors, and reports those that are due at `now`; with INT64_MAX, all of them. Does not raise, but it
   calls the error handler, which may run any code. L must have 8 free slots: a check that fails would leave the loop
   waiting for an error that it cannot report. */
void unhandled_report(lua_State *L, Sched *S, int64_t now);

/* Reports all errors at the end of the program: within a simulation, those of the outer world as well. Otherwise as
   unhandled_report. */
void unhandled_report_all(lua_State *L, Sched *S);

/* Whether the error of the record on top of L may still be reported: it has not been taken. */
bool unhandled_may_come(lua_State *L);

/* Pushes the list of errors of a simulation that is about to begin, for SCHED_UNHANDLED. May raise. */
void unhandled_push_list(lua_State *L);

/* When the next error is due; INT64_MAX if there is none. */
static inline int64_t unhandled_deadline(const Sched *S) {
  return S->world.unhandled ? S->world.unhandled_due : INT64_MAX;
}

/* ns until the next error is due, or -1 if there is none. For a program with a loop of its own, which may have nothing
   else to wait for. */
static inline int64_t unhandled_left(const Sched *S) {
  if (LIKELY(!S->world.unhandled)) return -1;
  int64_t left = S->world.unhandled_due - clock_now(&S->world.clock);
  return left > 0 ? left : 0;
}

/* A for loop drops the error on top of L, with which the channel at index `at` was closed: from now on it is unhandled
   until a take from there gets it, unless it is or was already. May raise. */
void unhandled_drop(lua_State *L, int at);

/* The caller has taken the error at index `err` from the channel at index `from`, and is about to close the channel at
   index `to` with it, if that is an open channel. The error then counts as unhandled until a take from `to` gets it.
   Without a channel no take can get it, and it is reported. If `from` is no channel, the error is reported elsewhere,
   even if it is taken from `to`. Does not raise. */
void unhandled_pass_on(lua_State *L, Sched *S, int err, int to, int from);

/* Sets up the list of errors; the scheduler's userdata is at SCHED_SELF. */
void unhandled_open(lua_State *L);

#endif
