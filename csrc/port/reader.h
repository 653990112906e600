/* reader.h: functions of C modules that the scheduler's thread calls while a descriptor can be read, or written. Knows
   no Lua.

   Their descriptors, and the wakeup's own, are in a set (epoll), whose descriptor the scheduler waits for instead. */
#ifndef RUNNEL_READER_H
#define RUNNEL_READER_H

#include "base/list.h"
#include "base/wakeup.h"

typedef struct ReaderSet ReaderSet;

typedef enum ReaderEvent { READER_READ = 1, READER_WRITE = 2 } ReaderEvent;

typedef struct runnel_reader {
  void (*ready)(void *data); /* called by wakeup_consume; may signal the wakeup, and change, close and open readers */
  void *data;                /* for `ready` */
  Wakeup *wakeup;            /* with a reference; readers_open has returned true */
  ReaderSet *set;            /* the wakeup's */
  Link link;                 /* in ReaderSet.watching while it waits for a descriptor */
  int fd;                    /* the descriptor that it waits for; -1: none */
  unsigned events;           /* until that can be read or written: of ReaderEvent */
} Reader;                    /* the other name is that of the C API */

/* The wakeup's set, made if there is none; NULL if there can be none: on systems other than Linux, or after
   readers_lasting_fd could make none. The scheduler's thread only. */
ReaderSet *readers_of(Wakeup *wakeup);

/* wakeup_fd, which from now on stays the same: if need be, there will be no readers. The scheduler's thread only. */
int readers_lasting_fd(Wakeup *wakeup);

/* Makes the reader wait for another descriptor, or for none: -1; until it can be read or written, as `events` says.
   Returns 0, or an error number: then it waits for none. Any thread, one at a time for each reader; before the present
   descriptor is closed. Afterwards `ready` is not called for the present one; in another thread than the scheduler's,
   it may be in the middle of a call. */
int reader_watch(Reader *reader, int fd, unsigned events);

/* Why the last reader_watch that has failed has failed: an error number, once; or 0. */
int readers_take_error(Wakeup *wakeup);

#endif
