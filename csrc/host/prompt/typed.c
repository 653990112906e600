/* typed.c: see typed.h. */
#include "host/prompt/typed.h"

#include <stdint.h>
#include <time.h>

#include "base/clock.h"
#include "host/prompt/drawing.h"
#include "host/prompt/width.h"
#include "host/runtime/interrupt.h"
#include "host/runtime/wait.h"

int typed_next_byte(void *ud) {
  Editing *ed = (Editing *)ud;
  for (;;) {
    Waited waited;
    int kept = width_next();
    if (kept >= 0) return kept;
    /* What was pending until now need not have been a key: it may be the terminal's answer, or part of a character. */
    if (ed->shown && !drawing_is_settling(ed) && wait_pending() == 0) drawing_draw(ed);
    do waited = wait_input(ed->L, drawing_is_settling(ed) ? DRAWING_SETTLE_MS * CLOCK_MS : -1, drawing_redraw, ed);
    while (waited == WAITED_SIGNAL || waited == WAITED_TIME);
    int byte = wait_read_byte();
    if (byte < 0 && interrupt_pending()) ed->interrupted = true;
    if (byte < 0 || !width_takes(byte)) return byte;
  }
}

void typed_wait_to_settle(Editing *ed) {
  static const struct timespec pause = {.tv_nsec = 5 * CLOCK_MS};
  while (drawing_is_settling(ed)) {
    (void)nanosleep(&pause, NULL);
    wait_run_first();
    if (wait_input(ed->L, 0, drawing_redraw, ed) != WAITED_INPUT || !width_has_room()) continue;
    int byte = wait_read_byte(); /* of the terminal's answer, or of a key to be read later */
    if (byte < 0) break;
    if (!width_takes(byte)) width_keep(byte);
  }
}
