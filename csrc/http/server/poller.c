/* poller.c: see poller.h. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): declares POLLRDHUP */
#endif
#include "http/server/poller.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/grow.h"

#if POLLER_IS_EPOLL

bool poller_open(Poller *poller) {
  poller->fd = epoll_create1(EPOLL_CLOEXEC);
  return poller->fd >= 0;
}

void poller_close(Poller *poller) {
  if (poller->fd >= 0) (void)close(poller->fd);
  poller->fd = -1;
}

static struct epoll_event event_of(PollItem *item) {
  unsigned wanted = item->wanted;
  return (struct epoll_event){.events = (wanted & POLLER_IN ? (uint32_t)EPOLLIN : 0) |
                                        (wanted & POLLER_OUT ? (uint32_t)EPOLLOUT : 0) |
                                        (wanted & POLLER_HALF ? (uint32_t)EPOLLRDHUP : 0),
                              .data.ptr = item};
}

bool poller_add(Poller *poller, PollItem *item, int fd, unsigned wanted) {
  *item = (PollItem){.fd = fd, .wanted = wanted};
  struct epoll_event event = event_of(item);
  return epoll_ctl(poller->fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

void poller_want(Poller *poller, PollItem *item, unsigned wanted) {
  if (item->wanted == wanted || item->fd < 0) return;
  item->wanted = wanted;
  struct epoll_event event = event_of(item);
  (void)epoll_ctl(poller->fd, EPOLL_CTL_MOD, item->fd, &event);
}

void poller_remove(Poller *poller, PollItem *item) {
  if (item->fd < 0) return;
  struct epoll_event event = {.events = 0};
  (void)epoll_ctl(poller->fd, EPOLL_CTL_DEL, item->fd, &event);
  item->fd = -1;
}

int poller_wait(Poller *poller, int ms) {
  return epoll_wait(poller->fd, poller->ready, sizeof poller->ready / sizeof *poller->ready, ms);
}

PollItem *poller_ready(Poller *poller, int i, unsigned *bits) {
  const struct epoll_event *event = &poller->ready[i];
  *bits = (event->events & EPOLLIN ? POLLER_IN : 0u) | (event->events & EPOLLOUT ? POLLER_OUT : 0u) |
          (event->events & EPOLLRDHUP ? POLLER_HALF : 0u) | (event->events & EPOLLHUP ? POLLER_SHUT : 0u) |
          (event->events & EPOLLERR ? POLLER_GONE : 0u);
  return (PollItem *)event->data.ptr;
}

#else

#ifndef POLLRDHUP
#define POLLRDHUP 0
#endif

bool poller_open(Poller *poller) {
  (void)poller;
  return true;
}

void poller_close(Poller *poller) {
  free(poller->fds);
  free(poller->items);
  *poller = (Poller){0};
}

static short events_of(unsigned wanted) {
  return (short)((wanted & POLLER_IN ? POLLIN : 0) | (wanted & POLLER_OUT ? POLLOUT : 0) |
                 (wanted & POLLER_HALF ? POLLRDHUP : 0));
}

bool poller_add(Poller *poller, PollItem *item, int fd, unsigned wanted) {
  *item = (PollItem){.fd = fd, .wanted = wanted, .at = poller->n};
  struct pollfd *fds = (struct pollfd *)grow(poller->fds, &poller->room, poller->n + 1, sizeof *fds);
  if (fds) poller->fds = fds;
  PollItem **items = (PollItem **)grow(poller->items, &poller->more_room, poller->n + 1, sizeof *items);
  if (items) poller->items = items;
  if (!fds || !items) return false;
  fds[poller->n] = (struct pollfd){.fd = fd, .events = events_of(wanted)};
  items[poller->n++] = item;
  return true;
}

void poller_want(Poller *poller, PollItem *item, unsigned wanted) {
  if (item->fd < 0) return;
  item->wanted = wanted;
  poller->fds[item->at].events = events_of(wanted);
}

void poller_remove(Poller *poller, PollItem *item) {
  if (item->fd < 0) return;
  poller->fds[item->at].fd = item->fd = -1;
  poller->items[item->at] = NULL;
}

/* Fills the gaps that removed items have left. */
static void compact(Poller *poller) {
  size_t n = 0;
  for (size_t i = 0; i < poller->n; i++) {
    if (!poller->items[i]) continue;
    poller->fds[n] = poller->fds[i];
    poller->items[n] = poller->items[i];
    poller->items[n]->at = n;
    n++;
  }
  poller->n = n;
}

int poller_wait(Poller *poller, int ms) {
  compact(poller);
  return poll(poller->fds, (nfds_t)poller->n, ms) > 0 ? (int)poller->n : 0;
}

PollItem *poller_ready(Poller *poller, int i, unsigned *bits) {
  int events = poller->fds[i].revents;
  *bits = (events & POLLIN ? POLLER_IN : 0u) | (events & POLLOUT ? POLLER_OUT : 0u) |
          (events & POLLRDHUP ? POLLER_HALF : 0u) | (events & POLLHUP ? POLLER_SHUT : 0u) |
          (events & (POLLERR | POLLNVAL) ? POLLER_GONE : 0u);
  return *bits ? poller->items[i] : NULL;
}

#endif
