/* restore.c: see restore.h. */
#include "host/prompt/restore.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "port/ending.h"
#include "port/former.h"

/* The terminal belongs to the process, as do the handlers of its end. */
static struct termios before;
static const char *_Atomic text_at_end; /* NULL: the terminal's mode is not changed */

/* Also called by a signal handler, and by exit() of another thread. */
static void restore(void) {
  const char *text = atomic_exchange(&text_at_end, NULL);
  if (!text) return;
  (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
  if (write(STDOUT_FILENO, text, strlen(text)) < 0) return;
}

static void restore_and_die(int signal_number) {
  restore();
  ending_by(signal_number);
}

void restore_catch(int signal_number, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler}, old;
  (void)sigemptyset(&action.sa_mask);
  if (former_get(signal_number, &old) && ending_is_default(&old)) former_set(signal_number, &action);
}

bool restore_at_end(const char *text) {
  static bool is_prepared;
  if (!is_prepared) {
    is_prepared = true;
    (void)atexit(restore);
    restore_catch(SIGTERM, restore_and_die);
    restore_catch(SIGHUP, restore_and_die);
    restore_catch(SIGQUIT, restore_and_die);
  }
  if (!atomic_load(&text_at_end) && tcgetattr(STDIN_FILENO, &before) != 0) return false;
  atomic_store(&text_at_end, text);
  return true;
}

void restore_no_more(void) { atomic_store(&text_at_end, NULL); }
