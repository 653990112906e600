/* shared.pml: the protocol of csrc/shared/shared_chan.c, for spin: threads that each do alts of two operations over two
   channels, in any order and mixture, give up while they wait, and close a channel. Every interleaving is tried.

   Checked: no two threads wait for each other's lock for ever; a waiting alt is completed at most once; on a channel that is
   not locked no active put meets an active take of another alt, and no active take waits where there is a value or the
   channel is closed; in the end each value accepted has been taken or is in a buffer.

   BUFFER is the size of the second channel's buffer (0 or 1); ROUNDS the alts of each thread. With one of these the model has
   a fault, which spin must find: GIVEN_ORDER (locks in the order of the operations), NO_SWAP (an alt is claimed by a read and
   a write), LEFT_BEHIND (waiters stay in the queues), ONE_AT_A_TIME (only one channel is locked at a time). */

#ifndef THREADS
#define THREADS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef BUFFER
#define BUFFER 0
#endif

mtype = { IDLE, ACTIVE, COMMITTED, GONE }

bool locked[2];
bool closed[2];
byte buffered;                        /* values in the second channel's buffer */
chan puts[2] = [8] of { byte, byte }; /* waiters: thread, operation */
chan takes[2] = [8] of { byte, byte };
mtype state[THREADS] = IDLE;
bool inbox[THREADS];                  /* the thread's alt is in its inbox */
byte result[THREADS];                 /* the operation that completed it */
bool ok[THREADS];                     /* it put or took a value */
byte accepted, taken;                 /* values, by the threads' own books */
byte ended;                           /* threads that have ended */

inline lock(c) { atomic { !locked[c] -> locked[c] = true } }

inline check(c) {
  d_step {
    byte x = 0;
    do
    :: x < THREADS ->
       if
       :: state[x] == ACTIVE && takes[c]??[eval(x), _] ->
          assert(!closed[c]);
          assert(c == 0 || buffered == 0);
          byte y = 0;
          do
          :: y < THREADS -> assert(y == x || state[y] != ACTIVE || !puts[c]??[eval(y), _]); y++
          :: else -> break
          od
       :: else
       fi;
       x++
    :: else -> break
    od;
    x = 0; y = 0
  }
}

inline unlock(c) { check(c); locked[c] = false }

/* Sets `won`: whether the alt was active, and is now in the new state. */
inline claim(a, new) {
#ifdef NO_SWAP
  won = (state[a] == ACTIVE);
  if
  :: won -> state[a] = new
  :: else
  fi
#else
  d_step { won = (state[a] == ACTIVE); if :: won -> state[a] = new :: else fi }
#endif
}

/* Completes the first active waiter of a queue; `won` says whether there was one. */
inline complete_first(queue, good) {
  won = false;
  do
  :: !won && nempty(queue) ->
     queue?a, o;
     claim(a, COMMITTED)
  :: else -> break
  od;
  if
  :: won -> assert(!inbox[a]); result[a] = o; ok[a] = good; inbox[a] = true
  :: else
  fi;
  a = 0; o = 0
}

/* Tries one operation on a locked channel: sets `done`, and `good` where a value has passed. */
inline try_put(c) {
  if
  :: closed[c] -> done = true; good = false
  :: else ->
     complete_first(takes[c], true);
     if
     :: won -> done = true; good = true
     :: else ->
        if
        :: c == 1 && buffered < BUFFER -> buffered++; done = true; good = true
        :: else
        fi
     fi
  fi
}

inline try_take(c) {
  if
  :: c == 1 && buffered > 0 ->
     complete_first(puts[c], true);
     if
     :: won                 /* its value fills the place */
     :: else -> buffered--
     fi;
     done = true; good = true
  :: else ->
     complete_first(puts[c], true);
     if
     :: won -> done = true; good = true
     :: else ->
        if
        :: closed[c] -> done = true; good = false
        :: else
        fi
     fi
  fi
}

inline try(c, put) {
  if
  :: put -> try_put(c)
  :: else -> try_take(c)
  fi
}

inline enqueue(c, put, op) {
  if
  :: put -> puts[c]!_pid,op
  :: else -> takes[c]!_pid,op
  fi
}

inline dequeue(c, op) {
  lock(c);
#ifndef LEFT_BEHIND
  d_step {
    if :: puts[c]??[eval(_pid), op] -> puts[c]??eval(_pid), op :: else fi;
    if :: takes[c]??[eval(_pid), op] -> takes[c]??eval(_pid), op :: else fi
  }
#endif
  unlock(c)
}

/* The operation is in no queue. */
inline check_left(c, op) { assert(!puts[c]??[eval(_pid), op] && !takes[c]??[eval(_pid), op]) }

/* Counts what an operation has brought. */
inline book(put) {
  d_step { if :: good && put -> accepted++ :: good && !put -> taken++ :: else fi }
}

active [THREADS] proctype thread() {
  byte c[2]; bool put[2];
  byte round, a, o, first, second;
  bool won, done, good;
  do
  :: round < ROUNDS ->
     round++;
     if :: c[0] = 0 :: c[0] = 1 fi;
     if :: c[1] = 0 :: c[1] = 1 fi;
     if :: put[0] = true :: put[0] = false fi;
     if :: put[1] = true :: put[1] = false fi;
#if defined(GIVEN_ORDER) || defined(ONE_AT_A_TIME)
     first = c[0]; second = c[1];
#else
     d_step { first = (c[0] < c[1] -> c[0] : c[1]); second = (c[0] < c[1] -> c[1] : c[0]) }
#endif
     done = false; good = false;
     lock(first);
#ifndef ONE_AT_A_TIME
     if :: second != first -> lock(second) :: else fi;
#endif
     try(c[0], put[0]);
     if
     :: done -> book(put[0])
     :: else ->
#ifdef ONE_AT_A_TIME
        unlock(first); lock(second);
#endif
        try(c[1], put[1]);
        if
        :: done -> book(put[1])
        :: else
        fi
     fi;
     if
     :: done
     :: else ->
        state[_pid] = ACTIVE;
#ifdef ONE_AT_A_TIME
        unlock(second); lock(first);
        enqueue(c[0], put[0], 0);
        unlock(first); lock(second);
        enqueue(c[1], put[1], 1)
#else
        enqueue(c[0], put[0], 0);
        enqueue(c[1], put[1], 1)
#endif
     fi;
#ifdef ONE_AT_A_TIME
     if :: locked[first] && done -> unlock(first) :: else -> unlock(second) fi;
#else
     if :: second != first -> unlock(second) :: else fi;
     unlock(first);
#endif
     if
     :: done
     :: else ->
        if
        :: inbox[_pid]                          /* it came */
        :: true -> claim(_pid, GONE);           /* or it gives up, which may be too late */
           if
           :: won -> skip
           :: else -> inbox[_pid]
           fi
        fi;
        if
        :: state[_pid] == COMMITTED ->
           assert(inbox[_pid]);
           good = ok[_pid];
           book(put[result[_pid]])
        :: else -> assert(!inbox[_pid])
        fi;
        /* Who completes an operation takes it out of its queue: only the others are left. */
        if :: state[_pid] == COMMITTED && result[_pid] == 0 -> check_left(c[0], 0) :: else -> dequeue(c[0], 0) fi;
        if :: state[_pid] == COMMITTED && result[_pid] == 1 -> check_left(c[1], 1) :: else -> dequeue(c[1], 1) fi;
        assert(state[_pid] != ACTIVE);
        d_step { inbox[_pid] = false; ok[_pid] = false; result[_pid] = 0; state[_pid] = IDLE }
     fi
  :: else -> break
  od;
  ended++
}

active proctype closer() {
  byte c, a, o; bool won;
  select(c : 0..1);
  lock(c);
  closed[c] = true;
  do
  :: complete_first(takes[c], false);
     if :: won :: else -> break fi
  od;
  unlock(c)
}

active proctype judge() {
  ended == THREADS -> assert(accepted == taken + buffered)
}
