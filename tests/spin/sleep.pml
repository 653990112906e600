/* sleep.pml: how a scheduler sleeps and others wake it, as in csrc/shared/owner.c, for spin. Pushers each push one alt onto
   the inbox; the owner takes them out and sleeps while there are none. Checked: the owner gets all of them, so it never
   sleeps for ever with something in its inbox.

   With one of these the model has a fault, which spin must find: NO_SECOND_LOOK (the owner does not look at the inbox again
   once it has said that it sleeps), LOOK_FIRST (a pusher looks whether the owner sleeps before it pushes). */

#ifndef PUSHERS
#define PUSHERS 3
#endif

byte inbox;      /* alts in it */
bool asleep;     /* the owner sleeps, or is about to */
byte bell;       /* wakeups that the owner has not seen */
byte received;

active [PUSHERS] proctype pusher() {
  bool sleeping;
#ifdef LOOK_FIRST
  sleeping = asleep;
#endif
  inbox++;
#ifndef LOOK_FIRST
  sleeping = asleep;
#endif
  if
  :: sleeping ->
     d_step { sleeping = asleep; asleep = false } /* an exchange */
     if
     :: sleeping -> bell++
     :: else
     fi
  :: else
  fi
}

active proctype owner() {
  do
  :: received == PUSHERS -> break
  :: else ->
     d_step { received = received + inbox; inbox = 0 }
     if
     :: received == PUSHERS -> skip
     :: else ->
        asleep = true;
#ifndef NO_SECOND_LOOK
        if
        :: inbox > 0 -> skip
        :: else ->
#endif
        bell > 0 -> bell = 0
#ifndef NO_SECOND_LOOK
        fi
#endif
        ;
        asleep = false
     fi
  od
}
