/* reader.c: see reader.h. */
#include "port/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __linux__

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>

/* How many descriptors are handled at a time. */
enum { AT_ONCE = 16 };

struct ReaderSet {
  WakeupSet base;                     /* how the wakeup sees it */
  pthread_mutex_t lock;               /* guards the rest, and Reader.fd; never held while `ready` is called */
  List watching;                      /* the readers that wait for a descriptor */
  struct epoll_event events[AT_ONCE]; /* what is ready, and */
  int count, next;                    /* how many of these there are, and which is handled next */
  atomic_int error;                   /* of the last reader_watch that has failed, until it is taken */
};

/* Adds a descriptor, or changes what it is waited for (`how`). The reader is NULL for the token. */
static bool set_up(int set, int how, int fd, Reader *reader) {
  struct epoll_event event = {.events = !reader || reader->events & READER_READ ? EPOLLIN : 0, .data.ptr = reader};
  if (reader && reader->events & READER_WRITE) event.events |= EPOLLOUT;
  return epoll_ctl(set, how, fd, &event) == 0;
}

/* The next reader whose descriptor is ready, or NULL. One that has stopped waiting is not among them any more. */
static Reader *next_ready(ReaderSet *set) {
  Reader *reader = NULL;
  (void)pthread_mutex_lock(&set->lock);
  while (!reader && set->next < set->count) reader = (Reader *)set->events[set->next++].data.ptr; /* NULL: the token */
  (void)pthread_mutex_unlock(&set->lock);
  return reader;
}

/* WakeupSet.call */
static bool call_ready(WakeupSet *base) {
  ReaderSet *set = CONTAINER_OF(base, ReaderSet, base);
  (void)pthread_mutex_lock(&set->lock);
  set->next = 0;
  set->count = epoll_wait(base->fd, set->events, AT_ONCE, 0);
  (void)pthread_mutex_unlock(&set->lock);
  bool has_called = false;
  for (Reader *reader; (reader = next_ready(set)) != NULL; has_called = true) reader->ready(reader->data);
  return has_called;
}

/* Forgets that the descriptor of the reader was found ready, under the lock. */
static void forget(ReaderSet *set, const Reader *reader) {
  for (int i = set->next; i < set->count; i++) {
    if (set->events[i].data.ptr == reader) set->events[i].data.ptr = NULL;
  }
}

/* Takes the reader out of the set, under its lock. Its descriptor may be closed already: then the system has. */
static void stop_watching(ReaderSet *set, Reader *reader) {
  if (reader->fd < 0) return;
  (void)epoll_ctl(set->base.fd, EPOLL_CTL_DEL, reader->fd, &(struct epoll_event){0});
  list_remove(&set->watching, &reader->link);
  forget(set, reader);
  reader->fd = -1;
}

int reader_watch(Reader *reader, int fd, unsigned events) {
  ReaderSet *set = reader->set;
  int error = 0;
  wakeup_own(reader->wakeup);
  (void)pthread_mutex_lock(&set->lock);
  if (events != reader->events) forget(set, reader);
  reader->events = events;
  /* The same number may be another descriptor by now. */
  bool is_same = fd >= 0 && fd == reader->fd && set_up(set->base.fd, EPOLL_CTL_MOD, fd, reader);
  if (!is_same) {
    stop_watching(set, reader);
    if (fd >= 0 && set_up(set->base.fd, EPOLL_CTL_ADD, fd, reader)) {
      reader->fd = fd;
      list_append(&set->watching, &reader->link);
    } else if (fd >= 0) {
      error = errno;
      atomic_store(&set->error, error);
    }
  }
  (void)pthread_mutex_unlock(&set->lock);
  return error;
}

/* WakeupSet.renew: in the child of a fork, where there is one thread only. The parent's set stays as it is. */
static void renew(WakeupSet *base, int token) {
  ReaderSet *set = CONTAINER_OF(base, ReaderSet, base);
  (void)pthread_mutex_init(&set->lock, NULL); /* a thread of the parent may have held it */
  int fd = epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0 || !wakeup_replace(fd, base->fd)) return;
  set->count = 0;
  (void)set_up(base->fd, EPOLL_CTL_ADD, token, NULL);
  for (Link *link = set->watching.first; link; link = list_next(&set->watching, link)) {
    Reader *reader = CONTAINER_OF(link, Reader, link);
    (void)set_up(base->fd, EPOLL_CTL_ADD, reader->fd, reader); /* fails if the child has closed it */
  }
}

/* WakeupSet.free */
static void free_set(WakeupSet *base) {
  ReaderSet *set = CONTAINER_OF(base, ReaderSet, base);
  (void)close(base->fd);
  (void)pthread_mutex_destroy(&set->lock);
  free(set);
}

ReaderSet *readers_of(Wakeup *wakeup) {
  WakeupSet *present = wakeup_more(wakeup)->set;
  if (present) return CONTAINER_OF(present, ReaderSet, base);
  if (wakeup_more(wakeup)->is_kept) return NULL;
  ReaderSet *set = (ReaderSet *)calloc(1, sizeof *set);
  int fd = set ? epoll_create1(EPOLL_CLOEXEC) : -1;
  if (fd < 0 || !set_up(fd, EPOLL_CTL_ADD, wakeup_fd(wakeup), NULL)) {
    if (fd >= 0) (void)close(fd); /* uncovered: no memory */
    free(set);
    return NULL;
  }
  set->base = (WakeupSet){.fd = fd, .call = call_ready, .renew = renew, .free = free_set};
  (void)pthread_mutex_init(&set->lock, NULL);
  wakeup_more(wakeup)->set = &set->base;
  return set;
}

int readers_take_error(Wakeup *wakeup) {
  WakeupSet *base = wakeup_more(wakeup)->set;
  return base ? atomic_exchange(&CONTAINER_OF(base, ReaderSet, base)->error, 0) : 0;
}

#else

ReaderSet *readers_of(Wakeup *wakeup) {
  (void)wakeup;
  return NULL;
}

int reader_watch(Reader *reader, int fd, unsigned events) {
  (void)events;
  return fd == reader->fd ? 0 : ENOSYS;
}

int readers_take_error(Wakeup *wakeup) {
  (void)wakeup;
  return 0;
}

#endif

int readers_lasting_fd(Wakeup *wakeup) {
  (void)readers_of(wakeup);
  wakeup_more(wakeup)->is_kept = true;
  return wakeup_fd(wakeup);
}
