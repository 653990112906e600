/* limit.h: time limits of calls of Lua. A call that computes blocks Lua; then another thread ends the process. */
#ifndef RUNNEL_KIT_LIMIT_H
#define RUNNEL_KIT_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* If the thread wakes this many ms too late, the process was halted, or the machine is very busy: Lua could not run
   either. */
enum { LIMIT_HALTED_MS = 1000 };

/* When the process is to end, if a call has begun at `began` with a limit of `ms`, and Lua has last run other code at
   `alive`; in ms of clock.h. That is later than the limit, since a busy machine is not a reason to end a process. */
static inline int64_t limit_last(int64_t began, int64_t ms, int64_t alive) {
  int64_t since = began > alive ? began : alive, patience = ms / 4;
  return since + ms + (patience < 100 ? 100 : patience > 2000 ? 2000 : patience);
}

/* Whether a call with such a limit may be the one that blocks Lua: it is over its limit, or it has begun since Lua last
   ran other code. A call over its limit has failed only if no other call may block Lua. */
static inline bool limit_may_block(int64_t began, int64_t ms, int64_t alive, int64_t now) {
  return now >= began + ms || began >= alive;
}

/* Ends the process. Writes a line to stderr: `text`, the reason, and `more`, which may be empty. */
static inline _Noreturn void limit_end_process(const char *text, const char *more) {
  const char *const parts[] = {text, ", and Lua does not come back: this process ends", more, "\n"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) (void)!write(STDERR_FILENO, parts[i], strlen(parts[i]));
  _exit(EXIT_FAILURE);
}

#endif
