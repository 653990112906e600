/* port.c: see port.h. */
#include "port/port.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/grow.h"

typedef struct Messages {
  Message *items;  /* from malloc */
  size_t count;    /* how many there are */
  size_t capacity; /* the number that the memory has room for */
} Messages;

struct runnel_port {
  atomic_uint holds;       /* posters' holds, and the scheduler's */
  Wakeup *wakeup;          /* the scheduler's */
  size_t limit;            /* the most messages that are posted and not delivered */
  atomic_size_t under_way; /* the number of these; grows under the lock only */

  pthread_mutex_t lock; /* guards the fields from here to the inbox */
  pthread_cond_t room;  /* there is room again, or the port has closed */
  unsigned posters;     /* posters' holds */
  bool closed;          /* the port refuses posts */
  bool will_look;       /* the scheduler was signalled, or delivers messages: it will check the inbox */
  Messages inbox;       /* what has been posted and not taken */

  Messages outbox; /* what the scheduler's thread has taken from the inbox; this and `first` are used there only */
  size_t first;    /* position of the oldest message in the outbox */
};

void message_drop(Message *message) {
  if (message->kind == MESSAGE_BYTES) free(message->as.bytes.start);
  else if (message->kind == MESSAGE_CALL && message->as.call.drop) message->as.call.drop(message->as.call.data);
  message->kind = MESSAGE_NONE;
}

Port *port_new(Wakeup *wakeup, size_t limit) {
  Port *port = (Port *)calloc(1, sizeof *port);
  if (!port) return NULL;
  atomic_init(&port->holds, 2);
  atomic_init(&port->under_way, 0);
  port->wakeup = wakeup_hold(wakeup);
  port->limit = limit;
  port->posters = 1;
  port->will_look = true; /* the pump begins by checking the inbox */
  (void)pthread_mutex_init(&port->lock, NULL);
  (void)pthread_cond_init(&port->room, NULL);
  return port;
}

/* Removes one of the holds; the last one frees the port. */
static void unhold(Port *port) {
  if (atomic_fetch_sub_explicit(&port->holds, 1, memory_order_acq_rel) > 1) return;
  wakeup_release(port->wakeup);
  (void)pthread_cond_destroy(&port->room);
  (void)pthread_mutex_destroy(&port->lock);
  free(port->inbox.items);
  free(port->outbox.items);
  free(port);
}

/* ---- posters ---- */

void port_hold(Port *port) {
  atomic_fetch_add_explicit(&port->holds, 1, memory_order_relaxed);
  (void)pthread_mutex_lock(&port->lock);
  port->posters++;
  (void)pthread_mutex_unlock(&port->lock);
}

void port_release(Port *port) {
  (void)pthread_mutex_lock(&port->lock);
  bool last = --port->posters == 0;
  (void)pthread_mutex_unlock(&port->lock);
  if (last) port_close(port);
  unhold(port);
}

/* Appends a message; false if there is no memory. */
static bool append(Messages *messages, const Message *message) {
  Message *items = (Message *)grow(messages->items, &messages->capacity, messages->count + 1, sizeof *items);
  if (!items) return false;
  messages->items = items;
  messages->items[messages->count++] = *message;
  return true;
}

PostResult port_post(Port *port, const Message *message) {
  PostResult result = POST_DONE;
  bool signal = false;
  (void)pthread_mutex_lock(&port->lock);
  if (port->closed) {
    result = POST_CLOSED;
  } else if (atomic_load_explicit(&port->under_way, memory_order_relaxed) >= port->limit) {
    result = POST_FULL;
  } else if (!append(&port->inbox, message)) {
    result = POST_NO_MEMORY;
  } else {
    atomic_fetch_add_explicit(&port->under_way, 1, memory_order_relaxed);
    signal = !port->will_look;
    port->will_look = true;
  }
  (void)pthread_mutex_unlock(&port->lock);
  if (signal) wakeup_signal(port->wakeup);
  return result;
}

bool port_wait(Port *port) {
  (void)pthread_mutex_lock(&port->lock);
  if (atomic_load(&port->under_way) >= port->limit) {
    while (!port->closed && atomic_load(&port->under_way) > port->limit / 2)
      (void)pthread_cond_wait(&port->room, &port->lock);
  }
  bool open = !port->closed;
  (void)pthread_mutex_unlock(&port->lock);
  return open;
}

void port_close(Port *port) {
  (void)pthread_mutex_lock(&port->lock);
  bool signal = !port->closed; /* even if will_look: after this signal the scheduler stops keeping the pump alive */
  port->closed = port->will_look = true;
  (void)pthread_cond_broadcast(&port->room);
  (void)pthread_mutex_unlock(&port->lock);
  if (signal) wakeup_signal(port->wakeup);
}

bool port_is_closed(Port *port) {
  (void)pthread_mutex_lock(&port->lock);
  bool closed = port->closed;
  (void)pthread_mutex_unlock(&port->lock);
  return closed;
}

/* ---- the scheduler's thread ---- */

Message *port_first(Port *port, bool *closed) {
  if (port->first == port->outbox.count) {
    port->first = port->outbox.count = 0;
    (void)pthread_mutex_lock(&port->lock);
    Messages emptied = port->outbox;
    port->outbox = port->inbox;
    port->inbox = emptied;
    *closed = port->closed;
    port->will_look = port->outbox.count > 0;
    (void)pthread_mutex_unlock(&port->lock);
    if (!port->outbox.count) return NULL;
  }
  return &port->outbox.items[port->first];
}

void port_delivered(Port *port) {
  port->first++;
  if (atomic_fetch_sub(&port->under_way, 1) != port->limit / 2 + 1) return;
  (void)pthread_mutex_lock(&port->lock); /* so that no poster is between its check and its wait */
  (void)pthread_cond_broadcast(&port->room);
  (void)pthread_mutex_unlock(&port->lock);
}

bool port_has_news(Port *port) {
  (void)pthread_mutex_lock(&port->lock);
  bool will_look = port->will_look;
  (void)pthread_mutex_unlock(&port->lock);
  return will_look;
}

void port_shut(Port *port) {
  (void)pthread_mutex_lock(&port->lock);
  port->closed = true;
  Messages inbox = port->inbox;
  port->inbox = (Messages){0};
  (void)pthread_cond_broadcast(&port->room);
  (void)pthread_mutex_unlock(&port->lock);
  for (; port->first < port->outbox.count; port->first++) message_drop(&port->outbox.items[port->first]);
  for (size_t i = 0; i < inbox.count; i++) message_drop(&inbox.items[i]);
  free(inbox.items);
  unhold(port);
}
