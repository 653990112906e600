/* sigterm.c: see sigterm.h.

   A signal handler may do almost nothing. This one writes a byte to a pipe; a thread reads it there, and closes the
   ports of all watches. The handler is installed with the first watch, only where nothing else handles the signal, and
   only for one signal: the next SIGTERM ends the program at once, as usual (port/ending.h). After the signal the thread
   wakes the states now and then, as long as the program has not ended, so that they tell why. */
#include "port/sigterm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/thread.h"
#include "port/ending.h"

enum { NO_PIPE = -1 };

/* A process has one handler for a signal, so all states share this: with port/ending.c and port/former.c the only
   data of the core that does. The pipe stays open once it is made, because the handler may run in any thread at any
   time. */
static struct {
  pthread_mutex_t changing; /* guards adding and removing watches; a thread takes it before `lock` */
  pthread_t thread;         /* reads the pipe */
  bool is_running;          /* the thread, while there are watches */
  int reading_end;          /* of the pipe */
  atomic_int writing_end;   /* of the pipe, for the handler */
  pthread_mutex_t lock;     /* guards the fields below */
  List watches;             /* of all states */
  bool has_come;            /* there was a SIGTERM: a new watch gets it at once */
  bool is_told;             /* that Lua does not run */
  int patience;             /* ms */
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
    port_close(CONTAINER_OF(link, SigtermWatch, link)->port);
  }
  (void)pthread_mutex_unlock(&term.lock);
}

static void close_late(SigtermWatch *watch) {
  if (!watch->late) return;
  port_close(watch->late);
  port_release(watch->late);
  watch->late = NULL;
}

/* The program has not ended. A state that does not even know of the signal cannot tell why. */
static void remind(void) {
  bool is_unaware = false;
  (void)pthread_mutex_lock(&term.lock);
  for (Link *link = term.watches.first; link; link = list_next(&term.watches, link)) {
    SigtermWatch *watch = CONTAINER_OF(link, SigtermWatch, link);
    close_late(watch);
    is_unaware = is_unaware || watch->progress == SIGTERM_UNAWARE;
  }
  if (is_unaware && !term.is_told) {
    term.is_told = true;
    (void)fprintf(
        stderr,
        "runnel: SIGTERM came %.1f s ago, but no go block has run since then: Lua computes, or waits in a "
        "function that blocks the thread, such as os.execute. SIGQUIT shows where, if the program is runnel. A "
        "second SIGTERM ends it at once.\n",
        term.patience / 1000.0);
  }
  (void)pthread_mutex_unlock(&term.lock);
}

/* Signals do not interrupt this thread. */
static void *read_signals(void *data) {
  char byte = 0;
  struct pollfd news = {.fd = term.reading_end, .events = POLLIN};
  int wait = -1;
  (void)data;
  for (;;) {
    if (poll(&news, 1, wait) == 0) {
      remind();
      continue;
    }
    if (read(term.reading_end, &byte, 1) != 1 || byte != 't') return NULL;
    close_ports();
    wait = term.patience;
  }
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

static void catch_signal(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  (void)sigemptyset(&action.sa_mask);
  (void)sigaction(SIGTERM, &action, NULL);
}

/* Starts the thread and installs the handler; false if something else handles the signal, or there are no resources. */
static bool begin(void) {
  struct sigaction now;
  if (sigaction(SIGTERM, NULL, &now) != 0 || !ending_is_default(&now) || !make_pipe()) return false;
  if (thread_spawn(&term.thread, "runnel-term", read_signals, NULL) != 0) return false;
  catch_signal();
  return true;
}

static void end(void) {
  struct sigaction now;
  if (sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == on_signal) ending_restore(SIGTERM);
  (void)!write(atomic_load(&term.writing_end), "e", 1);
  (void)pthread_join(term.thread, NULL);
}

bool sigterm_watch(SigtermWatch *watch, Port *port, int patience) {
  (void)pthread_mutex_lock(&term.changing);
  if (!term.is_running) term.patience = patience; /* before the thread reads it */
  (void)pthread_mutex_lock(&term.lock);
  bool has_come = term.has_come;
  (void)pthread_mutex_unlock(&term.lock);
  if (!term.is_running && !has_come) term.is_running = begin();
  bool is_on = term.is_running || has_come;
  if (is_on) {
    (void)pthread_mutex_lock(&term.lock);
    *watch = (SigtermWatch){.port = port};
    list_append(&term.watches, &watch->link);
    if (term.has_come) port_close(port);
    (void)pthread_mutex_unlock(&term.lock);
  }
  (void)pthread_mutex_unlock(&term.changing);
  return is_on;
}

void sigterm_begin(SigtermWatch *watch, Port *late) {
  (void)pthread_mutex_lock(&term.lock);
  if (watch->progress == SIGTERM_UNAWARE) watch->progress = SIGTERM_BEGUN;
  close_late(watch);
  watch->late = late;
  (void)pthread_mutex_unlock(&term.lock);
}

bool sigterm_drained(SigtermWatch *watch, SigtermProgress progress) {
  (void)pthread_mutex_lock(&term.lock);
  watch->progress = progress;
  bool ends = true;
  for (Link *link = term.watches.first; link; link = list_next(&term.watches, link)) {
    ends = ends && CONTAINER_OF(link, SigtermWatch, link)->progress == SIGTERM_DRAINED;
  }
  (void)pthread_mutex_unlock(&term.lock);
  return ends;
}

void sigterm_renew(void) {
  struct sigaction now;
  (void)pthread_mutex_lock(&term.changing);
  (void)pthread_mutex_lock(&term.lock);
  bool waits = term.is_running && !term.has_come;
  (void)pthread_mutex_unlock(&term.lock);
  if (sigaction(SIGTERM, NULL, &now) == 0) {
    if (waits && ending_is_default(&now)) catch_signal();
    if (!waits && now.sa_handler == on_signal) ending_restore(SIGTERM);
  }
  (void)pthread_mutex_unlock(&term.changing);
}

void sigterm_unwatch(SigtermWatch *watch) {
  (void)pthread_mutex_lock(&term.changing);
  (void)pthread_mutex_lock(&term.lock);
  list_remove(&term.watches, &watch->link);
  close_late(watch);
  bool is_last = !term.watches.first;
  (void)pthread_mutex_unlock(&term.lock);
  if (is_last && term.is_running) {
    end();
    term.is_running = false;
  }
  (void)pthread_mutex_unlock(&term.changing);
}
