/* client.c: wakeups of the thread and of Lua; see client.h. */
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
