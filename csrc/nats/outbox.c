/* outbox.c: messages published while the connection is lost. libnats holds the connection's lock while it connects
   anew, so a publish would block the Lua thread until a silent server answers. Instead the messages wait here; libnats'
   thread that reports the new connection sends them. */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "nats/conn.h"

/* About how many bytes a message takes beside its subjects and its payload. */
enum { MESSAGE_SIZE = 128 };

/* How many bytes of the limit a message counts. */
static size_t size_of(natsMsg *msg) {
  const char *reply = natsMsg_GetReply(msg);
  return MESSAGE_SIZE + strlen(natsMsg_GetSubject(msg)) + (reply ? strlen(reply) : 0) +
         (size_t)natsMsg_GetDataLength(msg);
}

void outbox_open(Outbox *outbox) {
  atomic_init(&outbox->is_lost, false);
  (void)pthread_mutex_init(&outbox->lock, NULL);
}

void outbox_free(Outbox *outbox) {
  for (size_t i = 0; i < outbox->count; i++) natsMsg_Destroy(outbox->messages[i]);
  free((void *)outbox->messages);
  (void)pthread_mutex_destroy(&outbox->lock);
}

void outbox_lost(Outbox *outbox) {
  (void)pthread_mutex_lock(&outbox->lock);
  atomic_store(&outbox->is_lost, true);
  (void)pthread_mutex_unlock(&outbox->lock);
}

void outbox_send(Outbox *outbox, natsConnection *nc) {
  for (;;) {
    (void)pthread_mutex_lock(&outbox->lock);
    natsMsg **messages = outbox->messages;
    size_t count = outbox->count;
    outbox->messages = NULL;
    outbox->count = outbox->capacity = outbox->bytes = 0;
    if (count == 0) atomic_store(&outbox->is_lost, false); /* from here on the Lua thread sends directly */
    (void)pthread_mutex_unlock(&outbox->lock);
    for (size_t i = 0; i < count; i++) {
      (void)natsConnection_PublishMsg(nc, messages[i]);
      natsMsg_Destroy(messages[i]);
    }
    free((void *)messages);
    if (count == 0) return;
  }
}

natsStatus outbox_keep(Outbox *outbox, natsMsg *msg, bool *kept) {
  natsStatus s = NATS_OK;
  size_t size = size_of(msg);
  (void)pthread_mutex_lock(&outbox->lock);
  *kept = false;
  if (atomic_load(&outbox->is_lost)) {
    size_t needed = outbox->count + 1;
    bool fits = size <= outbox->limit - outbox->bytes;
    natsMsg **messages =
        fits ? (natsMsg **)grow((void *)outbox->messages, &outbox->capacity, needed, sizeof(void *)) : NULL;
    s = messages ? NATS_OK : fits ? NATS_NO_MEMORY : NATS_INSUFFICIENT_BUFFER;
    if (messages) {
      messages[outbox->count++] = msg;
      outbox->messages = messages;
      outbox->bytes += size;
      *kept = true;
    }
  }
  (void)pthread_mutex_unlock(&outbox->lock);
  return s;
}

size_t outbox_bytes(Outbox *outbox) {
  (void)pthread_mutex_lock(&outbox->lock);
  size_t bytes = outbox->bytes;
  (void)pthread_mutex_unlock(&outbox->lock);
  return bytes;
}
