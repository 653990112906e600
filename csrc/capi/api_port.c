/* capi/api_port.c: ports in the C API; see runnel.h. */
#include <stdlib.h>
#include <string.h>

#include "base/loaded.h"
#include "capi/api.h"
#include "capi/hold.h"
#include "port/pump.h"

static int open_port(lua_State *L, Sched *S, Call *call) {
  Chan *ch = api_push_chan(L, call->chan);
  _Static_assert((int)RUNNEL_CLOSE_CHANNEL == (int)PUMP_CLOSES && (int)RUNNEL_QUIET == (int)PUMP_QUIET, "the same");
  if (!ch || ch->flags & CHAN_CLOSES_ITSELF) return api_code(call, RUNNEL_BAD_ARGUMENT);
  if (ch->flags & CHAN_CLOSED) return api_code(call, RUNNEL_CLOSED);
  Port *port = pump_open(L, S, API_VALUES, call->size, (unsigned)call->option);
  if (!port) return api_code(call, RUNNEL_NO_MEMORY);
  *call->port = port;
  return 0;
}

int runnel_port_open(lua_State *L, runnel_chan *ch, size_t limit, int end, runnel_port **port) {
  if (!port || limit < 1 || limit > RUNNEL_PORT_MAX) return RUNNEL_BAD_ARGUMENT;
  if (end & ~(RUNNEL_CLOSE_CHANNEL | RUNNEL_QUIET)) return RUNNEL_BAD_ARGUMENT;
  stay_loaded(); /* a thread may use the port when the state is closed */
  return api_call(L, 0, &(Call){.body = open_port, .chan = ch, .size = limit, .option = end, .port = port});
}

int runnel_port_hold(runnel_port *port) {
  if (!port) return RUNNEL_BAD_ARGUMENT;
  port_hold(port);
  return RUNNEL_OK;
}

int runnel_port_release(runnel_port *port) {
  if (!port) return RUNNEL_BAD_ARGUMENT;
  port_release(port);
  return RUNNEL_OK;
}

int runnel_port_close(runnel_port *port) {
  if (!port) return RUNNEL_BAD_ARGUMENT;
  port_close(port);
  return RUNNEL_OK;
}

int runnel_port_wait(runnel_port *port) {
  if (!port) return RUNNEL_BAD_ARGUMENT;
  return port_wait(port) ? RUNNEL_OK : RUNNEL_CLOSED;
}

static int post(runnel_port *port, const Message *message) {
  if (!port) return RUNNEL_BAD_ARGUMENT;
  static const int codes[] = {[POST_DONE] = RUNNEL_OK,
                              [POST_FULL] = RUNNEL_FULL,
                              [POST_CLOSED] = RUNNEL_CLOSED,
                              [POST_NO_MEMORY] = RUNNEL_NO_MEMORY};
  return codes[port_post(port, message)];
}

int runnel_post_boolean(runnel_port *port, int b) {
  return post(port, &(Message){.kind = MESSAGE_BOOLEAN, .as.boolean = b != 0});
}

int runnel_post_integer(runnel_port *port, lua_Integer n) {
  return post(port, &(Message){.kind = MESSAGE_INTEGER, .as.integer = n});
}

int runnel_post_number(runnel_port *port, lua_Number n) {
  return post(port, &(Message){.kind = MESSAGE_NUMBER, .as.number = n});
}

int runnel_post_bytes(runnel_port *port, const void *bytes, size_t size) {
  if (!port || (!bytes && size)) return RUNNEL_BAD_ARGUMENT;
  Message message = {.kind = MESSAGE_SMALL_BYTES, .small = (uint8_t)size};
  if (size <= MESSAGE_SMALL) {
    if (size) memcpy(message.as.small, bytes, size);
    return post(port, &message);
  }
  char *copy = (char *)malloc(size);
  if (!copy) return RUNNEL_NO_MEMORY;
  memcpy(copy, bytes, size);
  message = (Message){.kind = MESSAGE_BYTES, .as.bytes = {.start = copy, .size = size}};
  int code = post(port, &message);
  if (code != RUNNEL_OK) free(copy);
  return code; /* NOLINT(clang-analyzer-unix.Malloc): the port owns the copy now */
}

int runnel_post_call(runnel_port *port, runnel_push push, runnel_drop drop, void *data) {
  if (!push) return RUNNEL_BAD_ARGUMENT;
  return post(port, &(Message){.kind = MESSAGE_CALL, .as.call = {.push = push, .drop = drop, .data = data}});
}
