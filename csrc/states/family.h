/* family.h: a state and the threads that they start, which may all wait for each other for ever.

   No state can see such a deadlock alone. So a member notes when it is idle: only other threads can end its wait, since
   no timer is pending, and neither its driver nor a port expects an event. Its lists of handles and of waits do not
   change until it notes that it continues. While the first member, the main program, is idle, it looks at the others
   from time to time. It is a deadlock if only idle members hold the channels that it waits on, and these members wait
   on channels that only idle members hold, and so on.

   There are no false alarms: any thread that could still use one of these channels has a hold on it, or gets one from a
   thread that has. So a deadlock is not noticed if C code, another family, or a value in a channel's buffer also holds
   a channel.

   Nothing here uses Lua: it looks at the states of other threads. */
#ifndef RUNNEL_FAMILY_H
#define RUNNEL_FAMILY_H

#include "states/shared_wait.h"

/* Channels that a thread has besides its handles, while it runs. */
enum { MEMBER_CHANS = 3 };

typedef struct Family Family;

struct Member {
  Link link;                       /* in the family. This, and what follows `chans`, is under the family's lock */
  Family *family;                  /* with a hold; constant */
  bool is_first;                   /* it is the first member; constant */
  SharedChan *chans[MEMBER_CHANS]; /* constant; NULL: none */
  bool is_idle;                    /* only other threads can end its wait */
  const Sharing *sharing;          /* while it is idle: its state, which stays as it is */
  bool is_stuck;                   /* while the first member looks: it may be part of a deadlock */
};

/* Makes a family with its first member; NULL when memory runs out. */
Member *family_new(void);

/* Adds a member, which is not idle; NULL when memory runs out. The caller holds `chans` as long as it is a member. In
   the thread of any member. */
Member *family_add(Family *family, SharedChan *const chans[MEMBER_CHANS]);

/* Removes the member, and frees it. In its own thread, or before that has begun. */
void family_leave(Member *member);

/* Notes that the member whose state has this Sharing is idle, until family_wait_ends or shared_wait_busy is called.
   Returns for how long it may wait, in ns, before it must call family_wait_ends; -1: without limit. */
int64_t family_wait_begins(Sharing *sharing);

/* That wait has ended. `is_over`: the state has something to do. If not, the first member looks for a deadlock. Returns
   whether it is part of one. */
bool family_wait_ends(Sharing *sharing, bool is_over);

/* What a member waits for: a take from a shared channel, or a put on it. */
typedef struct MemberWait {
  bool is_put;                    /* a put */
  char name[SHARED_NAME_MAX + 1]; /* of the channel; or an empty string */
} MemberWait;

/* What the member with this owner waits for on channels that the state `own` does not have: writes at most `most` of
   these, and returns how many there are. 0 if that member is not idle. `own` is the state that asks. */
uint32_t family_waits(const Sharing *own, const Owner *owner, MemberWait *waits, uint32_t most);

#endif
