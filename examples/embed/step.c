/* A program with its own poll loop that calls step, for any Lua, without the C core: runnel.lite. Lines of standard input
   go to a Lua script, which may wait for several things at a time; the program never blocks for longer than the script's
   next deadline. mpv, HAProxy and others with a Lua inside would do the same.

     cc -o step step.c $(pkg-config --cflags --libs luajit)       or lua5.1, ..., lua5.5
     LUA_PATH='../../lua/?.lua' ./step step.lua */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The script is called with `now`. It returns two functions: step(ms) and on_line(line), which gets nil at the end. */
enum { STEP = 1, ON_LINE = 2 };

typedef struct Input {
  char bytes[4096]; /* the beginning of a line */
  size_t used;
  bool at_end;
} Input;

static const double TURN = 2; /* ms that the script may take before the program looks at its input again */

static int now(lua_State *L) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  lua_pushnumber(L, (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6);
  return 1;
}

/* Prints the error that lua_pcall has left. */
static bool failed(lua_State *L) {
  const char *text = lua_tostring(L, -1);
  (void)fprintf(stderr, "%s\n", text ? text : "(an error without a text)");
  lua_pop(L, 1);
  return false;
}

static bool start(lua_State *L, const char *file) {
  if (luaL_loadfile(L, file)) return failed(L);
  lua_pushcfunction(L, now);
  return lua_pcall(L, 1, 2, 0) == 0 || failed(L);
}

/* How long the program may wait: ms, 0 if go blocks are ready, negative if there is nothing that the script waits for. */
static bool step(lua_State *L, double *left) {
  lua_pushvalue(L, STEP);
  lua_pushnumber(L, TURN);
  if (lua_pcall(L, 1, 1, 0)) return failed(L);
  *left = lua_isnil(L, -1) ? -1 : lua_tonumber(L, -1);
  lua_pop(L, 1);
  return true;
}

/* Hands over a line, or NULL at the end. */
static bool hand_over(lua_State *L, const char *line, size_t length) {
  lua_pushvalue(L, ON_LINE);
  if (line) lua_pushlstring(L, line, length);
  else lua_pushnil(L);
  return lua_pcall(L, 1, 0, 0) == 0 || failed(L);
}

/* Reads what is there, and hands over the lines of it. A longer line than the buffer comes in parts. */
static bool read_lines(lua_State *L, Input *input) {
  ssize_t n = read(STDIN_FILENO, input->bytes + input->used, sizeof input->bytes - input->used);
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  input->used += (size_t)n;
  input->at_end = n == 0;
  char *line = input->bytes, *end = line + input->used, *newline;
  while ((newline = (char *)memchr(line, '\n', (size_t)(end - line)))) {
    if (!hand_over(L, line, (size_t)(newline - line))) return false;
    line = newline + 1;
  }
  size_t rest = (size_t)(end - line);
  if (rest == sizeof input->bytes || (input->at_end && rest)) {
    if (!hand_over(L, line, rest)) return false;
    rest = 0;
  }
  memmove(input->bytes, line, rest);
  input->used = rest;
  return !input->at_end || hand_over(L, NULL, 0);
}

static bool run(lua_State *L, const char *file) {
  if (!start(L, file)) return false;
  Input input = {.used = 0};
  double left = 0;
  while (step(L, &left)) {
    if (input.at_end && left < 0) return true;
    struct pollfd pollfd = {.fd = STDIN_FILENO, .events = POLLIN};
    int timeout = left < 0 ? -1 : (int)ceil(left > 1e9 ? 1e9 : left);
    if (poll(&pollfd, input.at_end ? 0 : 1, timeout) > 0 && !read_lines(L, &input)) return false;
  }
  return false;
}

int main(int argc, char **argv) {
  if (argc != 2) return (void)fprintf(stderr, "usage: %s SCRIPT\n", argv[0]), 2;
  lua_State *L = luaL_newstate();
  if (!L) return 1;
  luaL_openlibs(L);
  (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* what the script prints is seen at once */
  bool ok = run(L, argv[1]);
  lua_close(L);
  return ok ? 0 : 1;
}
