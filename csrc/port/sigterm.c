/* term.c: see term.h.

   A signal handler may do almost nothing. This one writes a byte to a pipe; a thread reads it there, and closes the
   ports of all watches. The handler is installed with the first watch, only where nothing else handles the signal, and
   only for one signal: the next SIGTERM ends the program at once, as usual (port/ending.h). */
#include "port/sigterm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/thread.h"
#include "port/ending.h"

enum { NO_PIPE = -1 };

/* A process has one handler for a signal, so all states share this: with port/ending.c the only data of the core that does. The pipe stays
   open once it is made, because the handler may run in any thread at any time. */
static struct {
  pthread_mutex_t changing; /* guards adding and removing watches; a thread takes it before `lock` */
  pthread_t thread;         /* reads the pipe */
  bool is_running;          /* the thread, while there are watches */
  int reading_end;          /* of the pipe */
  atomic_int writing_end;   /* of the pipe, for the handler */
  pthread_mutex_t lock;     /* guards the fields below */
  List watches;             /* of all states */
  bool has_come;            /* there was a SIGTERM: a new watch gets it at once */
} term = {.changing = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER, .writing_end = NO_PIPE};

static void on_signal(int number) {
  int before = errno;
  ending_restore(number);
  (void)!write(atomic_load(&term.writing_end), "t", 1);
  errno = before;
}

static void close_ports(void) {
  (void)pthread_mutex_lock(&term.lock);
  term.has_come = true;
  for (Link *link = term.watches.first; link; link = list_next(&term.watches, link)) {
    port_close(CONTAINER_OF(link, TermWatch, link)->port);
  }
  (void)pthread_mutex_unlock(&term.lock);
}

static void *read_signals(void *data) {
  char byte = 0;
  (void)data;
  while (read(term.reading_end, &byte, 1) == 1 && byte == 't') close_ports(); /* no signal interrupts this thread */
  return NULL;
}

static bool make_pipe(void) {
  int ends[2];
  if (atomic_load(&term.writing_end) != NO_PIPE) return true;
  if (pipe(ends) != 0) return false;
  for (int i = 0; i < 2; i++) (void)fcntl(ends[i], F_SETFD, FD_CLOEXEC);
  term.reading_end = ends[0];
  atomic_store(&term.writing_end, ends[1]);
  return true;
}

/* Starts the thread and installs the handler; false if something else handles the signal, or there are no resources. */
static bool begin(void) {
  struct sigaction now, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  if (sigaction(SIGTERM, NULL, &now) != 0 || !ending_is_default(&now) || !make_pipe()) return false;
  if (thread_spawn(&term.thread, "runnel-term", read_signals, NULL) != 0) return false;
  (void)sigemptyset(&action.sa_mask);
  (void)sigaction(SIGTERM, &action, NULL);
  return true;
}

static void end(void) {
  struct sigaction now;
  if (sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == on_signal) ending_restore(SIGTERM);
  (void)!write(atomic_load(&term.writing_end), "e", 1);
  (void)pthread_join(term.thread, NULL);
}

bool term_watch(TermWatch *watch, Port *port) {
  (void)pthread_mutex_lock(&term.changing);
  (void)pthread_mutex_lock(&term.lock);
  bool has_come = term.has_come;
  (void)pthread_mutex_unlock(&term.lock);
  if (!term.is_running && !has_come) term.is_running = begin();
  bool is_on = term.is_running || has_come;
  if (is_on) {
    (void)pthread_mutex_lock(&term.lock);
    watch->port = port;
    list_append(&term.watches, &watch->link);
    if (term.has_come) port_close(port);
    (void)pthread_mutex_unlock(&term.lock);
  }
  (void)pthread_mutex_unlock(&term.changing);
  return is_on;
}

void term_unwatch(TermWatch *watch) {
  (void)pthread_mutex_lock(&term.changing);
  (void)pthread_mutex_lock(&term.lock);
  list_remove(&term.watches, &watch->link);
  bool is_last = !term.watches.first;
  (void)pthread_mutex_unlock(&term.lock);
  if (is_last && term.is_running) {
    end();
    term.is_running = false;
  }
  (void)pthread_mutex_unlock(&term.changing);
}
