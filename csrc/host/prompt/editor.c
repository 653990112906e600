/* editor.c: see editor.h.

   libedit has the keys, the text and the history. It draws nothing: what it writes goes to /dev/null, and the line is
   drawn as a picture, since libedit knows no colours and no prompt before further lines.

   libedit asks for a key through read_key, which waits in wait_input and so lets go blocks run, in the middle of a
   search or of a key that sends several bytes, too. What they print hides the line; drawing_redraw shows it again. */
#include "host/prompt/editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <lauxlib.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "host/prompt/drawing.h"
#include "host/prompt/editing.h"
#include "host/prompt/keys.h"
#include "host/prompt/output.h"
#include "host/prompt/paste.h"
#include "host/prompt/restore.h"
#include "host/prompt/typed.h"
#include "host/prompt/utf8.h"
#include "host/prompt/width.h"
#include "host/runtime/wait.h"

enum { HISTORY = 1000 };

static Editing ed;

/* ---- keys ---- */

/* Whether libedit's search of the history is going on, which it shows in the last line. */
static bool is_searching(void) {
  const LineInfoW *line = el_wline(ed.el);
  const wchar_t *begin = editing_begin_of_line(line, line->lastchar);
  size_t length = (size_t)(line->lastchar - begin);
  return begin > line->buffer && length >= 4 && (!wmemcmp(begin, L"bck:", 4) || !wmemcmp(begin, L"fwd:", 4));
}

static int read_key(EditLine *el, wchar_t *key) {
  (void)el;
  keys_move_closing(&ed);
  if (ed.is_new) keys_begin(&ed);
  if (ed.is_new) drawing_show(&ed); /* at once, also while go blocks are busy */
  ed.is_new = false;
  int32_t c = utf8_read(&ed.reader, typed_next_byte, &ed);
  if (c == UTF8_END) return ed.interrupted ? -1 : 0;
  typed_wait_to_settle(&ed);
  drawing_show(&ed);
  *key = ed.key = (wchar_t)c;
  /* Escape ends a search; an arrow key, which begins with it, shall do that and then what it does */
  if (c == '\033' && wait_pending() > 0 && width_has_room() && is_searching()) width_keep(c);
  return 1;
}

/* ---- opening and closing ---- */

bool editor_open(lua_State *L, const char *program, int handlers, bool colours) {
  const char *term = getenv("TERM");
  if (!term || !*term || strcmp(term, "dumb") == 0) return false;
  if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) (void)setlocale(LC_CTYPE, "C.UTF-8");
  ed.nowhere = fopen("/dev/null", "w");
  if (!ed.nowhere) return false;
  ed.L = L;
  ed.colours = colours;
  ed.el = el_init_fd(program, stdin, ed.nowhere, ed.nowhere, STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO);
  ed.history = history_winit();
  if (!ed.el || !ed.history) return false;
  HistEventW event;
  (void)history_w(ed.history, &event, H_SETSIZE, HISTORY);
  (void)history_w(ed.history, &event, H_SETUNIQUE, 1);
  (void)el_wset(ed.el, EL_HIST, history_w, ed.history);
  (void)el_wset(ed.el, EL_EDITOR, L"emacs");
  (void)el_wset(ed.el, EL_GETCFN, read_key);
  (void)el_wset(ed.el, EL_CLIENTDATA, &ed);
  keys_bind(ed.el);
  (void)el_source(ed.el, NULL);
  lua_pushvalue(L, handlers);
  lua_setfield(L, LUA_REGISTRYINDEX, EDITING_HANDLERS);
  drawing_open(&ed);
  return true;
}

void editor_close(void) {
  output_before(NULL);
  if (ed.el) el_end(ed.el);
  if (ed.history) history_wend(ed.history);
  if (ed.nowhere) (void)fclose(ed.nowhere);
  picture_free(&ed.picture);
  ed.nowhere = NULL;
  ed.el = NULL;
  ed.history = NULL;
}

void editor_remember(const char *line) {
  HistEventW event;
  wchar_t *wide = ed.history ? utf8_to_wide(line) : NULL;
  if (wide) (void)history_w(ed.history, &event, H_ENTER, wide);
  free(wide);
}

/* Makes a prompt of a text. */
static void set_prompt(wchar_t prompt[EDITING_LONGEST_PROMPT], const char *text) {
  size_t length = mbstowcs(prompt, text, EDITING_LONGEST_PROMPT - 1);
  if (length == (size_t)-1) length = 0; /* the locale has no such characters */
  prompt[length] = L'\0';
}

LineEnd editor_read(lua_State *L, const EditorLine *what, bool *wants_earlier) {
  set_prompt(ed.prompt, what->prompt);
  set_prompt(ed.continued, what->continued);
  ed.text_before = what->before;
  ed.text_after = what->after;
  ed.has_earlier = what->has_earlier;
  ed.wants_earlier = *wants_earlier = false;
  ed.L = L;
  free(ed.block);
  ed.block = NULL;
  ed.interrupted = false;
  ed.shown = ed.is_left = false;
  ed.is_new = true;
  ed.length = 0;
  ed.back = 0;
  output_fresh_line();
  (void)restore_at_end(PASTE_ASK_NO_MORE "\r\n");
  (void)el_wset(ed.el, EL_PREP_TERM, 1); /* before the prompt appears: text typed then must not be echoed */
  drawing_begin_row();
  drawing_write(PASTE_ASK);
  int n;
  const wchar_t *line = el_wgets(ed.el, &n);
  output_before(NULL);
  *wants_earlier = ed.wants_earlier;
  drawing_write(PASTE_ASK_NO_MORE);
  restore_no_more();
  if (ed.interrupted) {
    if (!ed.shown) output_fresh_line();
    drawing_leave(&ed, "^C\r\n");
    return LINE_INTERRUPTED;
  }
  if (!line || n <= 0) {
    drawing_write("\r\n");
    output_forget_line();
    return LINE_NONE;
  }
  if (line[n - 1] == L'\n') n--;
  char *text = ed.block ? ed.block : utf8_from_wide(line, (size_t)n);
  ed.block = NULL;
  if (!ed.is_left) { /* another function has ended the line, as in libedit's vi mode */
    const LineInfoW *info = el_wline(ed.el);
    (void)el_cursor(ed.el, (int)(info->lastchar - info->cursor));
    if (info->lastchar > info->buffer && info->lastchar[-1] == L'\n') el_deletestr(ed.el, 1);
    drawing_leave(&ed, "\r\n");
  }
  lua_pushstring(L, text ? text : "");
  free(text);
  return LINE_COMPLETE;
}
