/* folder.c: opens files of a folder for http.files, in the Lua thread and without waiting: what is not in memory, the
   names of a path or the bytes of a file, is left to the caller, who asks again in another thread. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): declares O_PATH and syscall */
#endif
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#if __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#endif
#endif

#include "http/server/server.h"

#define FILE_TYPE "runnel.http.file"

typedef struct File {
  int fd; /* owned; -1: closed, or taken */
} File;

/* In place of a descriptor: whether there is such a file is unknown, and the caller opens it in another thread. */
enum { UNSURE = -2 };

#if defined(SYS_openat2) && defined(RESOLVE_CACHED)

/* Opens a path at a folder, or returns -1, with errno: EAGAIN if a name of it is not in memory. */
static int open_cached(int at, const char *path, uint64_t flags, uint64_t resolve) {
  struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve | RESOLVE_CACHED};
  return (int)syscall(SYS_openat2, at, path, &how, sizeof how);
}

/* Opens a file of a folder; returns -1 if there is none, or UNSURE if only a closer look can tell. Unless `leaves`, no
   link leads out of the folder; an absolute one that leads into it is one to look at. */
static int open_below(const char *folder, const char *path, bool leaves) {
  int root = open_cached(AT_FDCWD, folder, O_PATH | O_DIRECTORY, 0);
  if (root < 0) return UNSURE;
  int fd = open_cached(root, path, O_RDONLY | O_NONBLOCK, leaves ? 0 : RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
  int error = errno;
  (void)close(root);
  return fd >= 0 ? fd : error == ENOENT || error == ENOTDIR ? -1 : UNSURE;
}

#else

static int open_below(const char *folder, const char *path, bool leaves) {
  (void)folder;
  (void)path;
  (void)leaves;
  return UNSURE;
}

#endif

/* file:close(), which may be called again. (No HandleType: only the Lua thread uses a file.) */
static int close_file(lua_State *L) {
  File *file = (File *)luaL_checkudata(L, 1, FILE_TYPE);
  if (file->fd >= 0) (void)close(file->fd);
  file->fd = -1;
  return 0;
}

/* The longest file that is read at once. */
enum { AT_ONCE = 64 * 1024 };

/* Pushes a buffer of AT_ONCE bytes: always the same one, the first upvalue, since new memory costs more than the read. */
static char *push_buffer(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  if (!lua_isnil(L, -1)) return (char *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  char *buffer = (char *)lua_newuserdatauv(L, AT_ONCE, 0);
  lua_pushvalue(L, -1);
  lua_replace(L, lua_upvalueindex(1));
  return buffer;
}

/* Pushes the bytes of a file and returns true, if they are in memory. */
static bool push_bytes(lua_State *L, int fd, size_t size) {
  char *buffer = push_buffer(L);
  ptrdiff_t n = size ? part_read(fd, buffer, size, 0) : 0;
  if (n == (ptrdiff_t)size) lua_pushlstring(L, buffer, size);
  return n == (ptrdiff_t)size;
}

/* open(folder, path, leaves, reads) -> file or bytes, size, s and ns of its last change | false: there is none |
   "folder" | nil: only a closer look can tell. `leaves`: symbolic links may lead out of the folder. `reads`: a file of at
   most 64 KB that are in memory is read at once. */
static int open_file(lua_State *L) {
  enum { FILE_AT = 5 }; /* the index of the userdata */
  const char *folder = luaL_checkstring(L, 1), *path = luaL_checkstring(L, 2);
  bool reads = lua_toboolean(L, 4);
  lua_settop(L, FILE_AT - 1);
  File *file = (File *)lua_newuserdatauv(L, sizeof *file, 0);
  file->fd = -1;
  luaL_setmetatable(L, FILE_TYPE);
  file->fd = open_below(folder, *path ? path : ".", lua_toboolean(L, 3));
  if (file->fd == UNSURE) return 0;
  if (file->fd < 0) {
    lua_pushboolean(L, false);
    return 1;
  }
  struct stat stat;
  bool is_known = fstat(file->fd, &stat) == 0;
  if (!is_known || !S_ISREG(stat.st_mode)) {
    (void)close(file->fd);
    file->fd = -1;
    if (is_known && S_ISDIR(stat.st_mode)) lua_pushliteral(L, "folder");
    else lua_pushboolean(L, false);
    return 1;
  }
  if (reads && stat.st_size <= AT_ONCE && push_bytes(L, file->fd, (size_t)stat.st_size)) {
    (void)close(file->fd);
    file->fd = -1;
  } else {
    lua_pushvalue(L, FILE_AT);
  }
  lua_pushinteger(L, (lua_Integer)stat.st_size);
  lua_pushinteger(L, (lua_Integer)stat.st_mtim.tv_sec);
  lua_pushinteger(L, (lua_Integer)stat.st_mtim.tv_nsec);
  return 4;
}

/* file:read(offset, size) -> bytes, at least one | "": the file ends before | nil: they are not in memory, or cannot be
   read */
static int read_file(lua_State *L) {
  const File *file = (const File *)luaL_checkudata(L, 1, FILE_TYPE);
  off_t at = (off_t)luaL_checkinteger(L, 2);
  size_t size = (size_t)luaL_checkinteger(L, 3);
  luaL_Buffer buffer;
  char *to = luaL_buffinitsize(L, &buffer, size);
  ptrdiff_t n = part_read(file->fd, to, size, at);
  luaL_pushresultsize(&buffer, n > 0 ? (size_t)n : 0);
  if (n < 0) lua_pushnil(L);
  return 1;
}

int folder_take(lua_State *L, int at) {
  File *file = (File *)luaL_checkudata(L, at, FILE_TYPE);
  int fd = file->fd;
  file->fd = -1;
  return fd;
}

/* file:take() -> its descriptor, which is now the caller's */
static int take_file(lua_State *L) {
  lua_pushinteger(L, folder_take(L, 1));
  return 1;
}

void folder_push_open(lua_State *L) {
  lua_pushnil(L); /* its buffer, before the first use */
  lua_pushcclosure(L, open_file, 1);
}

void folder_init(lua_State *L) {
  static const luaL_Reg methods[] = {{"__close", close_file}, {"__gc", close_file}, {"close", close_file},
                                     {"read", read_file},     {"take", take_file},  {NULL, NULL}};
  luaL_newmetatable(L, FILE_TYPE);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
