/* capi/api_reader.c: readers in the C API; see runnel.h. */
#include <errno.h>
#include <stdlib.h>

#include "capi/api.h"
#include "core/sched_wakeup.h"
#include "port/reader.h"

static int open_reader(lua_State *L, Sched *S, Call *call) {
  Wakeup *wakeup = sched_wakeup(L, S);
  if (!wakeup) return api_code(call, RUNNEL_NO_MEMORY);
  call->reader->set = readers_of(wakeup);
  if (!call->reader->set) return api_code(call, RUNNEL_IDLE);
  call->reader->wakeup = wakeup_hold(wakeup);
  return 0;
}

int runnel_reader_open(lua_State *L, void (*ready)(void *data), void *data, runnel_reader **reader) {
  if (!ready || !reader) return RUNNEL_BAD_ARGUMENT;
  Reader *made = (Reader *)malloc(sizeof *made);
  if (!made) return RUNNEL_NO_MEMORY;
  *made = (Reader){.ready = ready, .data = data, .fd = -1};
  int code = api_call(L, 0, &(Call){.body = open_reader, .reader = made});
  if (code == RUNNEL_OK) *reader = made;
  else free(made);
  return code;
}

int runnel_reader_watch_for(runnel_reader *reader, int fd, int events) {
  _Static_assert((int)RUNNEL_READABLE == (int)READER_READ && (int)RUNNEL_WRITABLE == (int)READER_WRITE, "the same");
  if (!reader || events < 1 || events > (RUNNEL_READABLE | RUNNEL_WRITABLE)) return RUNNEL_BAD_ARGUMENT;
  int error = reader_watch(reader, fd, (unsigned)events);
  if (error) errno = error;
  return error ? RUNNEL_RAISED : RUNNEL_OK;
}

int runnel_reader_watch(runnel_reader *reader, int fd) { return runnel_reader_watch_for(reader, fd, RUNNEL_READABLE); }

int runnel_reader_close(runnel_reader *reader) {
  if (!reader) return RUNNEL_BAD_ARGUMENT;
  (void)reader_watch(reader, -1, READER_READ);
  wakeup_release(reader->wakeup);
  free(reader);
  return RUNNEL_OK;
}
