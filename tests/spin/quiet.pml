/* quiet.pml: quiet puts, as in csrc/shared/alt.c and csrc/sharing/shared_wait.c, for spin. Threads put on channels with
   buffers, quietly or not, close them, and wait; then they end, or compute for ever. Owners take from the channels and
   sleep; no timer wakes them. Every interleaving is tried.

   Checked, once nothing can happen any more: a value was taken if its put was not quiet, or if after its put its thread
   has waited or ended, or a put on the channel was not quiet, or the channel was closed. No value was taken twice. An
   owner has one hold for each channel that has it as left_asleep, and none once all threads have ended.

   One owner takes from two channels. With OWNERS=2 two take from one channel. With one of these the model has a fault,
   which spin must find: NO_WAKE_TO_WAIT, NO_WAKE_TO_END (a thread wakes nobody before it waits, or ends),
   NO_WAKE_BY_PUT, NO_WAKE_BY_CLOSE (a put that is not quiet, or a close, does not wake who was left asleep),
   FORGET_OWNER (a quiet put forgets another owner that was left asleep; needs OWNERS=2), FORGET_CHANNEL (a thread that
   puts quietly on another channel forgets the one before), FIRST_ONLY (only who pushes onto an empty inbox wakes the
   owner), TWO_HOLDS (an owner that was left asleep already gets another hold). */

#ifndef OWNERS
#define OWNERS 1
#endif
#define CHANS (3 - OWNERS)
#define THREADS 2
#define FIRST (3 - OWNERS) /* steps of the first thread; the other has one */
#define VALUES (FIRST + 1)
#define NONE 9

bool locked[CHANS];
bool closed[CHANS];
chan buffer[CHANS] = [VALUES] of { byte };      /* values */
chan takes[CHANS] = [OWNERS] of { byte };       /* owners that wait for one */
byte left_asleep[CHANS] = NONE;                 /* an owner */
chan inbox[OWNERS] = [CHANS] of { byte, byte }; /* channel, and value; or NONE, since it is closed */
bool asleep[OWNERS];
bool signalled[OWNERS];                         /* a wakeup that the owner has not seen */
byte holds[OWNERS];                             /* of channels, and of threads that are about to wake it */
byte accepted[VALUES] = NONE;                   /* the channel that has accepted it */
bool owed[VALUES];                              /* must be taken in the end */
bool taken[VALUES];
byte ended;                                     /* threads that do not compute for ever */

inline get(value) { assert(accepted[value] != NONE && !taken[value]); taken[value] = true }

/* Takes all out of the inbox. */
inline drain() {
  d_step {
    do
    :: nempty(inbox[_pid]) ->
       inbox[_pid]?c,v;
       waits[c] = false;
       if :: v != NONE -> get(v) :: else fi
    :: empty(inbox[_pid]) -> break
    od;
    c = 0; v = 0
  }
}

/* Takes a value from channel c at once; or waits for one, unless the channel is closed. */
inline take() {
  atomic {
    !locked[c] ->
    if
    :: nempty(buffer[c]) -> buffer[c]?v; get(v); v = 0
    :: empty(buffer[c]) && closed[c] -> over[c] = true
    :: empty(buffer[c]) && !closed[c] -> takes[c]!_pid; waits[c] = true
    fi
  }
}

active [OWNERS] proctype owner() {
  bool waits[CHANS], over[CHANS];
  byte c, v;
  do
  :: c = 0;
     do
     :: c == CHANS -> c = 0; break
     :: else ->
        if
        :: !waits[c] && !over[c] -> take()
        :: else -> c++
        fi
     od;
     if
     :: nempty(inbox[_pid])
     :: empty(inbox[_pid]) ->
        asleep[_pid] = true;
        if
        :: nempty(inbox[_pid])
        :: empty(inbox[_pid]) ->
end_sleep: signalled[_pid] -> signalled[_pid] = false
        fi;
        asleep[_pid] = false
     fi;
     drain()
  od
}

/* Pushes onto the inbox of owner o. Before that, the caller has changed only what the lock protects. */
inline push(what) { was_empty = empty(inbox[o]); inbox[o]!c,what }

/* After a push: sets `sleeps`, whether the owner must be woken, for which there is a hold then. */
inline look() {
#ifdef FIRST_ONLY
  sleeps = was_empty && asleep[o];
#else
  sleeps = asleep[o];
#endif
  if :: sleeps -> holds[o]++ :: else fi
}

inline note_left_asleep(x) {
  if
  :: left_asleep[x] != NONE -> to_wake[left_asleep[x]]++; left_asleep[x] = NONE
  :: else
  fi
}

/* Wakes the noted owners, without locks. */
inline finish() {
  atomic {
    o = 0; was_empty = false; sleeps = false;
    do
    :: o == OWNERS -> o = 0; break
    :: o < OWNERS && to_wake[o] == 0 -> o++
    :: o < OWNERS && to_wake[o] > 0 -> break
    od
  };
  do
  :: to_wake[o] == 0 -> break
  :: else ->
     d_step { sleeps = asleep[o]; asleep[o] = false }
     atomic {
       if :: sleeps -> signalled[o] = true :: else fi;
       assert(holds[o] > 0);
       holds[o]--; to_wake[o]--; sleeps = false; o = 0;
       do
       :: o == OWNERS -> o = 0; break
       :: o < OWNERS && to_wake[o] == 0 -> o++
       :: o < OWNERS && to_wake[o] > 0 -> break
       od
     }
  od
}

/* Wakes whom quiet puts of this thread have left asleep. */
inline end_quiet() {
  if
  :: quiet != NONE ->
     atomic { !locked[quiet] -> note_left_asleep(quiet); quiet = NONE }
     finish()
  :: else
  fi
}

/* All values of channel c are owed. */
inline owe_channel() {
  v = 0;
  do
  :: v < VALUES -> owed[v] = owed[v] || accepted[v] == c; v++
  :: else -> break
  od;
  v = 0
}

/* All values of this thread that were accepted are owed. */
inline owe_own() {
  d_step {
    v = (_pid == OWNERS -> 0 : FIRST);
    do
    :: v < step -> owed[v] = accepted[v] != NONE; v++
    :: else -> break
    od;
    v = 0
  }
}

/* The end of a put, still under the lock. */
inline end_put() {
  if
  :: is_quiet -> is_left = left_asleep[c] != NONE
  :: else ->
#ifndef NO_WAKE_BY_PUT
     note_left_asleep(c);
#endif
     owe_channel()
  fi;
  locked[c] = false
}

inline put(value) {
  atomic {
    !locked[c];
    if
    :: closed[c]
    :: !closed[c] && empty(takes[c]) -> accepted[value] = c; buffer[c]!value; end_put()
    :: !closed[c] && nempty(takes[c]) -> accepted[value] = c; locked[c] = true; takes[c]?o; push(value)
    fi
  };
  atomic {
    if
    :: !closed[c] && o != NONE ->
       look();
       if
       :: sleeps && !is_quiet -> to_wake[o]++
       :: sleeps && is_quiet ->
          if
#ifndef TWO_HOLDS
          :: left_asleep[c] == o -> holds[o]-- /* the channel has one */
#endif
          :: else ->
#ifdef FORGET_OWNER
             if :: left_asleep[c] != NONE -> holds[left_asleep[c]]-- :: else fi;
#elif !defined(TWO_HOLDS)
             note_left_asleep(c);
#endif
             left_asleep[c] = o
          fi
       :: else
       fi;
       end_put()
    :: else
    fi
  };
  finish();
  if
  :: is_left ->
#ifndef FORGET_CHANNEL
     if :: quiet != c -> end_quiet() :: else fi;
#endif
     quiet = c;
     is_left = false
  :: else
  fi
}

inline close() {
  atomic {
    !locked[c];
    if
    :: closed[c] -> skip
    :: else -> closed[c] = true; locked[c] = true; is_closing = true
    fi
  };
  do
  :: is_closing && nempty(takes[c]) ->
     atomic { takes[c]?o; push(NONE) };
     atomic { look(); if :: sleeps -> to_wake[o]++ :: else fi }
  :: is_closing && empty(takes[c]) ->
     atomic {
#ifndef NO_WAKE_BY_CLOSE
       note_left_asleep(c);
#endif
       owe_channel();
       locked[c] = false; is_closing = false
     }
  :: !is_closing -> break
  od;
  finish()
}

active [THREADS] proctype thread() {
  byte to_wake[OWNERS];
  byte step = (_pid == OWNERS -> 0 : FIRST); /* also the number of the value that it puts */
  byte last = (_pid == OWNERS -> FIRST : VALUES);
  byte c, v, o;
  byte quiet = NONE; /* the channel on which it has left somebody asleep */
  bool is_quiet, is_left, is_closing, was_empty, sleeps;
  do
  :: step < last ->
     atomic { if :: c = 0 :: CHANS > 1 -> c = CHANS - 1 fi; o = NONE };
     if
     :: is_quiet = true; put(step); is_quiet = false
     :: put(step)
     :: close()
     :: c == 0 -> /* waits */
#ifndef NO_WAKE_TO_WAIT
        end_quiet();
#endif
        owe_own()
     fi;
     atomic { c = 0; o = 0; step++ }
  :: step == last -> goto computes
  :: step == last -> break
  od;
#ifndef NO_WAKE_TO_END
  end_quiet();
#endif
  owe_own();
  ended++;
computes:
  skip
}

/* Looks once nothing can happen any more. */
active proctype judge() {
  byte i, c, n;
  timeout ->
  d_step {
    do
    :: i < VALUES -> assert(!owed[i] || taken[i]); i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < OWNERS ->
       n = 0; c = 0;
       do
       :: c < CHANS -> n = n + (left_asleep[c] == i -> 1 : 0); c++
       :: else -> break
       od;
       assert(holds[i] == n && (ended < THREADS || n == 0));
       i++
    :: else -> break
    od
  }
}
