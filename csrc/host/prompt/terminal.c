/* terminal.c: see terminal.h. */
#include "host/prompt/terminal.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/prompt/editor.h"
#include "host/prompt/output.h"
#include "host/prompt/restore.h"
#include "host/runtime/call.h"
#include "host/runtime/interrupt.h"
#include "host/runtime/wait.h"

/* The first byte of an escape sequence; and for how long the further bytes of a key are waited for. */
enum { ESCAPE = 27, KEY_REST_MS = 50 };

/* The registry key of whether lines are edited. */
#define EDITS_KEY "runnel.host.edits"

/* Whether the terminal at a descriptor shows colours, and the user wants them (https://no-color.org). DEC's terminals,
   vt52 to vt520, have none. */
static bool shows_colours(int fd) {
  const char *term = getenv("TERM"), *unwanted = getenv("NO_COLOR");
  if (!isatty(fd) || !term || !*term || strcmp(term, "dumb") == 0 || (unwanted && *unwanted)) return false;
  return strncmp(term, "vt", 2) != 0 || !isdigit((unsigned char)term[2]);
}

/* colours() -> whether the standard output shows colours, and whether the standard error does */
static int term_colours(lua_State *L) {
  lua_pushboolean(L, shows_colours(STDOUT_FILENO));
  lua_pushboolean(L, shows_colours(STDERR_FILENO));
  return 2;
}

/* is_screen() -> whether the standard output is a terminal */
static int term_is_screen(lua_State *L) {
  lua_pushboolean(L, isatty(STDOUT_FILENO));
  return 1;
}

/* edit(program, handlers) -> whether read() edits lines from now on; editor.h describes the handlers */
static int term_edit(lua_State *L) {
  const char *program = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_pushboolean(L, isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
                         editor_open(L, program, 2, shows_colours(STDOUT_FILENO)));
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, EDITS_KEY);
  return 1;
}

/* read(prompt, continued, [before], [after], [has_earlier]) -> line | nil (the end) | false (Ctrl-C), whether it is to be
   edited with the earlier lines of its chunk. An edited line may have several, with `continued` before each but the
   first. See editor.h: EditorLine. */
static int term_read(lua_State *L) {
  const EditorLine what = {
      .prompt = luaL_checkstring(L, 1),
      .continued = luaL_checkstring(L, 2),
      .before = luaL_optstring(L, 3, NULL),
      .after = luaL_optstring(L, 4, NULL),
      .has_earlier = lua_toboolean(L, 5),
  };
  bool wants_earlier = false;
  lua_getfield(L, LUA_REGISTRYINDEX, EDITS_KEY);
  bool edits = lua_toboolean(L, -1);
  interrupt_catch(NULL);
  wait_run_first();
  LineEnd end = edits ? editor_read(L, &what, &wants_earlier) : lines_read(L, what.prompt);
  interrupt_release(NULL);
  if (end == LINE_NONE) lua_pushnil(L);
  else if (end == LINE_INTERRUPTED) lua_pushboolean(L, 0);
  lua_pushboolean(L, wants_earlier);
  return 2;
}

/* remember(chunk) */
static int term_remember(lua_State *L) {
  editor_remember(luaL_checkstring(L, 1));
  return 0;
}

/* The next byte of a key that has begun, or -1. The bytes of a key come at once, or a bit later over a slow line. */
static int rest_of_key(lua_State *L) {
  Waited waited;
  do waited = wait_input(L, KEY_REST_MS * CLOCK_MS, NULL, NULL);
  while (waited == WAITED_SIGNAL);
  return waited == WAITED_INPUT ? wait_read_byte() : -1;
}

/* Takes the further bytes of a key, so that they are not typed into the next line: of an escape sequence, or of a
   character of UTF-8. */
static void take_rest_of_key(lua_State *L, int byte) {
  bool is_escape = byte == ESCAPE;
  while (byte == ESCAPE) byte = rest_of_key(L); /* with Alt, some terminals send two */
  if (is_escape && byte == '[') {
    byte = rest_of_key(L);
    if (byte == '[') (void)rest_of_key(L);                     /* a function key of Linux's console */
    while (byte >= 0x20 && byte < 0x40) byte = rest_of_key(L); /* the parameters; what comes behind them ends it */
  } else if (is_escape && byte == 'O') {
    (void)rest_of_key(L);
  } else if (byte >= 0xC0) {
    for (int left = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1; left > 0; left--) (void)rest_of_key(L);
  }
}

/* key(ms) -> the first byte of a key that was pressed within the time | nil | false (Ctrl-C, or the end of the input) */
static int term_key(lua_State *L) {
  lua_Number ms = luaL_checknumber(L, 1);
  struct termios before, raw;
  bool is_terminal = tcgetattr(STDIN_FILENO, &before) == 0 && restore_at_end("");
  if (is_terminal) {
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  }
  Waited waited;
  do waited = wait_input(L, (int64_t)(ms * 1e6), NULL, NULL);
  while (waited == WAITED_SIGNAL);
  int byte = waited == WAITED_TIME ? -1 : wait_read_byte();
  if (is_terminal) take_rest_of_key(L, byte);
  if (is_terminal) (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
  restore_no_more();
  if (byte >= 0) lua_pushfstring(L, "%c", byte);
  else if (waited == WAITED_TIME) lua_pushnil(L);
  else lua_pushboolean(L, 0);
  return 1;
}

/* more() -> whether more input can be read now */
static int term_more(lua_State *L) {
  lua_pushboolean(L, wait_more_input());
  return 1;
}

/* run(f, ...) -> true, results | false, message with traceback: calls f; Ctrl-C interrupts it. */
static int term_run(lua_State *L) {
  luaL_checkany(L, 1);
  int status = call_run(L, lua_gettop(L) - 1, LUA_MULTRET);
  luaL_checkstack(L, 1, "too many results");
  if (interrupt_came() && isatty(STDIN_FILENO)) (void)fputs("\n", stdout); /* after the terminal's ^C */
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 1);
  return lua_gettop(L);
}

/* describe(f): sets f(err), which returns the text of an error that is a table */
static int term_describe(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_setfield(L, LUA_REGISTRYINDEX, CALL_DESCRIBE_KEY);
  return 0;
}

/* append(path, text) -> true | nil, an error. A new file is readable only by its owner. */
static int term_append(lua_State *L) {
  size_t size;
  const char *path = luaL_checkstring(L, 1), *text = luaL_checklstring(L, 2, &size);
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return luaL_fileresult(L, 0, path);
  ssize_t written = write(fd, text, size);
  int problem = written < 0 ? errno : written == (ssize_t)size ? 0 : ENOSPC;
  (void)close(fd);
  errno = problem;
  return luaL_fileresult(L, problem == 0, path);
}

/* real_path(path) -> the path without symbolic links | nil, an error */
static int term_real_path(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  char real[PATH_MAX];
  if (!realpath(path, real)) return luaL_fileresult(L, 0, path);
  lua_pushstring(L, real);
  return 1;
}

/* Protected: (directory) -> list of the names in it. */
static int list_files(lua_State *L) {
  DIR *dir = (DIR *)lua_touserdata(L, 1);
  const struct dirent *entry;
  int fd = dirfd(dir);
  lua_newtable(L);
  for (lua_Integer n = 1; (entry = readdir(dir)) != NULL;) { // cppcheck-suppress readdirCalled
    struct stat status;
    if (entry->d_name[0] == '.') continue;
    bool is_dir = fd >= 0 && fstatat(fd, entry->d_name, &status, 0) == 0 && S_ISDIR(status.st_mode);
    lua_pushfstring(L, is_dir ? "%s/" : "%s", entry->d_name);
    lua_rawseti(L, -2, n++);
  }
  return 1;
}

/* files(directory) -> list of the names in it, with a / after directories; nil if it cannot be read */
static int term_files(lua_State *L) {
  DIR *dir = opendir(luaL_checkstring(L, 1));
  if (!dir) return 0;
  lua_pushcfunction(L, list_files);
  lua_pushlightuserdata(L, dir);
  int status = lua_pcall(L, 1, 1, 0);
  (void)closedir(dir);
  return status == LUA_OK ? 1 : lua_error(L);
}

/* How many rows are painted; the next output removes them from the screen. */
static int painted;

static void unpaint(void) {
  if (painted > 0) {
    char move[32];
    int n = snprintf(move, sizeof move, "\r\033[%dA\033[J", painted);
    painted = 0;
    if (write(STDOUT_FILENO, move, (size_t)n) < 0) return;
  }
}

/* paint(text, rows, keep): shows a text with that number of rows, instead of the previously painted text; output
   appears above it. With `keep` the text stays on the screen. */
static int term_paint(lua_State *L) {
  const char *text = luaL_checkstring(L, 1);
  int rows = (int)luaL_checkinteger(L, 2);
  output_before(NULL);
  output_fresh_line();
  unpaint();
  (void)fputs(text, stdout);
  (void)fflush(stdout);
  if (lua_toboolean(L, 3)) return 0;
  painted = rows;
  output_before(unpaint);
  return 0;
}

/* size() -> lines, columns */
static int term_size(lua_State *L) {
  int rows, columns;
  output_size(&rows, &columns);
  lua_pushinteger(L, rows);
  lua_pushinteger(L, columns);
  return 2;
}

int terminal_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"colours", term_colours},
      {"is_screen", term_is_screen},
      {"edit", term_edit},
      {"read", term_read},
      {"remember", term_remember},
      {"key", term_key},
      {"more", term_more},
      {"run", term_run},
      {"size", term_size},
      {"paint", term_paint},
      {"append", term_append},
      {"files", term_files},
      {"describe", term_describe},
      {"real_path", term_real_path},
      {NULL, NULL},
  };
  luaL_newlib(L, functions);
  return 1;
}
