/* observe.h: how the core reports events to observers (the profile, the trace): it calls the functions of a struct, in
   the scheduler's thread, first of the profile. S->is_observed is false while nothing observes, and S->births NULL while
   nothing asks for new channels: then an event costs one test.

   The core reports an event when it has happened completely. A function may be NULL, except `born`. The functions may
   read channels and go blocks, but must not change them. Functions with an `L` may push values, which they pop again;
   they may run finalizers or a function of the user, which may put, take, close, and end the observation: so the caller
   must read again what it has read before. Functions without `L` run no Lua code. None raises, except `born` and
   `died`. */
#ifndef RUNNEL_OBSERVE_H
#define RUNNEL_OBSERVE_H

#include "core/state.h"

/* What the running code has looked at: a channel, the go block of which it is the result channel, or the pending
   timeouts, of which it has got one. */
typedef enum Look { LOOK_CHANNEL, LOOK_BLOCK, LOOK_TIMEOUT } Look;

typedef struct Observer {
  /* ---- go blocks and the main program ---- */

  /* The running code has started a go block, whose userdata is at index `at`. */
  void (*spawn)(lua_State *L, Sched *S, Go *go, int at);
  /* The loop is about to resume a go block. Returns false if a finalizer has ended it: it must not be resumed. */
  bool (*run)(lua_State *L, Sched *S, Go *go);
  /* That go block has yielded or ended. If it has ended, `alt` may have been collected: compare only the pointer. */
  void (*left)(lua_State *L, Sched *S, const Alt *alt);
  /* The sleep of an alt is over. */
  void (*slept)(Sched *S, const Alt *alt);
  /* A go block has ended. `is_error`: it has died of an error other than a cancellation. */
  void (*end)(Sched *S, const Go *go, bool is_error);
  /* The main program is about to run the loop; the loop has returned to it. */
  void (*main_leaves)(lua_State *L, Sched *S);
  void (*main_runs)(lua_State *L, Sched *S);
  /* The run queue is empty, so the scheduler is about to wait; it has waited. */
  void (*idle)(Sched *S);
  void (*awake)(Sched *S);

  /* ---- channels; `at` is the index of the channel's userdata ---- */

  /* The program has made a channel. May raise: the caller has not used the channel yet. */
  void (*born)(lua_State *L, Sched *S, int at);
  /* The running code has put the value at index `value`: the take of `taker`, or with NULL the buffer, has it now. 0: it
     is the newest value in slots that are user values. */
  void (*put)(lua_State *L, Chan *ch, int at, int value, const Alt *taker);
  /* The running code has taken a value: from the waiting put of `putter`; or, with NULL, from the buffer. */
  void (*take)(Chan *ch, const Alt *putter);
  /* The value of a waiting put has moved to the buffer. */
  void (*admit)(Chan *ch, const Alt *putter);
  /* A waiting take has got a value from the buffer. */
  void (*serve)(Chan *ch, const Alt *taker);
  /* A put or take on a shared channel has completed. The running code did it; or, if `alt` is not NULL, another thread
     has completed it for that alt: then the function must not run Lua code, and `at` is 0. */
  void (*shared)(lua_State *L, Chan *ch, int at, const Alt *alt, bool is_put);
  /* The channel is closed. */
  void (*close)(const Chan *ch);
  /* The running code looks at it, and may have got an answer without one of the events above. */
  void (*look)(Chan *ch, Look what);

  /* ---- errors of go blocks; records are those of unhandled.h ---- */

  /* A go block has died of an error that the program may still take. Its record is on top of L. May raise. */
  void (*died)(lua_State *L, Sched *S);
  /* The program has not taken the error of the record at index `at`, which is reported next. */
  void (*due)(lua_State *L, Sched *S, int at);
  /* An error is about to be reported. */
  void (*report)(lua_State *L, Sched *S);
} Observer;

/* What the loop calls for another thread that looks at the scheduler (watch.h), or NULL. None of these raises. */
typedef struct WatchHook {
  /* Calls a function of the program if the other thread has asked for it. The loop calls this often. */
  void (*poll)(lua_State *L, Sched *S);
  /* The loop begins and ends a wait in the driver. */
  void (*wait_begins)(Sched *S);
  void (*wait_ends)(Sched *S);
} WatchHook;

/* The places in Sched.seats: one for each observer that there can be. */
enum { SEAT_PROFILE, SEAT_TRACE, SEAT_SEARCH, SEATS };

/* An observer begins, or with NULL ends, to hear of events. */
static inline void observe_seat(Sched *S, int seat, const Observer *observer) {
  S->seats[seat] = observer;
  S->is_observed = S->seats[SEAT_PROFILE] || S->seats[SEAT_TRACE] || S->seats[SEAT_SEARCH];
}

/* Calls the function `event` of each observer that has one. */
#define OBSERVE(S, event, ...)                                                                                         \
  do {                                                                                                                 \
    if (UNLIKELY((S)->is_observed))                                                                                    \
      for (int seat_ = 0; seat_ < SEATS; seat_++)                                                                      \
        if ((S)->seats[seat_] && (S)->seats[seat_]->event) (S)->seats[seat_]->event(__VA_ARGS__);                      \
  } while (0)

/* A go block is about to be resumed. Returns false if it must not be: see `run`. */
static inline bool observe_run(lua_State *L, Sched *S, Go *go) {
  if (LIKELY(!S->is_observed)) return true;
  for (int seat = 0; seat < SEATS; seat++)
    if (S->seats[seat] && S->seats[seat]->run && !S->seats[seat]->run(L, S, go)) return false;
  return true;
}

/* Reports the new channel at index `at`. May raise. */
static inline void observe_birth(lua_State *L, Sched *S, int at) {
  if (UNLIKELY(S->births != NULL)) S->births->born(L, S, at);
}

#endif
