/* capi/api_shared.c: shared channels in the C API; see runnel.h. */
#include <stdlib.h>
#include <string.h>

#include "capi/api.h"
#include "shared/blocking.h"
#include "states/shared_pack.h"

/* A reference is the channel itself, with a hold. */
static SharedChan *chan_of(runnel_shared *shared) { return (SharedChan *)(void *)shared; }
static runnel_shared *reference_to(SharedChan *chan) { return (runnel_shared *)(void *)chan; }

int runnel_shared_new(int kind, size_t size, runnel_shared **shared) {
  Buffer buffer;
  if (!shared || !api_set_buffer(&buffer, kind, size)) return RUNNEL_BAD_ARGUMENT;
  SharedChan *made = shared_chan_new((BufferKind)buffer.kind, buffer.limit, NULL);
  if (!made) return RUNNEL_NO_MEMORY;
  *shared = reference_to(made);
  return RUNNEL_OK;
}

static int get_shared(lua_State *L, Sched *S, Call *call) {
  (void)S;
  const Chan *ch = chan_to(L, API_VALUES);
  SharedChan *shared = ch && chan_is_shared(ch) ? shared_handle_get(ch) : NULL;
  if (!shared) return api_code(call, RUNNEL_BAD_ARGUMENT);
  shared_handle_promote(L, ch);
  *call->held = reference_to(shared_chan_hold(shared));
  return 0;
}

int runnel_shared_get(lua_State *L, int index, runnel_shared **shared) {
  return shared ? api_call_with(L, index, &(Call){.body = get_shared, .held = shared}) : RUNNEL_BAD_ARGUMENT;
}

static int push_shared(lua_State *L, Sched *S, Call *call) {
  shared_handle_push(L, S, call->shared);
  return 1;
}

int runnel_shared_push(lua_State *L, runnel_shared *shared) {
  if (!shared) return RUNNEL_BAD_ARGUMENT;
  return api_call(L, 0, &(Call){.body = push_shared, .shared = chan_of(shared)});
}

int runnel_shared_hold(runnel_shared *shared) {
  if (!shared) return RUNNEL_BAD_ARGUMENT;
  (void)shared_chan_hold(chan_of(shared));
  return RUNNEL_OK;
}

int runnel_shared_release(runnel_shared *shared) {
  if (!shared) return RUNNEL_BAD_ARGUMENT;
  shared_chan_release(chan_of(shared));
  return RUNNEL_OK;
}

int runnel_shared_close(runnel_shared *shared, const char *reason) {
  if (!shared) return RUNNEL_BAD_ARGUMENT;
  SharedValue value = {.kind = SHARED_NIL};
  if (reason && !shared_value_set_string(&value, reason, strlen(reason), NULL)) return RUNNEL_NO_MEMORY;
  shared_close(chan_of(shared), value);
  return RUNNEL_OK;
}

/* BLOCKING_TIME is a put that has found no room. */
static const int CODES[] = {[BLOCKING_DONE] = RUNNEL_OK,
                            [BLOCKING_TIME] = RUNNEL_FULL,
                            [BLOCKING_CLOSED] = RUNNEL_CLOSED,
                            [BLOCKING_ALONE] = RUNNEL_IDLE,
                            [BLOCKING_NO_MEMORY] = RUNNEL_NO_MEMORY};

static int put(runnel_shared *shared, SharedValue value, int64_t us) {
  if (!shared) {
    shared_value_drop(&value);
    return RUNNEL_BAD_ARGUMENT;
  }
  return CODES[blocking_put(chan_of(shared), value, api_ns(us))];
}

int runnel_shared_put_boolean(runnel_shared *shared, int b, int64_t us) {
  return put(shared, (SharedValue){.kind = b ? SHARED_TRUE : SHARED_FALSE}, us);
}

int runnel_shared_put_integer(runnel_shared *shared, lua_Integer n, int64_t us) {
  return put(shared, (SharedValue){.kind = SHARED_INTEGER, .as.integer = n}, us);
}

int runnel_shared_put_number(runnel_shared *shared, lua_Number n, int64_t us) {
  return put(shared, (SharedValue){.kind = SHARED_NUMBER, .as.number = n}, us);
}

int runnel_shared_put_bytes(runnel_shared *shared, const void *bytes, size_t size, int64_t us) {
  SharedValue value;
  if (!shared || (!bytes && size)) return RUNNEL_BAD_ARGUMENT;
  if (!shared_value_set_string(&value, (const char *)bytes, size, NULL)) return RUNNEL_NO_MEMORY;
  return put(shared, value, us);
}

/* ---- takes ---- */

/* A value that was taken. */
typedef struct Taken {
  runnel_value value; /* what the program sees; its bytes are in `packed` */
  SharedValue packed; /* as the channel had it */
} Taken;

static runnel_value show(const SharedValue *packed) {
  switch ((SharedKind)packed->kind) {
  case SHARED_FALSE:
  case SHARED_TRUE:
    return (runnel_value){.kind = RUNNEL_BOOLEAN, .as.boolean = packed->kind == SHARED_TRUE};
  case SHARED_INTEGER:
    return (runnel_value){.kind = RUNNEL_INTEGER, .as.integer = packed->as.integer};
  case SHARED_NUMBER:
    return (runnel_value){.kind = RUNNEL_NUMBER, .as.number = packed->as.number};
  case SHARED_SHORT:
    return (runnel_value){.kind = RUNNEL_BYTES, .as.bytes = {packed->as.text, packed->size}};
  case SHARED_LONG:
    return (runnel_value){.kind = RUNNEL_BYTES, .as.bytes = {packed->as.parcel->bytes, packed->as.parcel->size}};
  case SHARED_PACKED:
  case SHARED_CHAN:
  case SHARED_NIL:
    break;
  }
  return (runnel_value){.kind = RUNNEL_OTHER};
}

int runnel_shared_take(runnel_shared *shared, int64_t us, runnel_value **value) {
  if (value) *value = NULL;
  if (!shared || !value) return RUNNEL_BAD_ARGUMENT;
  Taken *taken = (Taken *)malloc(sizeof *taken); /* first: a value that was taken must not be lost */
  if (!taken) return RUNNEL_NO_MEMORY;
  int code = CODES[blocking_take(chan_of(shared), &taken->packed, api_ns(us))];
  if (taken->packed.kind != SHARED_NIL) {
    taken->value = show(&taken->packed);
    *value = &taken->value;
  } else {
    free(taken);
  }
  return code == RUNNEL_FULL ? RUNNEL_EMPTY : code;
}

static int push_value(lua_State *L, Sched *S, Call *call) {
  shared_pack_push(L, S, call->packed);
  return 1;
}

int runnel_value_push(lua_State *L, const runnel_value *value) {
  if (!value) return RUNNEL_BAD_ARGUMENT;
  return api_call(L, 0, &(Call){.body = push_value, .packed = &CONTAINER_OF(value, const Taken, value)->packed});
}

int runnel_value_release(runnel_value *value) {
  if (!value) return RUNNEL_OK;
  Taken *taken = CONTAINER_OF(value, Taken, value);
  shared_value_drop(&taken->packed);
  free(taken);
  return RUNNEL_OK;
}
