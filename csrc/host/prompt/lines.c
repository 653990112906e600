/* lines.c: see lines.h. */
#include "host/prompt/lines.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "host/prompt/output.h"
#include "host/runtime/interrupt.h"
#include "host/runtime/wait.h"

/* Does not use a luaL_Buffer, which would be on the stack while wait_input uses it. */
LineEnd lines_read(lua_State *L, const char *prompt) {
  char piece[BUFSIZ];
  size_t length = 0;
  bool is_typed = isatty(STDIN_FILENO);
  output_fresh_line();
  output_forget_line();
  (void)fputs(prompt, stdout);
  (void)fflush(stdout);
  lua_pushliteral(L, "");
  for (;;) {
    Waited waited = wait_input(L, -1, NULL, NULL);
    if (waited == WAITED_SIGNAL) continue;
    /* Input after Ctrl-C belongs to the next line. */
    int byte = wait_read_byte();
    if (byte < 0 && interrupt_pending()) {
      lua_pop(L, 1);
      return LINE_INTERRUPTED;
    }
    if (byte >= 0 && byte != '\n') piece[length++] = (char)byte;
    if (byte >= 0 && byte != '\n' && length < sizeof piece) continue;
    lua_pushlstring(L, piece, length);
    lua_concat(L, 2);
    length = 0;
    if (byte == '\n') {
      if (is_typed) output_forget_line(); /* the terminal has shown it */
      return LINE_COMPLETE;
    }
    if (byte >= 0) continue;
    if (lua_rawlen(L, -1) > 0) return LINE_COMPLETE;
    lua_pop(L, 1);
    return LINE_NONE;
  }
}
