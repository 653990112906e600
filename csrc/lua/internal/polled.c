/* polled.c: pipes, terminals and sockets of which the program has a descriptor, read and written without waiting.

   A descriptor that a program was started with, or shares with a child, is often shared with others: the shell, the
   program's children, and C's stdio. Whether a read waits (O_NONBLOCK) is a property of what they share, so it must not be
   changed: print would lose text, a child would fail, and after a kill the shell would, too. Three ways need no such
   change:

   - To open it anew gives a description of our own, which may be non-blocking. Only Linux can, and it must be allowed.
   - Sockets have a flag for each call.
   - Otherwise, ask first whether it is ready. A read returns then what is there, and a small write does not wait, unless
     another process is quicker. A terminal that is ready has room for a byte, and a larger write would wait for more. */
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/epoll.h>
#endif

#include "lua/module.h"
#include "port/standard.h"

#define POLLED_META "runnel.polled"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif
#ifndef PIPE_BUF
#define PIPE_BUF 512
#endif

/* How many bytes a read gets at most. */
enum { READ_SIZE = 64 * 1024 };

/* How it is read and written without waiting. */
typedef enum Way {
  OWN,    /* its description is non-blocking, and nobody else's */
  SOCKET, /* a flag of each call */
  ASKED   /* asks first */
} Way;

typedef struct Polled {
  Way way;
  int fd;       /* -1 once it is closed */
  int set;      /* readable when `fd` is ready; -1: there is none, or it is closed */
  size_t most;  /* how many bytes a write has at most, if it is ASKED */
  bool writes;  /* it is for writing, not for reading */
  bool began;   /* it has been ready */
  size_t count; /* how many bytes have been read and were not returned, because memory ran out */
  char bytes[]; /* READ_SIZE, if it is for reading */
} Polled;

/* ---- opening ---- */

/* Whether opening it anew opens the same: that of the controlling side of a terminal makes another terminal. */
static bool can_reopen(int fd) {
#ifdef TIOCGPTN
  unsigned number;
#ifdef __GLIBC__
  const unsigned long request = TIOCGPTN;
#else
  const int request = (int)TIOCGPTN; /* POSIX has it so */
#endif
  return ioctl(fd, request, &number) != 0;
#else
  (void)fd;
  return false;
#endif
}

/* Opens the same pipe or terminal anew. -1 if that is impossible. */
static int reopen(int fd, bool writes) {
  if (!can_reopen(fd)) return -1;
  char path[sizeof "/proc/self/fd/" + 3 * sizeof fd];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return standard_avoid(open(path, (writes ? O_WRONLY : O_RDONLY) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

/* Makes a descriptor that is readable when `fd` can be read, or written. -1 if that is impossible. */
static int make_set(int fd, bool writes) {
#ifdef __linux__
  int set = standard_avoid(epoll_create1(EPOLL_CLOEXEC));
  if (set < 0) return -1;
  struct epoll_event event = {.events = writes ? EPOLLOUT : EPOLLIN};
  if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0) return set;
  (void)close(set);
#else
  (void)fd;
  (void)writes;
#endif
  return -1;
}

/* Pushes nil and an error's number. */
static int push_error(lua_State *L, int error) {
  lua_pushnil(L);
  lua_pushinteger(L, error);
  return 2;
}

/* polled(fd, writes, is_own) -> polled | false (a file: it is always ready) | nil, the error's number
   is_own: the program has opened it, non-blocking. Keeps a descriptor of its own, so `fd` may be closed. A file that is
   standard input is polled, too: a read of it is over when it returns, so that what was read can be given back. */
static int polled_open(lua_State *L) {
  int fd = (int)luaL_checkinteger(L, 1);
  bool writes = lua_toboolean(L, 2), is_own = lua_toboolean(L, 3);
  struct stat status;
  if (fstat(fd, &status) != 0) return push_error(L, errno);
  bool is_socket = S_ISSOCK(status.st_mode), is_input = S_ISREG(status.st_mode) && !writes && fd <= 2;
  if (!is_socket && !is_input && !S_ISFIFO(status.st_mode) && !(S_ISCHR(status.st_mode) && isatty(fd))) {
    lua_pushboolean(L, false);
    return 1;
  }
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return push_error(L, errno);
  if ((flags & O_ACCMODE) == (writes ? O_RDONLY : O_WRONLY)) return push_error(L, EBADF);
  Polled *p = (Polled *)lua_newuserdatauv(L, sizeof *p + (writes ? 0 : READ_SIZE), 0);
  *p = (Polled){.way = is_own ? OWN : is_socket ? SOCKET : ASKED, .fd = -1, .set = -1, .writes = writes};
  p->most = isatty(fd) ? 1 : PIPE_BUF;
  luaL_setmetatable(L, POLLED_META);
  if (p->way == ASKED && !is_input) {
    p->fd = reopen(fd, writes);
    if (p->fd >= 0) p->way = OWN;
  }
  if (p->fd < 0) p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (p->fd < 0) return push_error(L, errno);
  /* Not p->fd: a named pipe that is opened anew after its writers have gone does not tell of their end. */
  p->set = make_set(fd, writes);
  return 1;
}

/* ---- reading and writing ---- */

static bool is_ready(const Polled *p) {
  struct pollfd ready = {.fd = p->fd, .events = p->writes ? POLLOUT : POLLIN};
  if (p->set >= 0) ready = (struct pollfd){.fd = p->set, .events = POLLIN};
  int n = poll(&ready, 1, 0);
  return n > 0 || (n < 0 && errno != EINTR);
}

/* A named pipe which no writer has opened yet reads as if it was at its end: it is not ready then. */
static ssize_t try_read(Polled *p) {
  if (p->way == SOCKET) return recv(p->fd, p->bytes, READ_SIZE, MSG_DONTWAIT);
  if ((p->way == OWN && p->began) || is_ready(p)) {
    p->began = true;
    return read(p->fd, p->bytes, READ_SIZE);
  }
  errno = EAGAIN;
  return -1;
}

static ssize_t try_write(const Polled *p, const char *bytes, size_t n) {
  if (p->way == SOCKET) return send(p->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (p->way == OWN) return write(p->fd, bytes, n);
  if (is_ready(p)) return write(p->fd, bytes, n < p->most ? n : p->most);
  errno = EAGAIN;
  return -1;
}

/* Pushes nil and the error's number; or false if the caller has to wait. */
static int push_failure(lua_State *L) {
  if (errno != EAGAIN && errno != EWOULDBLOCK) return push_error(L, errno);
  lua_pushboolean(L, false);
  return 1;
}

/* polled:read() -> text, "" at the end | false (there is nothing yet) | nil, the error's number */
static int polled_read(lua_State *L) {
  Polled *p = (Polled *)luaL_checkudata(L, 1, POLLED_META);
  luaL_argcheck(L, !p->writes, 1, "it is for writing");
  if (p->count == 0) {
    ssize_t n;
    do n = try_read(p);
    while (n < 0 && errno == EINTR);
    if (n < 0) return push_failure(L);
    p->count = (size_t)n;
  }
  lua_pushlstring(L, p->bytes, p->count);
  p->count = 0;
  return 1;
}

/* polled:write(text, from) -> how many of the bytes from that position on were written | false (none can be written
   yet) | nil, the error's number */
static int polled_write(lua_State *L) {
  const Polled *p = (Polled *)luaL_checkudata(L, 1, POLLED_META);
  size_t length;
  const char *text = luaL_checklstring(L, 2, &length);
  lua_Integer from = luaL_checkinteger(L, 3);
  luaL_argcheck(L, from >= 1 && (lua_Unsigned)from <= length + 1, 3, "not a position in the text");
  ssize_t n;
  do n = try_write(p, text + from - 1, length - (size_t)from + 1);
  while (n < 0 && errno == EINTR);
  if (n < 0) return push_failure(L);
  lua_pushinteger(L, n);
  return 1;
}

/* polled:descriptor() -> one that is readable when it is ready; nil: there is none, so try again later */
static int polled_descriptor(lua_State *L) {
  const Polled *p = (Polled *)luaL_checkudata(L, 1, POLLED_META);
  if (p->set < 0) return 0;
  lua_pushinteger(L, p->set);
  return 1;
}

/* polled:close(), and __gc */
static int polled_close(lua_State *L) {
  Polled *p = (Polled *)luaL_checkudata(L, 1, POLLED_META);
  if (p->set >= 0) (void)close(p->set);
  if (p->fd >= 0) (void)close(p->fd);
  p->set = p->fd = -1;
  return 0;
}

/* ---- the standard descriptors ---- */

/* go_back(fd, n) -> whether the next read begins n bytes further in front: only of a file */
static int polled_go_back(lua_State *L) {
  off_t n = (off_t)luaL_checkinteger(L, 2);
  lua_pushboolean(L, lseek((int)luaL_checkinteger(L, 1), -n, SEEK_CUR) >= 0);
  return 1;
}

/* reserve(): see standard.h */
static int polled_reserve(lua_State *L) {
  (void)L;
  standard_reserve();
  return 0;
}

/* has_room() -> whether luv can open its descriptors (standard.h); if not: false and the error */
static int polled_has_room(lua_State *L) {
  lua_pushboolean(L, standard_has_room());
  if (lua_toboolean(L, -1)) return 1;
  lua_pushstring(L, strerror(errno));
  return 2;
}

/* The table `descriptors`. */
void lua_polled_open(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"read", polled_read},   {"write", polled_write}, {"descriptor", polled_descriptor},
      {"close", polled_close}, {"__gc", polled_close},  {NULL, NULL}};
  static const luaL_Reg functions[] = {{"polled", polled_open},
                                       {"go_back", polled_go_back},
                                       {"reserve", polled_reserve},
                                       {"has_room", polled_has_room},
                                       {NULL, NULL}};
  luaL_newmetatable(L, POLLED_META);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "descriptors");
}
