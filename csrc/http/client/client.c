/* client.c: what the thread and Lua tell each other, and the part of a body that has arrived; see client.h. */
#include "http/client/client.h"

void transfer_tell(Transfer *t) { events_add(&t->client->events, t, 1); }

void client_wake(void *data) { thread_wake(&((Client *)data)->thread); }

void client_ask(lua_State *L, Transfer *t, unsigned what) {
  Client *client = t->client;
  client_lock(client);
  bool has_ended = atomic_load(&t->has_ended), is_first = !t->asks && !has_ended;
  if (!has_ended) t->asks |= what;
  if (is_first) list_append(&client->asked, &t->asked);
  client_unlock(client);
  /* One wakeup for the requests of all ready go blocks. */
  if (is_first && client->rn->task_add(L, &client->wake) != RUNNEL_OK) client_wake(client);
}

bool transfer_waits(Transfer *t) {
  client_lock(t->client);
  t->no_receive = bytes_length(&t->body) >= ENOUGH;
  bool is_paused = t->no_receive;
  client_unlock(t->client);
  return is_paused;
}

bool transfer_keep_body(Transfer *t, const char *from, size_t size) {
  if (t->max && (curl_off_t)size > t->max - t->received) return transfer_refuse(t, REFUSED_BODY);
  t->received += (curl_off_t)size;
  transfer_allow_waste(t, size);
  if (!t->is_stream) return bytes_add(&t->body, from, size) || transfer_refuse(t, REFUSED_MEMORY);
  client_lock(t->client);
  bool is_first = bytes_length(&t->body) == 0, is_kept = bytes_add(&t->body, from, size);
  client_unlock(t->client);
  if (is_kept && is_first) transfer_tell(t);
  return is_kept || transfer_refuse(t, REFUSED_MEMORY);
}
