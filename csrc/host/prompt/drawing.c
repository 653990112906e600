/* drawing.c: see drawing.h. */
#include "host/prompt/drawing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "host/prompt/output.h"
#include "host/prompt/restore.h"
#include "host/prompt/width.h"

/* How long the terminal may take to report its width, and how often it is asked while that differs from the
   kernel's. */
static const int64_t ANSWER_NS = 1000 * CLOCK_MS;
enum { ASK_AT_MOST = 20 };

/* An answer that has not come after this time is lost: the terminal drops its input at Ctrl-C, for example. */
static const int64_t LOST_NS = 10000 * CLOCK_MS;

/* A line hidden by output is drawn again after this time even if more output follows. */
static const int64_t HIDDEN_NS = 30 * CLOCK_MS;

static Editing *current; /* whose line output hides */

static volatile sig_atomic_t resized, continued;

void drawing_write(const char *text) { (void)output_write(STDOUT_FILENO, text, strlen(text)); }

/* Writes bytes to the screen if they are complete, and frees them. */
static bool write_and_free(Bytes *out, bool is_complete) {
  if (is_complete) (void)output_write(STDOUT_FILENO, bytes_first(out), bytes_length(out));
  bytes_free(out);
  return is_complete;
}

static bool add_prompt(Picture *picture, const wchar_t *prompt) {
  for (const wchar_t *c = prompt; *c; c++) {
    if (!picture_add(picture, *c, c[1] ? PICTURE_PROMPT : PICTURE_PLAIN)) return false;
  }
  return true;
}

/* Makes the picture of the line. `classes` has the class of each of its bytes; or is NULL. */
static bool compose(Editing *ed, const LineInfoW *line, const char *classes) {
  Picture *picture = &ed->picture;
  int rows, columns;
  output_size(&rows, &columns);
  picture_begin(picture, columns);
  bool is_good = add_prompt(picture, ed->prompt);
  size_t byte = 0;
  for (const wchar_t *c = line->buffer; c < line->lastchar && is_good; c++) {
    if (c == line->cursor) picture_put_cursor(picture);
    char class = PICTURE_PLAIN;
    if (classes && *c != L'\n') class = classes[byte];
    is_good = picture_add(picture, *c, class) && (*c != L'\n' || add_prompt(picture, ed->continued));
    byte += utf8_size(*c);
  }
  if (line->cursor >= line->lastchar) picture_put_cursor(picture);
  return is_good;
}

/* Adds to `out` what moves the cursor to the beginning of the picture that is on the screen. */
static bool go_to_beginning(const Editing *ed, Bytes *out) {
  char text[16] = "\r";
  int rows, columns;
  output_size(&rows, &columns);
  int row = picture_row(&ed->picture, columns);
  if (row >= rows) row = rows - 1;
  if (row > 0) (void)snprintf(text, sizeof text, "\r\033[%dA", row);
  return bytes_add(out, text, strlen(text));
}

/* Nothing changes if memory runs out. */
void drawing_draw(Editing *ed) {
  Bytes out = {0};
  int rows, columns;
  output_size(&rows, &columns);
  const LineInfoW *line = el_wline(ed->el);
  int top = lua_gettop(ed->L);
  const char *classes = NULL;
  size_t size = 0, needed = 0;
  if (ed->colours && lua_checkstack(ed->L, LUA_MINSTACK) && editing_call(ed->L, "classes", editing_text(ed), NULL, 1)) {
    classes = lua_type(ed->L, -1) == LUA_TSTRING ? lua_tolstring(ed->L, -1, &size) : NULL;
    for (const wchar_t *c = line->buffer; c < line->lastchar; c++) needed += utf8_size(*c);
  }
  bool is_good = !ed->shown || go_to_beginning(ed, &out);
  is_good = is_good && compose(ed, line, size >= needed ? classes : NULL);
  lua_settop(ed->L, top);
  is_good = is_good && picture_draw(&ed->picture, rows, ed->colours, &out);
  if (write_and_free(&out, is_good)) ed->shown = true;
}

/* Takes the line off the screen; the cursor is then where the line began. */
static void hide(Editing *ed) {
  if (!ed->shown) return;
  ed->shown = false;
  ed->hidden_at = clock_ns();
  Bytes out = {0};
  (void)write_and_free(&out, go_to_beginning(ed, &out) && bytes_add(&out, "\033[J", 3));
}

/* The callback of output_before. */
static void hide_current(void) { hide(current); }

/* The line begins below the output. */
void drawing_show(Editing *ed) {
  if (ed->shown) return;
  output_fresh_line();
  drawing_draw(ed);
  output_before(hide_current);
}

void drawing_leave(Editing *ed, const char *text) {
  const LineInfoW *line = el_wline(ed->el);
  (void)el_cursor(ed->el, (int)(line->lastchar - line->cursor));
  drawing_draw(ed);
  ed->shown = false;
  output_before(NULL);
  drawing_write(text);
  output_forget_line();
  ed->is_left = true;
}

/* Whether the kernel knows the present size of the screen. A terminal may report it late, and until then the line must
   not be drawn: the computed beginning of the line would be wrong, and a part of it would stay on the screen. */
static bool size_is_known(Editing *ed) {
  int rows, columns;
  if (ed->is_mute) return true;
  if (ed->must_ask) {
    int64_t now = clock_ns();
    width_ask(now - ed->asked_at < LOST_NS);
    ed->asked_at = now;
    ed->must_ask = false;
    return false;
  }
  if (width_answer() == 0) {
    ed->is_mute = !ed->answers && clock_ns() - ed->asked_at > ANSWER_NS;
    return clock_ns() - ed->asked_at > ANSWER_NS;
  }
  ed->answers = true;
  output_size(&rows, &columns);
  if (width_answer() == columns || ++ed->times_asked >= ASK_AT_MOST) return true;
  ed->must_ask = true;
  ed->resized_at = clock_ns(); /* the kernel will be informed */
  return false;
}

/* Draws the line for the present size of the screen. */
static void settle(Editing *ed) {
  if (!ed->settling) return;
  ed->settling = false;
  hide(ed);
  el_resize(ed->el);
}

void drawing_redraw(void *ud, bool busy) {
  Editing *ed = (Editing *)ud;
  (void)fflush(stdout);
  if (resized) {
    resized = 0;
    ed->settling = true;
    ed->resized_at = clock_ns();
    ed->must_ask = true;
    ed->times_asked = 0;
  }
  if (ed->settling && (clock_ns() - ed->resized_at < DRAWING_SETTLE_MS * CLOCK_MS || !size_is_known(ed))) return;
  settle(ed);
  if (continued) {
    continued = 0;
    ed->shown = false;
    (void)el_wset(ed->el, EL_PREP_TERM, 0);
    (void)el_wset(ed->el, EL_PREP_TERM, 1);
  }
  if (!busy || clock_ns() - ed->hidden_at > HIDDEN_NS) drawing_show(ed);
}

bool drawing_is_settling(const Editing *ed) { return ed->settling || resized; }

/* This many blanks reach the next row from any column but the first. */
void drawing_begin_row(void) {
  static const char blank = ' ', rest[] = "\r\033[K";
  Bytes out = {0};
  int rows, columns;
  output_size(&rows, &columns);
  bool is_good = true;
  for (int i = 1; i < columns && is_good; i++) is_good = bytes_add(&out, &blank, 1);
  (void)write_and_free(&out, is_good && bytes_add(&out, rest, sizeof rest - 1));
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

void drawing_open(Editing *ed) {
  current = ed;
  restore_catch(SIGWINCH, note_resize);
  restore_catch(SIGCONT, note_continue);
}
