/* signal.c: SIGTERM as a message to each Lua state that asks for it, so that the workers of all threads of a program can
   end their jobs before it ends.

   A signal handler may do almost nothing. This one writes a byte to a pipe; a thread reads it there, and posts to the
   ports of all watches. The handler is installed with the first watch, only where nothing else handles the signal, and
   only for one signal: the next SIGTERM ends the program at once, as usual. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "nats/conn.h"

#define SIGNAL_TYPE "runnel.nats.signal"

/* What one Lua state gets. */
typedef struct Watch {
  Link link;                  /* in `signals.watches` */
  const runnel_functions *rn; /* the core's functions */
  runnel_port *port;          /* where the signal goes; NULL if the watch has ended */
} Watch;

enum { NO_PIPE = -1 };

/* A process has one handler for a signal, so all states share this. The pipe stays open once it is made, because the
   handler may run in any thread at any time. */
static struct {
  pthread_mutex_t changing; /* held while watches come and go, and by nobody who has `lock` */
  pthread_t thread;         /* reads the pipe */
  bool is_running;          /* the thread, while there are watches */
  int reading_end;          /* of the pipe */
  atomic_int writing_end;   /* of the pipe, for the handler */
  pthread_mutex_t lock;     /* guards the fields below */
  List watches;             /* of all states */
  bool has_come;            /* there was a SIGTERM: a new watch gets it at once */
} signals = {.changing = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER, .writing_end = NO_PIPE};

static void on_signal(int number) {
  (void)number;
  int before = errno;
  (void)!write(atomic_load(&signals.writing_end), "t", 1);
  errno = before;
}

static void post(const Watch *watch) { (void)watch->rn->post_boolean(watch->port, true); }

static void post_to_all(void) {
  (void)pthread_mutex_lock(&signals.lock);
  signals.has_come = true;
  Link *link = signals.watches.first;
  if (link) {
    do {
      post(CONTAINER_OF(link, Watch, link));
      link = link->next;
    } while (link != signals.watches.first);
  }
  (void)pthread_mutex_unlock(&signals.lock);
}

static void *read_signals(void *data) {
  (void)data;
  while (true) {
    char byte = 0;
    ssize_t n = read(signals.reading_end, &byte, 1);
    if (n == 1 && byte == 't') post_to_all();
    else if (n >= 0 || errno != EINTR) return NULL;
  }
}

static bool make_pipe(void) {
  int ends[2];
  if (atomic_load(&signals.writing_end) != NO_PIPE) return true;
  if (pipe(ends) != 0) return false;
  for (int i = 0; i < 2; i++) (void)fcntl(ends[i], F_SETFD, FD_CLOEXEC);
  signals.reading_end = ends[0];
  atomic_store(&signals.writing_end, ends[1]);
  return true;
}

/* Starts the thread and installs the handler; false if something else handles the signal, or there are no resources. */
static bool begin(void) {
  struct sigaction now, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
  if (sigaction(SIGTERM, NULL, &now) != 0 || now.sa_handler != SIG_DFL || !make_pipe()) return false;
  sigset_t old;
  conn_block(&old);
  int error = pthread_create(&signals.thread, NULL, read_signals, NULL);
  conn_unblock(&old);
  if (error) return false;
  (void)sigemptyset(&action.sa_mask);
  (void)sigaction(SIGTERM, &action, NULL);
  return true;
}

static void end(void) {
  struct sigaction now;
  if (sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == on_signal) (void)signal(SIGTERM, SIG_DFL);
  (void)!write(atomic_load(&signals.writing_end), "e", 1);
  (void)pthread_join(signals.thread, NULL);
}

/* Adds a watch for the port; false if that is impossible. */
static bool add(Watch *watch, runnel_port *port) {
  (void)pthread_mutex_lock(&signals.lock);
  bool has_come = signals.has_come;
  (void)pthread_mutex_unlock(&signals.lock);
  if (!signals.is_running && !has_come) signals.is_running = begin();
  if (!signals.is_running && !has_come) return false;
  (void)pthread_mutex_lock(&signals.lock);
  watch->port = port;
  list_append(&signals.watches, &watch->link);
  if (signals.has_come) post(watch);
  (void)pthread_mutex_unlock(&signals.lock);
  return true;
}

static void remove_watch(Watch *watch) {
  (void)pthread_mutex_lock(&signals.lock);
  list_remove(&signals.watches, &watch->link);
  bool is_last = !signals.watches.first;
  (void)pthread_mutex_unlock(&signals.lock);
  if (!is_last || !signals.is_running) return;
  end();
  signals.is_running = false;
}

/* off_term(watch): ends a watch; also its finalizer. */
int signal_off_term(lua_State *L) {
  Watch *watch = (Watch *)luaL_checkudata(L, 1, SIGNAL_TYPE);
  if (!watch->port) return 0;
  (void)pthread_mutex_lock(&signals.changing);
  remove_watch(watch);
  (void)pthread_mutex_unlock(&signals.changing);
  (void)watch->rn->port_close(watch->port);
  (void)watch->rn->port_release(watch->port);
  watch->port = NULL;
  return 0;
}

/* on_term(channel) -> watch | nil: from now on, the first SIGTERM puts true on the channel instead of ending the
   program; if there was one already, that is done now. Nil if the program handles the signal, or if there are no
   resources. */
int signal_on_term(lua_State *L) {
  const runnel_functions *rn = (const runnel_functions *)lua_touserdata(L, lua_upvalueindex(1));
  Watch *watch = (Watch *)lua_newuserdatauv(L, sizeof *watch, 0);
  *watch = (Watch){.rn = rn};
  luaL_setmetatable(L, SIGNAL_TYPE);
  runnel_chan *ch;
  runnel_port *port = NULL;
  int code = rn->chan_get(L, 1, &ch);
  if (code == RUNNEL_OK) {
    code = rn->port_open(L, ch, 1, RUNNEL_LEAVE_OPEN | RUNNEL_QUIET, &port);
    (void)rn->chan_release(L, ch);
  }
  if (code != RUNNEL_OK) return luaL_error(L, "cannot open a port: %s", rn->strerror(code));
  (void)pthread_mutex_lock(&signals.changing);
  bool is_on = add(watch, port);
  (void)pthread_mutex_unlock(&signals.changing);
  if (is_on) return 1;
  (void)rn->port_close(port);
  (void)rn->port_release(port);
  return 0;
}

void signal_open(lua_State *L) {
  luaL_newmetatable(L, SIGNAL_TYPE);
  lua_pushcfunction(L, signal_off_term);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}
