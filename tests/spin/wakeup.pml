/* wakeup.pml: how other threads wake a scheduler that sleeps on a descriptor, as in csrc/base/wakeup.c together with
   csrc/shared/owner.c, for spin. Pushers push onto the inbox, and signal if the scheduler sleeps. Posters post through a
   port, and always signal; the scheduler looks for what they have posted when a wakeup was signalled. It sleeps until
   there is a token to read.

   Checked: there is one token at most, and the scheduler gets all that was pushed and posted, so it never sleeps for ever
   with something left.

   With one of these the model has a fault, which spin must find: FORGET_COMING (a token that has not been written yet is
   not waited for), STATE_FIRST (the state is changed before the token is read), SIGNAL_FIRST (a poster signals before it
   posts), WRITE_ALWAYS (a token is written although there is one). */

#ifndef PUSHERS
#define PUSHERS 2
#endif
#ifndef POSTERS
#define POSTERS 2
#endif

mtype = { IDLE, SIGNALLED, COMING }

mtype state = IDLE;
byte tokens;     /* in the descriptor */
byte inbox;      /* pushed */
bool asleep;     /* the scheduler sleeps, or is about to */
byte posted;     /* posted, and not looked at */
byte received;

inline signal() {
  d_step { before = state; state = SIGNALLED } /* an exchange */
#ifndef WRITE_ALWAYS
  if
  :: before == IDLE ->
#endif
     d_step { tokens++; assert(tokens == 1) }
#ifndef WRITE_ALWAYS
  :: else
  fi
#endif
}

active [PUSHERS] proctype pusher() {
  mtype before;
  bool sleeping;
  inbox++;
  sleeping = asleep;
  if
  :: sleeping ->
     d_step { sleeping = asleep; asleep = false }
     if
     :: sleeping -> signal()
     :: else
     fi
  :: else
  fi
}

active [POSTERS] proctype poster() {
  mtype before;
#ifdef SIGNAL_FIRST
  signal();
  posted++
#else
  posted++;
  signal()
#endif
}

/* Sets `has_news`. */
inline consume() {
  has_news = false;
  if
  :: state == IDLE
  :: else ->
#ifdef STATE_FIRST
     d_step { before = state; state = IDLE }
     d_step { has_token = (tokens > 0); tokens = 0 }
#else
     d_step { has_token = (tokens > 0); tokens = 0 }
#ifdef FORGET_COMING
     d_step { before = state; state = IDLE }
#else
     d_step { before = state; state = (has_token -> IDLE : COMING) }
#endif
#endif
     has_news = (before == SIGNALLED)
  fi
}

active proctype scheduler() {
  mtype before;
  bool has_token, has_news;
  do
  :: received == PUSHERS + POSTERS -> break
  :: else ->
     d_step { received = received + inbox; inbox = 0 }
     if
     :: received == PUSHERS + POSTERS
     :: else ->
        asleep = true;
        if
        :: inbox > 0
        :: else -> tokens > 0 /* sleeps until the descriptor is readable */
        fi;
        asleep = false;
        consume();
        if
        :: has_news -> d_step { received = received + posted; posted = 0 }
        :: else
        fi
     fi
  od
}
