/* loader.h: threads that read parts of files which are not in memory, so that a slow disk holds up no connection but
   those that need it. They are started when there is something to read. Knows no connections. */
#ifndef RUNNEL_HTTP_LOADER_H
#define RUNNEL_HTTP_LOADER_H

#include <pthread.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/wakeup.h"
#include "http/server/part.h"

/* How many bytes are read at a time, and by how many threads. */
enum { LOAD_BLOCK = 64 * 1024, LOADERS = 4 };

/* A piece of a file, which is read or waits to be. */
typedef struct Load {
  Link link;   /* in Loader.wanted or .done, or in neither while a thread reads */
  void *owner; /* who wants it; NULL: nobody any more. Used by the thread that owns the loader */
  Part part;   /* the file, and what is left of it; owned */
  Bytes bytes; /* what was read */
  int error;   /* 0; or why it was not: an error number, or -1 if the file has ended before */
} Load;

/* The fields are zero until the first loader_add; then `lock` guards those from `wanted` on. */
typedef struct Loader {
  bool is_open;           /* the next two exist */
  pthread_mutex_t lock;   /* of all threads */
  pthread_cond_t news;    /* there is more in `wanted`, or the threads are to end */
  Wakeup *wakeup;         /* wakes the thread that owns the loader; without a reference */
  List wanted;            /* Load.link */
  List done;              /* Load.link */
  unsigned nwanted;       /* in `wanted` */
  unsigned nidle;         /* threads that wait */
  unsigned nthreads;      /* threads in `ids` */
  bool ends;              /* the threads are to end */
  pthread_t ids[LOADERS]; /* of the threads */
} Loader;

/* Begins to read the next bytes of a part, which it takes over: `part` is none afterwards. `wakeup` is woken when
   loader_take has the result. Returns NULL if there is no memory or no thread; the part is the caller's then. */
Load *loader_add(Loader *loader, Wakeup *wakeup, void *owner, Part *part);

/* The next piece that was read, or NULL. Pass it to load_free. */
Load *loader_take(Loader *loader);

/* Frees a piece, and closes its part unless it was taken out. */
void load_free(Load *load);

/* Ends the threads, which may have to wait for a disk, and frees all pieces. */
void loader_close(Loader *loader);

#endif
