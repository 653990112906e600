/* observe.h: what the core says about what it does, to whoever records it (the trace).

   The core calls the functions of one struct and knows nothing else of its observer. They are called in the scheduler's
   thread. S->observer is NULL while nobody wants these events, and S->births while nobody wants to know of new
   channels: a place where something happens tests only that.

   An event comes when it has happened completely: the functions may read channels and go blocks, but must not change
   them. Those with an `L` may push on it, what they push they pop, and they may run finalizers or a function of the
   user's, which may put, take and close, and end the observation: the caller relies on nothing that it has read before.
   Those without `L` run no Lua code. None raises, except `born`. */
#ifndef RUNNEL_OBSERVE_H
#define RUNNEL_OBSERVE_H

#include "core/state.h"

typedef struct Observer {
  /* ---- go blocks and the main program ---- */

  /* A go block, whose userdata is at index `at`, was started by whoever runs. */
  void (*spawn)(lua_State *L, Sched *S, Go *go, int at);
  /* A go block is about to be resumed. Returns false if a finalizer has ended it meanwhile, so that it must not be
     resumed. */
  bool (*run)(lua_State *L, Sched *S, Go *go);
  /* That go block has yielded or ended. If it has ended, `alt` may have been collected: only compare the pointer. */
  void (*left)(lua_State *L, Sched *S, const Alt *alt);
  /* The sleep of an alt is over. */
  void (*slept)(Sched *S, const Alt *alt);
  /* A go block has ended, by an error or not. To be cancelled is no error. */
  void (*end)(Sched *S, const Go *go, bool is_error);
  /* The main program is about to run the loop; and the loop has returned to it. */
  void (*main_leaves)(lua_State *L, Sched *S);
  void (*main_runs)(Sched *S);
  /* Nothing is ready, so the scheduler is about to wait; and it has waited. */
  void (*idle)(Sched *S);
  void (*awake)(Sched *S);

  /* ---- channels; `at` is the index of the channel's userdata ---- */

  /* A channel was made. May raise; the caller has not used it yet. */
  void (*born)(lua_State *L, Sched *S, int at);
  /* Who runs has put the value at index `value`: a waiting take of `taker` got it, or (NULL) the buffer or another
     thread. */
  void (*put)(lua_State *L, Chan *ch, int at, int value, const Alt *taker);
  /* Who runs has taken a value: from a waiting put of `putter`, or (NULL) from the buffer. */
  void (*take)(Chan *ch, const Alt *putter);
  /* The value of a waiting put has gone to the buffer. */
  void (*admit)(Chan *ch, const Alt *putter);
  /* A waiting take has got a value of the buffer. */
  void (*serve)(Chan *ch, const Alt *taker);
  /* A put or take on a channel that other threads share is complete. Who runs did it; or, if `alt` is not NULL, another
     thread has completed it for that alt: then nothing may run Lua code, and `at` is 0. */
  void (*shared)(lua_State *L, Chan *ch, int at, const Alt *alt, bool is_put);
  /* The channel is closed. */
  void (*close)(const Chan *ch);

  /* ---- errors of go blocks; a record is that of unhandled.h ---- */

  /* A go block has died of an error that somebody may still take; its record is on top of L. Protected: may raise. */
  void (*died)(lua_State *L, Sched *S);
  /* Nobody has taken the error of the record at index `at`: it is the one that is reported next. */
  void (*due)(lua_State *L, Sched *S, int at);
  /* An error is about to be reported. */
  void (*report)(lua_State *L, Sched *S);
} Observer;

/* What the loop calls for another thread that looks at the scheduler (watch.h), if S->watch_hook is not NULL. None of
   these raises. */
typedef struct WatchHook {
  /* Calls a function of the program if the other thread has asked for that; to be called often. */
  void (*poll)(lua_State *L, Sched *S);
  /* The loop begins and ends a wait in the driver. */
  void (*wait_begins)(Sched *S);
  void (*wait_ends)(Sched *S);
} WatchHook;

/* Calls the observer's function `event`, if there is an observer. */
#define OBSERVE(S, event, ...)                                                                                         \
  do {                                                                                                                 \
    if (UNLIKELY((S)->observer != NULL)) (S)->observer->event(__VA_ARGS__);                                            \
  } while (0)

/* Tells of the new channel at index `at`. May raise. */
static inline void observe_birth(lua_State *L, Sched *S, int at) {
  if (UNLIKELY(S->births != NULL)) S->births->born(L, S, at);
}

#endif
