/* body.c: the part of a response's body that has arrived, decompressed; see client.h. */
#include "http/client/client.h"

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
