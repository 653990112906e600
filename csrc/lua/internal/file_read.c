/* file_read.c: files, read in the calling thread as long as that does not wait for a disk: a thread for it costs more than
   the read. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): for in_memory.h */
#endif
#include <lauxlib.h>
#include <sys/stat.h>

#include "lua/module.h"
#include "port/in_memory.h"

/* How many bytes a read gets at most. */
enum { READ_SIZE = 64 * 1024 };

/* read_in_memory(fd, max, at) -> text, the file's size | false (it may have to wait) | nil (the system cannot tell) | nil,
   an error's number. `at`: the offset; -1 is the file's own position, which moves on. */
static int read_in_memory(lua_State *L) {
  int fd = (int)luaL_checkinteger(L, 1);
  lua_Integer max = luaL_checkinteger(L, 2), at = luaL_checkinteger(L, 3);
  luaL_argcheck(L, max > 0, 2, "must be positive");
  char bytes[READ_SIZE];
  ptrdiff_t n = in_memory_read(fd, bytes, max < READ_SIZE ? (size_t)max : READ_SIZE, (off_t)at);
  struct stat stat;
  if (n >= 0 && fstat(fd, &stat) == 0) {
    lua_pushlstring(L, bytes, (size_t)n);
    lua_pushinteger(L, stat.st_size);
    return 2;
  }
  if (errno == EAGAIN) {
    lua_pushboolean(L, false); /* seldom covered: the file system may have all files in memory */
    return 1;
  }
  lua_pushnil(L);
  if (errno == EOPNOTSUPP) return 1;
  lua_pushinteger(L, errno);
  return 2;
}

/* Adds to the table `descriptors`. */
void lua_file_read_open(lua_State *L) {
  lua_getfield(L, -1, "descriptors");
  lua_pushcfunction(L, read_in_memory);
  lua_setfield(L, -2, "read_in_memory");
  lua_pop(L, 1);
}
