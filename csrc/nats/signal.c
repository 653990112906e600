/* signal.c: SIGTERM as a message, so that a program's workers can end their jobs before it ends.

   A signal handler may do almost nothing. This one writes a byte to a pipe; a thread reads it there and posts to a port.
   The handler is installed only where nothing else handles the signal, and only for the first one: the next SIGTERM ends
   the program at once, as usual. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "nats/conn.h"

#define SIGNAL_TYPE "runnel.nats.signal"

typedef struct Watch {
  const runnel_functions *rn; /* the core's functions */
  runnel_port *port;          /* where the signal goes; NULL if the watch has ended */
  pthread_t thread;           /* reads the pipe */
  int pipe[2];                /* reading end, writing end */
} Watch;

/* What the handler, which has no argument for it, needs: the writing end of the pipe. A process has one handler for a
   signal, so that there is one watch. */
enum { NO_WATCH = -1, SOON = -2 };
static atomic_int writing_end = NO_WATCH;

static void on_signal(int number) {
  (void)number;
  int before = errno, end = atomic_load(&writing_end);
  if (end >= 0) (void)!write(end, "t", 1);
  errno = before;
}

static void *wait_for_it(void *data) {
  const Watch *watch = (const Watch *)data;
  char byte;
  ssize_t n;
  do n = read(watch->pipe[0], &byte, 1);
  while (n < 0 && errno == EINTR);
  if (n == 1 && byte == 't') (void)watch->rn->post_boolean(watch->port, true);
  return NULL;
}

/* off_term(watch): ends a watch; also its finalizer. */
int signal_off_term(lua_State *L) {
  Watch *watch = (Watch *)luaL_checkudata(L, 1, SIGNAL_TYPE);
  if (!watch->port) return 0;
  struct sigaction now;
  (void)sigaction(SIGTERM, NULL, &now);
  if (now.sa_handler == on_signal) (void)signal(SIGTERM, SIG_DFL);
  atomic_store(&writing_end, NO_WATCH);
  (void)!write(watch->pipe[1], "e", 1);
  (void)pthread_join(watch->thread, NULL);
  (void)close(watch->pipe[0]);
  (void)close(watch->pipe[1]);
  (void)watch->rn->port_close(watch->port);
  (void)watch->rn->port_release(watch->port);
  watch->port = NULL;
  return 0;
}

/* on_term(channel) -> watch | nil: from now on, the first SIGTERM puts true on the channel instead of ending the
   program. Nil if the program, or another Lua state, handles the signal already, or if there are no resources. */
int signal_on_term(lua_State *L) {
  const runnel_functions *rn = (const runnel_functions *)lua_touserdata(L, lua_upvalueindex(1));
  struct sigaction now, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
  Watch *watch = (Watch *)lua_newuserdatauv(L, sizeof *watch, 0);
  *watch = (Watch){.rn = rn};
  luaL_setmetatable(L, SIGNAL_TYPE);
  runnel_chan *ch;
  runnel_port *port;
  if (rn->chan_get(L, 1, &ch) != RUNNEL_OK) return luaL_error(L, "%s", rn->message(L));
  int code = rn->port_open(L, ch, 1, RUNNEL_LEAVE_OPEN | RUNNEL_QUIET, &port);
  (void)rn->chan_release(L, ch);
  if (code != RUNNEL_OK) return luaL_error(L, "%s", rn->message(L));
  int none = NO_WATCH;
  bool is_free = sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == SIG_DFL &&
                 atomic_compare_exchange_strong(&writing_end, &none, SOON);
  if (is_free && pipe(watch->pipe) == 0) {
    watch->port = port;
    for (int i = 0; i < 2; i++) (void)fcntl(watch->pipe[i], F_SETFD, FD_CLOEXEC);
    sigset_t old;
    conn_block(&old);
    int error = pthread_create(&watch->thread, NULL, wait_for_it, watch);
    conn_unblock(&old);
    if (!error) {
      atomic_store(&writing_end, watch->pipe[1]);
      (void)sigemptyset(&action.sa_mask);
      (void)sigaction(SIGTERM, &action, NULL);
      return 1;
    }
    watch->port = NULL;
    (void)close(watch->pipe[0]);
    (void)close(watch->pipe[1]);
  }
  if (is_free) atomic_store(&writing_end, NO_WATCH);
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
