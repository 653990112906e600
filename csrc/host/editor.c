/* editor.c: see editor.h.

   libedit asks for a key through read_key, which waits in wait_input and so lets go blocks run, in the middle of a
   search or of a key that sends several bytes, too. What they print calls hide; redraw shows the line again. */
#include "host/editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <lauxlib.h>
#include <locale.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "base/clock.h"
#include "host/interrupt.h"
#include "host/output.h"
#include "host/paste.h"
#include "host/screen.h"
#include "host/utf8.h"
#include "host/wait.h"
#include "host/width.h"

enum { HISTORY = 1000, LONGEST_PROMPT = 64, COLOUR = 16 };

/* A paste that is larger than this, or higher than the screen, is not put into the line but is the whole chunk. */
enum { LONGEST_PASTE = 4096 };

/* With this many bytes available, a terminal has pasted them as if they were typed; no user types so far ahead. */
enum { PASTED = 16 };

/* How long the size of the screen must be unchanged before the line is drawn again. A terminal that is being resized by
   hand wraps the line anew many times a second, and tmux gives programs the new size up to 250 ms later. */
static const int64_t SETTLE_NS = 300 * CLOCK_MS;

/* How long the terminal may take to report its width, and how often it is asked while that differs from the
   kernel's. */
static const int64_t ANSWER_NS = 1000 * CLOCK_MS;
enum { ASK_AT_MOST = 20 };

/* A line hidden by output is drawn again after this time even if more output follows. */
static const int64_t HIDDEN_NS = 30 * CLOCK_MS;

/* The registry key of the completing function. */
#define COMPLETE_KEY "runnel.host.complete"

/* There is one terminal; a signal and libedit's callbacks must find it. */
static struct {
  EditLine *el;                              /* libedit's editor, or NULL */
  HistoryW *history;                         /* earlier entries */
  FILE *screen;                              /* the editor's own stream, which does not hide the line */
  lua_State *L;                              /* the main thread */
  wchar_t prompt[LONGEST_PROMPT];            /* the prompt before the line */
  wchar_t coloured[LONGEST_PROMPT + COLOUR]; /* the coloured prompt */
  bool colours;                              /* the terminal shows colours, and the user wants them */
  bool shown;                                /* the line is on the screen */
  int64_t hidden_at;                         /* when it was hidden */
  bool interrupted;                          /* Ctrl-C ended the line */
  bool settling;                             /* the size of the screen has changed, and the line was not drawn since */
  int64_t resized_at;                        /* when the size changed */
  int64_t asked_at;                          /* when the terminal was then asked for its width, or 0 */
  int times_asked;                           /* how often it was asked since */
  bool answers;                              /* it has answered before */
  bool is_mute;                              /* it does not answer */
  char *block;           /* a paste that is a chunk of its own, with the text around it in the line; or NULL */
  struct termios before; /* the terminal's original state */
  Utf8Reader reader;     /* makes characters of bytes */
} ed;

static volatile sig_atomic_t resized, continued;

/* ---- drawing ---- */

/* Moves (row, column) on by a character, as libedit shows it. */
static void advance(wchar_t c, int columns, int *row, int *column) {
  int width = 1;
  if (c == L'\t') width = 8 - *column % 8;
  else if (c == L'\n') width = columns - *column;
  else if (c < 32 || c == 127) width = 2;                        /* ^A */
  else if ((width = wcwidth(c)) < 0) width = c > 0xFFFF ? 9 : 8; /* \U+12345 */
  if (width <= columns && *column + width > columns) {           /* a wide one does not fit */
    ++*row;
    *column = 0;
  }
  *column += width;
  while (*column >= columns) {
    ++*row;
    *column -= columns;
  }
}

/* The present size of the screen: libedit learns of a change later than the terminal, which has wrapped the line
   anew. */
static void screen_size(int *rows, int *columns) {
  struct winsize size;
  bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
  *rows = known ? size.ws_row : 24;
  *columns = known ? size.ws_col : 80;
}

/* How many rows the cursor is below the beginning of the prompt. */
static int cursor_row(void) {
  int rows, columns, row = 0, column = 0;
  screen_size(&rows, &columns);
  for (const wchar_t *c = ed.prompt; *c; c++) advance(*c, columns, &row, &column);
  const LineInfoW *line = el_wline(ed.el);
  for (const wchar_t *c = line->buffer; c < line->cursor; c++) advance(*c, columns, &row, &column);
  return row < rows ? row : rows - 1;
}

/* Takes the line off the screen; the cursor is then where the line began. */
static void hide(void) {
  if (!ed.shown) return;
  ed.shown = false;
  ed.hidden_at = clock_ns();
  int row = cursor_row();
  (void)fputs("\r", ed.screen);
  if (row > 0) (void)fprintf(ed.screen, "\033[%dA", row);
  (void)fputs("\033[J", ed.screen);
  (void)fflush(ed.screen);
}

/* Draws the line below the output. */
static void show(void) {
  if (ed.shown) return;
  output_fresh_line();
  (void)el_wset(ed.el, EL_REFRESH);
  ed.shown = true;
  output_before(hide);
}

/* Whether the kernel knows the present size of the screen. A terminal may report it late, and until then the line must
   not be drawn: the computed beginning of the line would be wrong, and a part of it would stay on the screen. */
static bool size_is_known(void) {
  int rows, columns;
  if (ed.is_mute) return true;
  if (ed.asked_at == 0) {
    ed.asked_at = clock_ns();
    width_ask(ed.screen);
    return false;
  }
  if (width_answer() == 0) {
    ed.is_mute = !ed.answers && clock_ns() - ed.asked_at > ANSWER_NS;
    return clock_ns() - ed.asked_at > ANSWER_NS;
  }
  ed.answers = true;
  screen_size(&rows, &columns);
  if (width_answer() == columns || ++ed.times_asked >= ASK_AT_MOST) return true;
  ed.asked_at = 0;
  ed.resized_at = clock_ns(); /* the kernel will be informed */
  return false;
}

/* Draws the line for the present size of the screen. */
static void settle(void) {
  if (!ed.settling) return;
  ed.settling = false;
  hide();
  el_resize(ed.el);
}

/* The callback of wait_input. */
static void redraw(void *ud, bool busy) {
  (void)ud;
  (void)fflush(stdout);
  if (resized) {
    resized = 0;
    ed.settling = true;
    ed.resized_at = clock_ns();
    ed.asked_at = 0;
    ed.times_asked = 0;
  }
  if (ed.settling && (clock_ns() - ed.resized_at < SETTLE_NS || !size_is_known())) return;
  settle();
  if (continued) {
    continued = 0;
    ed.shown = false;
    (void)el_wset(ed.el, EL_PREP_TERM, 0);
    (void)el_wset(ed.el, EL_PREP_TERM, 1);
  }
  if (!busy || clock_ns() - ed.hidden_at > HIDDEN_NS) show();
}

static wchar_t *get_prompt(EditLine *el) {
  (void)el;
  return ed.coloured;
}

/* ---- keys ---- */

/* The next byte; or -1 at the end of the input, or after Ctrl-C. */
static int next_byte(void *ud) {
  (void)ud;
  for (;;) {
    Waited waited;
    int kept = width_next();
    if (kept >= 0) return kept;
    do waited = wait_input(ed.L, ed.settling || resized ? SETTLE_NS : -1, redraw, NULL);
    while (waited == WAITED_SIGNAL || waited == WAITED_TIME);
    int byte = wait_read_byte();
    if (byte < 0 && interrupt_pending()) ed.interrupted = true;
    if (byte < 0 || !width_takes(byte)) return byte;
  }
}

/* Lets go blocks run until the screen has settled: output drawn earlier, for an outdated size, could not be removed. */
static void wait_to_settle(void) {
  static const struct timespec pause = {.tv_nsec = 5 * CLOCK_MS};
  while (ed.settling || resized) {
    (void)nanosleep(&pause, NULL);
    wait_run_first();
    if (wait_input(ed.L, 0, redraw, NULL) != WAITED_INPUT || !width_has_room()) continue;
    int byte = wait_read_byte(); /* of the terminal's answer, or of a key to be read later */
    if (byte < 0) break;
    if (!width_takes(byte)) width_keep(byte);
  }
}

static int read_key(EditLine *el, wchar_t *key) {
  (void)el;
  int32_t c = utf8_read(&ed.reader, next_byte, NULL);
  if (c == UTF8_END) return ed.interrupted ? -1 : 0;
  wait_to_settle();
  show();
  *key = (wchar_t)c;
  return 1;
}

/* ---- changing the line ---- */

/* Inserts text at the cursor. */
static void insert(const char *text) {
  wchar_t *wide = utf8_to_wide(text);
  if (wide && *wide) (void)el_winsertstr(ed.el, wide);
  free(wide);
}

/* How many rows the screen has for the prompt and a text. */
static int rows_of(const char *text) {
  int rows, columns, row = 0, column = 0;
  screen_size(&rows, &columns);
  wchar_t *wide = utf8_to_wide(text);
  for (const wchar_t *c = wide; c && *c; c++) advance(*c, columns, &row, &column);
  free(wide);
  return row + 1;
}

/* Moves the cursor, as the arrow keys do in a chunk of several lines: to the same column of the line above (-1) or
   below (1). False if there is none. */
static bool move_line(EditLine *el, int direction) {
  const LineInfoW *line = el_wline(el);
  const wchar_t *begin = line->cursor, *to;
  while (begin > line->buffer && begin[-1] != L'\n') begin--;
  if (direction < 0) {
    if (begin == line->buffer) return false;
    const wchar_t *end = begin - 1;
    for (to = end; to > line->buffer && to[-1] != L'\n';) to--;
    for (ptrdiff_t n = line->cursor - begin; n > 0 && to < end; n--) to++;
  } else {
    for (to = line->cursor; to < line->lastchar && *to != L'\n';) to++;
    if (to == line->lastchar) return false;
    to++;
    for (ptrdiff_t n = line->cursor - begin; n > 0 && to < line->lastchar && *to != L'\n'; n--) to++;
  }
  (void)el_cursor(el, (int)(to - line->cursor));
  return true;
}

/* The arrows up and down: lines of the edited chunk, and older and newer chunks. At the end of the chunk, where the
   cursor is after fetching one, they continue to the next chunk. */

static unsigned char up(EditLine *el, int c) {
  (void)c;
  const LineInfoW *line = el_wline(el);
  if (line->cursor < line->lastchar && move_line(el, -1)) return CC_CURSOR;
  el_wpush(el, L"\020"); /* Ctrl-P */
  return CC_NORM;
}

static unsigned char down(EditLine *el, int c) {
  (void)c;
  const LineInfoW *line = el_wline(el);
  if (line->cursor < line->lastchar && move_line(el, 1)) return CC_CURSOR;
  el_wpush(el, L"\016"); /* Ctrl-N */
  return CC_NORM;
}

/* ---- pasting ---- */

/* Shows the beginning of the block in the line. */
static void show_beginning(const char *text) {
  int rows, columns;
  screen_size(&rows, &columns);
  char *beginning = paste_beginning(text, columns);
  if (beginning) insert(beginning);
  free(beginning);
}

/* The key that begins a paste. A paste that ends with a newline is entered as if the Enter key had followed. One that
   is too large for editing is entered in any case, and only its beginning is shown. */
static unsigned char paste(EditLine *el, int c) {
  (void)c;
  char *text = paste_read(next_byte, NULL);
  if (!text) return ed.interrupted ? CC_EOF : CC_ERROR;
  size_t size = strlen(text), kept = size;
  while (kept > 0 && text[kept - 1] == '\n') kept--;
  text[kept] = '\0';
  bool enter = kept < size;
  int rows, columns;
  screen_size(&rows, &columns);
  if (kept > LONGEST_PASTE || rows_of(text) > rows - 2) {
    const LineInfoW *line = el_wline(el);
    char *before = utf8_from_wide(line->buffer, (size_t)(line->cursor - line->buffer));
    char *after = utf8_from_wide(line->cursor, (size_t)(line->lastchar - line->cursor));
    size_t room = before && after ? strlen(before) + kept + strlen(after) + 1 : 0;
    free(ed.block);
    ed.block = room > 0 ? (char *)malloc(room) : NULL;
    if (ed.block) (void)snprintf(ed.block, room, "%s%s%s", before, text, after);
    free(before);
    free(after);
    show_beginning(text);
    enter = true;
  } else {
    insert(text);
  }
  free(text);
  if (enter && el_wline(el)->lastchar > el_wline(el)->buffer) el_wpush(el, L"\n");
  return CC_REFRESH;
}

/* The key that ends a paste, without a beginning. */
static unsigned char nothing(EditLine *el, int c) {
  (void)el;
  (void)c;
  return CC_NORM;
}

/* ---- completion ---- */

/* Prints the candidates, a list on top of L, in columns. */
static void print_candidates(lua_State *L) {
  int rows_of_screen, columns;
  size_t widest = 1, n = lua_rawlen(L, -1), length;
  screen_size(&rows_of_screen, &columns);
  for (size_t i = 1; i <= n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, -1, (lua_Integer)i);
    if (lua_tolstring(L, -1, &length) && length > widest) widest = length;
  }
  size_t in_row = (size_t)columns / (widest + 2), rows;
  if (in_row == 0) in_row = 1;
  rows = (n + in_row - 1) / in_row;
  for (size_t row = 0; row < rows; row++) {
    for (size_t i = row; i < n; i += rows) {
      lua_rawgeti(L, -1, (lua_Integer)i + 1);
      bool last = i + rows >= n;
      (void)printf("%-*s%s", last ? 0 : (int)widest + 2, lua_tostring(L, -1), last ? "\n" : "");
      lua_pop(L, 1);
    }
  }
}

/* The Tab key. */
static unsigned char complete(EditLine *el, int c) {
  (void)c;
  lua_State *L = ed.L;
  int top = lua_gettop(L);
  const LineInfoW *line = el_wline(el);
  const wchar_t *before = line->cursor;
  while (before > line->buffer && (before[-1] == L' ' || before[-1] == L'\t')) before--;
  bool blank = before == line->buffer || before[-1] == L'\n';
  int pending = wait_pending();
  if (blank || pending >= PASTED) { /* also a tab in a text that a terminal pastes as if it were typed */
    insert(pending > 0 ? "\t" : "  ");
    return CC_REFRESH;
  }
  lua_getfield(L, LUA_REGISTRYINDEX, COMPLETE_KEY);
  char *text = utf8_from_wide(line->buffer, (size_t)(line->cursor - line->buffer));
  if (!text) return CC_ERROR;
  lua_pushstring(L, text);
  free(text);
  unsigned char result = CC_ERROR;
  if (lua_pcall(L, 1, 2, 0) == LUA_OK && lua_isstring(L, -2)) {
    const char *inserted = lua_tostring(L, -2);
    insert(inserted);
    result = *inserted ? CC_REFRESH : CC_NORM;
    if (lua_istable(L, -1)) {
      print_candidates(L); /* which hides the line */
      show();
      result = CC_NORM;
    }
  }
  lua_settop(L, top);
  return result;
}

/* ---- signals ---- */

static void note_resize(int signal_number) {
  (void)signal_number;
  resized = 1;
}

static void note_continue(int signal_number) {
  (void)signal_number;
  continued = 1;
}

/* A signal that ends the process: restores the terminal first. */
static void restore_and_die(int signal_number) {
  (void)tcsetattr(STDIN_FILENO, TCSANOW, &ed.before);
  if (write(STDOUT_FILENO, PASTE_ASK_NO_MORE, strlen(PASTE_ASK_NO_MORE)) < 0) (void)0;
  (void)signal(signal_number, SIG_DFL);
  (void)raise(signal_number);
}

static void catch_signal(int signal_number, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler}, before;
  sigemptyset(&action.sa_mask);
  if (sigaction(signal_number, NULL, &before) == 0 && before.sa_handler == SIG_DFL) {
    (void)sigaction(signal_number, &action, NULL);
  }
}

/* ---- opening and closing ---- */

bool editor_open(lua_State *L, const char *program, int complete_function, bool colours) {
  const char *term = getenv("TERM");
  if (!term || !*term || strcmp(term, "dumb") == 0) return false;
  if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) (void)setlocale(LC_CTYPE, "C.UTF-8");
  if (tcgetattr(STDIN_FILENO, &ed.before) != 0) return false;
  ed.screen = screen_open();
  if (!ed.screen) return false;
  ed.L = L;
  ed.colours = colours;
  ed.el = el_init_fd(program, stdin, ed.screen, ed.screen, STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO);
  ed.history = history_winit();
  if (!ed.el || !ed.history) return false;
  HistEventW event;
  (void)history_w(ed.history, &event, H_SETSIZE, HISTORY);
  (void)history_w(ed.history, &event, H_SETUNIQUE, 1);
  (void)el_wset(ed.el, EL_HIST, history_w, ed.history);
  (void)el_wset(ed.el, EL_PROMPT_ESC, get_prompt, L'\1');
  (void)el_wset(ed.el, EL_EDITOR, L"emacs");
  (void)el_wset(ed.el, EL_GETCFN, read_key);
  (void)el_wset(ed.el, EL_ADDFN, L"runnel-complete", L"Complete a name", complete);
  (void)el_wset(ed.el, EL_BIND, L"^I", L"runnel-complete", NULL);
  (void)el_wset(ed.el, EL_BIND, L"^R", L"em-inc-search-prev", NULL);
  (void)el_wset(ed.el, EL_ADDFN, L"runnel-paste", L"Insert what is pasted", paste);
  (void)el_wset(ed.el, EL_ADDFN, L"runnel-nothing", L"Do nothing", nothing);
  (void)el_wset(ed.el, EL_ADDFN, L"runnel-up", L"Line above, or older chunk", up);
  (void)el_wset(ed.el, EL_ADDFN, L"runnel-down", L"Line below, or newer chunk", down);
  (void)el_wset(ed.el, EL_BIND, PASTE_BEGINS, L"runnel-paste", NULL);
  (void)el_wset(ed.el, EL_BIND, PASTE_ENDS_KEY, L"runnel-nothing", NULL);
  (void)el_wset(ed.el, EL_BIND, L"\033[A", L"runnel-up", NULL);
  (void)el_wset(ed.el, EL_BIND, L"\033OA", L"runnel-up", NULL);
  (void)el_wset(ed.el, EL_BIND, L"\033[B", L"runnel-down", NULL);
  (void)el_wset(ed.el, EL_BIND, L"\033OB", L"runnel-down", NULL);
  (void)el_source(ed.el, NULL);
  lua_pushvalue(L, complete_function);
  lua_setfield(L, LUA_REGISTRYINDEX, COMPLETE_KEY);
  catch_signal(SIGWINCH, note_resize);
  catch_signal(SIGCONT, note_continue);
  catch_signal(SIGTERM, restore_and_die);
  catch_signal(SIGHUP, restore_and_die);
  catch_signal(SIGQUIT, restore_and_die);
  return true;
}

void editor_close(void) {
  output_before(NULL);
  if (ed.el) el_end(ed.el);
  if (ed.history) history_wend(ed.history);
  ed.el = NULL;
  ed.history = NULL;
}

void editor_remember(const char *line) {
  HistEventW event;
  wchar_t *wide = ed.history ? utf8_to_wide(line) : NULL;
  if (wide) (void)history_w(ed.history, &event, H_ENTER, wide);
  free(wide);
}

/* Moves the cursor to the beginning of a row, where it may not be after the echo of text typed ahead, or the output of
   another process: this many blanks reach the next row from any other column. */
static void begin_row(void) {
  int rows, columns;
  screen_size(&rows, &columns);
  (void)fprintf(ed.screen, "%*s\r\033[K", columns - 1, "");
}

LineEnd editor_read(lua_State *L, const char *prompt) {
  size_t length = mbstowcs(ed.prompt, prompt, LONGEST_PROMPT - 1);
  if (length == (size_t)-1) length = 0; /* the locale has no such characters */
  ed.prompt[length] = L'\0';
  /* libedit shows the text between two \1 together with the next character */
  size_t before_last = length ? length - 1 : 0;
  (void)swprintf(ed.coloured, LONGEST_PROMPT + COLOUR,
                 ed.colours && length ? L"\1\033[1;32m\1%.*ls\1\033[0m\1%ls" : L"%.*ls%ls", (int)before_last, ed.prompt,
                 ed.prompt + before_last);
  ed.L = L;
  free(ed.block);
  ed.block = NULL;
  ed.interrupted = false;
  ed.shown = true;
  /* libedit draws it itself */
  output_fresh_line();
  (void)el_wset(ed.el, EL_PREP_TERM, 1); /* before the prompt appears: text typed then must not be echoed */
  begin_row();
  (void)fputs(PASTE_ASK, ed.screen);
  output_before(hide);
  int n;
  const wchar_t *line = el_wgets(ed.el, &n);
  output_before(NULL);
  (void)fputs(PASTE_ASK_NO_MORE, ed.screen);
  (void)fflush(ed.screen);
  if (ed.interrupted) {
    const LineInfoW *dropped = el_wline(ed.el);
    hide();
    (void)el_cursor(ed.el, (int)(dropped->lastchar - dropped->cursor));
    show();
    ed.shown = false;
    output_before(NULL);
    (void)fputs("^C\n", ed.screen);
    (void)fflush(ed.screen);
    return LINE_INTERRUPTED;
  }
  if (!line || n <= 0) {
    (void)fputs("\n", ed.screen);
    (void)fflush(ed.screen);
    return LINE_NONE;
  }
  if (line[n - 1] == L'\n') n--;
  char *text = ed.block ? ed.block : utf8_from_wide(line, (size_t)n);
  ed.block = NULL;

  lua_pushstring(L, text ? text : "");
  free(text);
  return LINE_COMPLETE;
}
