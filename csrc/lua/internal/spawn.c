/* spawn.c: starts programs by posix_spawn, for runnel.uv.

   libuv up to 1.52.1 starts them by fork, which copies the page tables of the program: in a heap of 500 MB a command
   takes ten milliseconds. posix_spawn shares the memory until the program runs, so its cost does not depend on the heap.
   The end of a process is an event of its descriptor, which only Linux has. Elsewhere, and whenever something is
   unusual, the caller starts the process by libuv. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): declares posix_spawn_file_actions_addchdir_np */
#endif
#include <lauxlib.h>

#include "lua/module.h"

#ifdef __linux__
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#if defined(__linux__) && defined(SYS_pidfd_open)

#define CHILD_META "runnel.child"

/* A process. */
typedef struct Child {
  pid_t pid;
  int fd; /* its descriptor: readable once it has ended; -1 when closed */
} Child;

/* What posix_spawn gets. */
typedef struct Start {
  const char *file, *cwd; /* cwd: NULL for the program's own */
  char **argv, **env;     /* each ends with NULL */
  int fds[3];             /* its standard input, output and error output; -1: /dev/null */
  bool detached;          /* in a session of its own */
} Start;

/* ---- starting ---- */

/* Pushes an array of C strings, which the table at index `list` keeps alive: `first`, unless it is NULL, and its
   strings. */
static char **push_strings(lua_State *L, int list, const char *first) {
  size_t n = (size_t)lua_rawlen(L, list), at = 0;
  char **strings = (char **)lua_newuserdatauv(L, (n + 2) * sizeof *strings, 0);
  if (first) strings[at++] = (char *)first;
  for (size_t i = 1; i <= n; i++) {
    if (lua_rawgeti(L, list, (lua_Integer)i) != LUA_TSTRING) luaL_error(L, "spawn: strings expected");
    strings[at++] = (char *)lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  strings[at] = NULL;
  return strings;
}

/* Adds to the actions what gives the process its standard descriptors. high: copies of those below 3, which the actions
   would overwrite, or -1. Returns whether there was memory. */
static bool add_descriptors(posix_spawn_file_actions_t *actions, const Start *s, const int high[3]) {
  bool ok = true;
  for (int i = 0; i < 3; i++) {
    int from = high[i] >= 0 ? high[i] : s->fds[i];
    if (from < 0) {
      ok = ok && !posix_spawn_file_actions_addopen(actions, i, "/dev/null", i == 0 ? O_RDONLY : O_RDWR, 0);
    } else {
      ok = ok && !posix_spawn_file_actions_adddup2(actions, from, i);
    }
  }
  return ok && (!s->cwd || !posix_spawn_file_actions_addchdir_np(actions, s->cwd));
}

/* The signals to which the process reacts as usual: all but those that a shell has this program ignore, as `nohup` and
   `&` do; that is meant for its processes, too. */
static sigset_t usual_signals(void) {
  static const int of_shells[] = {SIGHUP, SIGINT, SIGQUIT};
  sigset_t set;
  sigfillset(&set);
  for (size_t i = 0; i < sizeof of_shells / sizeof *of_shells; i++) {
    struct sigaction now;
    if (sigaction(of_shells[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN) sigdelset(&set, of_shells[i]);
  }
  return set;
}

/* Starts it with the actions. Returns whether it has. */
static bool start_with(pid_t *pid, const Start *s, const posix_spawn_file_actions_t *actions) {
  posix_spawnattr_t attr;
  if (posix_spawnattr_init(&attr)) return false;
  sigset_t usual = usual_signals(), none;
  sigemptyset(&none);
  int flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | (s->detached ? POSIX_SPAWN_SETSID : 0);
  bool ok = !posix_spawnattr_setflags(&attr, (short)flags) && !posix_spawnattr_setsigdefault(&attr, &usual) &&
            !posix_spawnattr_setsigmask(&attr, &none) && !posix_spawnp(pid, s->file, actions, &attr, s->argv, s->env);
  posix_spawnattr_destroy(&attr);
  return ok;
}

/* Starts the process. Returns whether it has. */
static bool start(pid_t *pid, const Start *s) {
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions)) return false;
  int high[3] = {-1, -1, -1};
  bool ok = true;
  for (int i = 0; i < 3; i++) {
    if (s->fds[i] < 0) continue;
    if (s->fds[i] < 3) {
      high[i] = fcntl(s->fds[i], F_DUPFD_CLOEXEC, 3);
      ok = ok && high[i] >= 0;
    }
    if (s->fds[i] < 3) continue; /* who shares these is not asked: the process gets them as the program has got them */
    int status = fcntl(s->fds[i], F_GETFL); /* as libuv does: most programs expect descriptors that block */
    if (status >= 0 && status & O_NONBLOCK) fcntl(s->fds[i], F_SETFL, status & ~O_NONBLOCK);
  }
  ok = ok && add_descriptors(&actions, s, high) && start_with(pid, s, &actions);
  for (int i = 0; i < 3; i++) {
    if (high[i] >= 0) close(high[i]);
  }
  posix_spawn_file_actions_destroy(&actions);
  return ok;
}

static int pidfd_open(pid_t pid) { return (int)syscall(SYS_pidfd_open, pid, 0U); }

/* Whether the system keeps the status of an ended process until it is asked for. */
static bool keeps_status(void) {
  struct sigaction now;
  return sigaction(SIGCHLD, NULL, &now) == 0 && now.sa_handler != SIG_IGN && !(now.sa_flags & SA_NOCLDWAIT);
}

/* spawn(file, args, env, cwd, stdio, detached) -> child, pid, descriptor; or nil and an error; or nothing if no process
   was started: then libuv starts it, or says why it cannot.
   args: without the file. env: nil, or a list of "NAME=value". stdio: up to three descriptors. detached: in a session of
   its own. */
static int spawn_start(lua_State *L) {
  enum { FILE_NAME = 1, ARGS, ENV, CWD, STDIO, DETACHED };
  lua_settop(L, DETACHED);
  Start s = {.file = luaL_checkstring(L, FILE_NAME),
             .cwd = luaL_optstring(L, CWD, NULL),
             .env = environ,
             .detached = lua_toboolean(L, DETACHED)};
  luaL_checktype(L, ARGS, LUA_TTABLE);
  luaL_checktype(L, STDIO, LUA_TTABLE);
  s.argv = push_strings(L, ARGS, s.file);
  if (!lua_isnil(L, ENV)) s.env = push_strings(L, ENV, NULL);
  for (int i = 0; i < 3; i++) s.fds[i] = lua_rawgeti(L, STDIO, i + 1) == LUA_TNUMBER ? (int)lua_tointeger(L, -1) : -1;
  Child *child = (Child *)lua_newuserdatauv(L, sizeof *child, 0);
  *child = (Child){.fd = -1};
  luaL_setmetatable(L, CHILD_META);
  int spare = keeps_status() ? pidfd_open(getpid()) : -1; /* so that there is a descriptor for the process */
  if (spare < 0) return 0;
  bool ok = start(&child->pid, &s);
  close(spare);
  if (!ok) return 0;
  child->fd = pidfd_open(child->pid);
  if (child->fd < 0) {
    kill(child->pid, SIGKILL); /* uncovered: another thread took the last descriptor just now */
    waitpid(child->pid, NULL, 0);
    lua_pushnil(L);
    lua_pushliteral(L, "EMFILE: too many open files");
    return 2;
  }
  lua_pushinteger(L, child->pid);
  lua_pushinteger(L, child->fd);
  return 3;
}

/* ---- the end ---- */

/* child:ended() -> code, signal: 0 or the number of the signal that ended it. To be called once its descriptor is
   readable. */
static int child_ended(lua_State *L) {
  Child *child = (Child *)luaL_checkudata(L, 1, CHILD_META);
  int status = 0;
  while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
  }
  lua_pushinteger(L, WIFEXITED(status) ? WEXITSTATUS(status) : 0);
  lua_pushinteger(L, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  return 2;
}

/* child:close(), and __gc. */
static int child_close(lua_State *L) {
  Child *child = (Child *)luaL_checkudata(L, 1, CHILD_META);
  if (child->fd >= 0) close(child->fd);
  child->fd = -1;
  return 0;
}

void lua_spawn_open(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"ended", child_ended}, {"close", child_close}, {"__gc", child_close}, {NULL, NULL}};
  luaL_newmetatable(L, CHILD_META);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  lua_pushcfunction(L, spawn_start);
  lua_setfield(L, -2, "spawn");
}

#else

void lua_spawn_open(lua_State *L) { (void)L; }

#endif
