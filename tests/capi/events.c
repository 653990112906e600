/* events: readers, ports and tasks that close, stop, change and begin each other in any order: from within their
   callbacks, in finalizers, while the state is closed, and on both sides of a fork; each with a model of what may be
   called.

     events [ROUNDS [SEED]] */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "capi.h"

enum { READERS = 24, TASKS = 6, PORTS = 4, STEPS = 60 };

typedef struct Reading {
  runnel_reader *reader; /* NULL: none */
  int ends[2];           /* of a socket; -1: none */
  bool is_watched;       /* it waits for ends[0] */
  int events;            /* until that can be read, or written */
  int bytes;             /* that can be read */
  bool is_full;          /* nothing can be written to ends[0] */
  int calls;             /* of `ready` */
} Reading;

static Reading readings[READERS];
static runnel_task tasks[TASKS];
static bool is_pending[TASKS]; /* the task is to be run once */
static runnel_port *ports[PORTS];
static lua_State *state;
static unsigned seed;
static int others;      /* how often a go block, a finalizer or a task has changed something */
static bool is_closing; /* no function that takes the state may be called */

static unsigned any(unsigned n) { return seed = seed * 1103515245 + 12345, seed / 65536 % n; }

static void ready(void *data);

/* ---- what may happen at any moment; `from`: not the reader that is called, whose model is in use ---- */

static void close_reading(Reading *r) {
  if (!r->reader) return;
  OK(runnel_reader_close(r->reader));
  r->reader = NULL;
  r->is_watched = false;
}

static void watch_for(Reading *r, bool is_on, int events) {
  if (!r->reader || r->ends[0] < 0) return;
  int fd = is_on ? r->ends[0] : -1;
  if (events == RUNNEL_READABLE) OK(runnel_reader_watch(r->reader, fd));
  else OK(runnel_reader_watch_for(r->reader, fd, events));
  r->is_watched = is_on;
  r->events = events;
}

/* Most often only for reading: a socket can nearly always be written. */
static void watch(Reading *r, bool is_on) { watch_for(r, is_on, any(4) ? RUNNEL_READABLE : 1 + (int)any(3)); }

/* Its function is to be called. */
static bool is_ready(const Reading *r) {
  bool can_read = r->events & RUNNEL_READABLE && r->bytes > 0, can_write = r->events & RUNNEL_WRITABLE && !r->is_full;
  return r->is_watched && (can_read || can_write);
}

/* Another socket, most often with the number of the one before. */
static void replace_socket(Reading *r) {
  bool was_watched = r->is_watched;
  int events = r->events;
  watch(r, false);
  for (int i = 0; i < 2 && r->ends[i] >= 0; i++) CHECK(close(r->ends[i]) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, r->ends) == 0);
  r->bytes = 0;
  r->is_full = false;
  watch_for(r, was_watched, was_watched ? events : RUNNEL_READABLE);
}

/* Fills the socket, so that no more can be written; or empties it again. */
static void fill(Reading *r) {
  char bytes[4096] = {0};
  if (r->ends[0] < 0 || (!r->is_full && is_ready(r))) return; /* it may be about to be called */
  if (r->is_full) {
    while (recv(r->ends[1], bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
  } else {
    while (send(r->ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
    while (send(r->ends[0], bytes, 1, MSG_DONTWAIT) > 0) continue;
  }
  CHECK(errno == EAGAIN);
  r->is_full = !r->is_full;
}

static void feed(Reading *r) {
  if (r->ends[1] < 0 || r->bytes > 20) return;
  CHECK(write(r->ends[1], "x", 1) == 1);
  r->bytes++;
}

static void run_task(void *data) {
  size_t i = (size_t)(uintptr_t)data;
  CHECK(is_pending[i]);
  is_pending[i] = false;
  others++;
  if (any(3) == 0) {
    unsigned other = any(TASKS);
    OK(runnel_task_cancel(&tasks[other]));
    is_pending[other] = false;
  }
  if (any(4) == 0) close_reading(&readings[any(READERS)]);
}

static void post(runnel_port *port) {
  int code = port ? runnel_post_integer(port, 1) : RUNNEL_OK;
  CHECK(code == RUNNEL_OK || code == RUNNEL_FULL || code == RUNNEL_CLOSED);
}

static void meddle(void) {
  Reading *r = &readings[any(READERS)];
  unsigned i = any(TASKS), p = any(PORTS);
  switch (any(11)) {
  case 0:
    close_reading(r);
    break;
  case 1:
    watch(r, false);
    break;
  case 2:
    watch(r, true);
    break;
  case 3:
    replace_socket(r);
    break;
  case 4:
  case 5:
    feed(r);
    break;
  case 6:
    OK(runnel_task_cancel(&tasks[i]));
    is_pending[i] = false;
    break;
  case 7:
    post(ports[p]);
    break;
  case 8:
    if (ports[p] && any(4) == 0) {
      OK(runnel_port_release(ports[p]));
      ports[p] = NULL;
    }
    break;
  case 9:
    fill(r);
    break;
  case 10:
    watch_for(r, true, 1 + (int)any(3));
    break;
  default:
    break;
  }
}

/* It is called only while it waits for a descriptor that is ready, and may end itself. */
static void ready(void *data) {
  Reading *r = (Reading *)data;
  char byte;
  if (!r->reader || !is_ready(r))
    FAIL("reader %d is called: it %s, it %s for %d, %d bytes, %s", (int)(r - readings),
         r->reader ? "is open" : "has ended", r->is_watched ? "waits" : "does not wait", r->events, r->bytes,
         r->is_full ? "full" : "not full");
  r->calls++;
  if (r->events & RUNNEL_WRITABLE && any(3)) watch_for(r, true, RUNNEL_READABLE);
  if (r->bytes > 0 && any(4)) {
    CHECK(read(r->ends[0], &byte, 1) == 1);
    r->bytes--;
  }
  for (unsigned n = any(6); n > 0; n--) meddle();
  if (any(8) == 0) close_reading(r);
}

/* Lua: meddle() in a go block, or in a finalizer */
static int lua_meddle(lua_State *L) {
  unsigned i = any(TASKS);
  others++;
  for (unsigned n = any(4); n > 0; n--) meddle();
  int code = runnel_task_add(L, &tasks[i]);
  CHECK(code == RUNNEL_OK || code == RUNNEL_IDLE);
  if (code == RUNNEL_OK) is_pending[i] = true;
  unsigned p = any(PORTS);
  if (!ports[p] && any(2)) {
    runnel_chan *ch = NULL;
    code = runnel_chan_new(L, RUNNEL_SLIDING, 3, &ch);
    if (code == RUNNEL_OK)
      code = runnel_port_open(L, ch, 3, any(2) ? RUNNEL_CLOSE_CHANNEL : RUNNEL_LEAVE_OPEN, &ports[p]);
    if (code != RUNNEL_OK) CHECK(is_closing);
    if (code == RUNNEL_OK) post(ports[p]);
  }
  return 0;
}

static void open_reading(Reading *r) {
  if (r->reader) return;
  OK(runnel_reader_open(state, ready, r, &r->reader));
  if (r->ends[0] < 0) replace_socket(r);
  watch(r, true);
}

/* A step calls a reader if, and only if, one waits for a descriptor that can be read; unless others have changed that
   before the readers' turn. The program's descriptor is readable then. */
static void check_step(int fd) {
  int64_t next = 0;
  int before = 0, after = 0, could = 0, others_before = others;
  for (int i = 0; i < READERS; i++) {
    before += readings[i].calls;
    could += is_ready(&readings[i]);
  }
  struct pollfd polled = {.fd = fd, .events = POLLIN};
  if (could) CHECK(poll(&polled, 1, 0) == 1);
  CHECK(runnel_step(state, 1 + any(20), &next) >= RUNNEL_OK);
  for (int i = 0; i < READERS; i++) after += readings[i].calls;
  CHECK(others > others_before || (could ? after > before : after == before));
}

static void script(lua_State *L) {
  lua_register(L, "meddle", lua_meddle);
  lua(L,
      "for i = 1, 3 do rn.go(function() for _ = 1, 40 do meddle() rn.yield() end end) end "
      "for i = 1, 10 do kept = { kept, setmetatable({}, { __gc = function() meddle() "
      "  pcall(function() local ch = rn.shared_chan(2) ch:put 'a string that is longer than a short one, for malloc' "
      "  ch:close() end) end }) } end "
      "rn.go(function() for _ = 1, 20 do setmetatable({}, { __gc = meddle }) collectgarbage 'step' rn.yield() end "
      "end)");
}

/* In the child of a fork: what it does to its copies must not change what the parent sees. Its own readers work. */
static void in_child(int fd) {
  unsigned how = any(4);
  if (how == 0) _exit(0);
  if (how == 1) {
    for (int i = 0; i < READERS; i++) {
      close_reading(&readings[i]);
      for (int j = 0; j < 2 && readings[i].ends[j] >= 0; j++) CHECK(close(readings[i].ends[j]) == 0);
      readings[i].ends[0] = readings[i].ends[1] = -1;
    }
  } else {
    /* The sockets are shared with the parent: it takes others. */
    for (int i = 0; i < READERS; i++) {
      watch(&readings[i], false);
      replace_socket(&readings[i]);
    }
    for (int n = 0; n < 20; n++) {
      open_reading(&readings[any(READERS)]);
      meddle();
      check_step(fd);
    }
  }
  if (how == 3) _exit(0);
  is_closing = true;
  lua_close(state);
  _exit(0);
}

static void fork_once(int fd) {
  (void)fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) in_child(fd);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) FAIL("the child has failed: %d", status);
}

static void one_round(void) {
  int fd = -1;
  is_closing = false;
  memset(is_pending, 0, sizeof is_pending);
  for (size_t i = 0; i < TASKS; i++) tasks[i] = (runnel_task){.run = run_task, .data = (void *)(uintptr_t)i};
  for (int i = 0; i < READERS; i++) readings[i] = (Reading){.ends = {-1, -1}};
  state = open_state();
  if (any(2)) OK(runnel_fd(state, &fd));
  script(state);
  open_reading(&readings[0]);
  OK(runnel_fd(state, &fd));
  for (int n = 0; n < STEPS; n++) {
    if (any(2)) open_reading(&readings[any(READERS)]);
    if (any(2)) meddle();
    check_step(fd);
    if (any(STEPS / 2) == 0) fork_once(fd);
  }
  is_closing = true;
  lua_close(state);
  for (size_t i = 0; i < TASKS; i++) CHECK(!tasks[i].list && !is_pending[i]);
  for (int i = 0; i < READERS; i++) {
    if (readings[i].reader) {
      OK(runnel_reader_watch(readings[i].reader, -1));
      OK(runnel_reader_close(readings[i].reader)); /* also when the state is closed */
    }
    for (int j = 0; j < 2 && readings[i].ends[j] >= 0; j++) CHECK(close(readings[i].ends[j]) == 0);
  }
  for (int i = 0; i < PORTS; i++) {
    if (ports[i]) OK(runnel_port_release(ports[i]));
    ports[i] = NULL;
  }
}

/* What a reader refuses is said, and no reader is called for it. */
static void refused(void) {
  runnel_reader *one = NULL, *two = NULL;
  int ends[2];
  state = open_state();
  if (runnel_reader_open(state, ready, NULL, &one) == RUNNEL_IDLE) { /* not on Linux */
    lua_close(state);
    exit(EXIT_SUCCESS);
  }
  OK(runnel_reader_open(state, ready, NULL, &two));
  IS(RUNNEL_RAISED, runnel_reader_watch(one, 1000000));
  CHECK(errno == EBADF && strstr(runnel_message(state), "Bad file descriptor"));
  FILE *file = tmpfile();
  CHECK(file);
  IS(RUNNEL_RAISED, runnel_reader_watch(one, fileno(file)));
  CHECK(strstr(runnel_message(state), "regular file"));
  CHECK(pipe(ends) == 0);
  OK(runnel_reader_watch(one, ends[0]));
  OK(runnel_reader_watch(one, ends[0]));
  IS(RUNNEL_RAISED, runnel_reader_watch(two, ends[0]));
  IS(RUNNEL_BAD_ARGUMENT, runnel_reader_watch_for(one, ends[0], 0));
  IS(RUNNEL_BAD_ARGUMENT, runnel_reader_watch_for(one, ends[0], 4));
  IS(RUNNEL_BAD_ARGUMENT, runnel_reader_watch_for(NULL, ends[0], RUNNEL_WRITABLE));
  CHECK(strstr(runnel_message(state), "another reader"));
  OK(runnel_reader_close(one));
  OK(runnel_reader_watch(two, ends[0]));
  OK(runnel_reader_close(two));
  CHECK(close(ends[0]) == 0 && close(ends[1]) == 0 && fclose(file) == 0);
  lua_close(state);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 30;
  unsigned first = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
  (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  refused();
  for (int round = 0; round < rounds; round++) {
    seed = first + (unsigned)round;
    if (getenv("VERBOSE")) printf("seed %u\n", seed);
    one_round();
  }
  puts("ok events");
  return EXIT_SUCCESS;
}
