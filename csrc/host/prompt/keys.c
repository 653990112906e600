/* keys.c: see keys.h. */
#include "host/prompt/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/prompt/drawing.h"
#include "host/prompt/output.h"
#include "host/prompt/paste.h"
#include "host/prompt/typed.h"
#include "host/runtime/wait.h"

/* A paste that is larger than this, or higher than the screen, is not put into the line but is the whole chunk. */
enum { LONGEST_PASTE = 4096 };

/* The characters of the longest word that closes a block: elseif. */
enum { LONGEST_CLOSING = 6 };

/* Keys that no terminal sends, for libedit's own functions; and how many keys a function has. */
#define OLDER L"\033\020"
#define NEWER L"\033\016"
enum { KEYS_EACH = 4 };

static Editing *editing_of(EditLine *el) {
  void *ed = NULL;
  (void)el_wget(el, EL_CLIENTDATA, &ed);
  return (Editing *)ed;
}

/* ---- changing the line ---- */

/* Inserts text at the cursor. */
static void insert(EditLine *el, const char *text) {
  wchar_t *wide = utf8_to_wide(text);
  if (wide && *wide) (void)el_winsertstr(el, wide);
  free(wide);
}

/* How many rows a text has on the screen. */
static int rows_of(const char *text) {
  int rows_of_screen, columns;
  output_size(&rows_of_screen, &columns);
  Picture picture = {0};
  picture_begin(&picture, columns);
  wchar_t *wide = utf8_to_wide(text);
  for (const wchar_t *c = wide; c && *c; c++) (void)picture_add(&picture, *c, PICTURE_PLAIN);
  int rows = picture_rows(&picture);
  picture_free(&picture);
  free(wide);
  return rows;
}

/* The end of the line of a chunk in which a place is. */
static const wchar_t *end_of_line(const LineInfoW *line, const wchar_t *at) {
  while (at < line->lastchar && *at != L'\n') at++;
  return at;
}

/* Moves the cursor, as the arrow keys do in a chunk of several lines: to the same column of the line above (-1) or
   below (1). False if there is none. */
static bool move_line(EditLine *el, int direction) {
  const LineInfoW *line = el_wline(el);
  const wchar_t *begin = editing_begin_of_line(line, line->cursor), *to;
  if (direction < 0) {
    if (begin == line->buffer) return false;
    const wchar_t *end = begin - 1;
    to = editing_begin_of_line(line, end);
    for (ptrdiff_t n = line->cursor - begin; n > 0 && to < end; n--) to++;
  } else {
    to = end_of_line(line, line->cursor);
    if (to == line->lastchar) return false;
    to++;
    for (ptrdiff_t n = line->cursor - begin; n > 0 && to < line->lastchar && *to != L'\n'; n--) to++;
  }
  (void)el_cursor(el, (int)(to - line->cursor));
  return true;
}

/* Whether the cursor is at the end of a chunk from the history that was not changed. */
static bool is_fetched(EditLine *el) {
  Editing *ed = editing_of(el);
  const LineInfoW *line = el_wline(el);
  size_t length = (size_t)(line->lastchar - line->buffer);
  HistEventW event;
  if (line->cursor < line->lastchar || history_w(ed->history, &event, H_CURR) < 0 || !event.str) return false;
  size_t size = wcslen(event.str);
  while (size > 0 && event.str[size - 1] == L'\n') size--;
  return size == length && wmemcmp(event.str, line->buffer, length) == 0;
}

/* Fetches an older chunk; not before the oldest one, where libedit would move the cursor to the end. */
static unsigned char older(EditLine *el, int c) {
  (void)c;
  Editing *ed = editing_of(el);
  HistEventW event;
  int most = history_w(ed->history, &event, H_GETSIZE) == 0 ? event.num : 0;
  if (ed->back >= most) return CC_NORM;
  ed->back++;
  el_wpush(el, OLDER);
  return CC_NORM;
}

/* Fetches a newer chunk; not behind the newest one, where libedit would remove what was typed. */
static unsigned char newer(EditLine *el, int c) {
  (void)c;
  Editing *ed = editing_of(el);
  if (ed->back == 0 && !is_fetched(el)) return CC_NORM;
  if (ed->back > 0) ed->back--;
  el_wpush(el, NEWER);
  return CC_NORM;
}

/* Ends the line, as libedit's own function does. */
static unsigned char end_line(EditLine *el) {
  drawing_leave(editing_of(el), "\r\n");
  return el_winsertstr(el, L"\n") == 0 ? CC_NEWLINE : CC_ERROR;
}

/* The arrows up and down: lines of the edited chunk, and then older and newer chunks. A chunk that was just fetched is
   left at once. If the first lines of a chunk were pasted as if they were typed, they were read before this line: then
   the arrow up asks for them. */

static unsigned char up(EditLine *el, int c) {
  Editing *ed = editing_of(el);
  if (!is_fetched(el) && move_line(el, -1)) return CC_CURSOR;
  if (!ed->has_earlier || ed->back > 0) return older(el, c);
  ed->wants_earlier = true;
  return end_line(el);
}

static unsigned char down(EditLine *el, int c) {
  return !is_fetched(el) && move_line(el, 1) ? CC_CURSOR : newer(el, c);
}

/* Home and End: in the line; pressed again, in the chunk. */

static unsigned char home(EditLine *el, int c) {
  (void)c;
  const LineInfoW *line = el_wline(el);
  const wchar_t *to = editing_begin_of_line(line, line->cursor);
  (void)el_cursor(el, (int)((to == line->cursor ? line->buffer : to) - line->cursor));
  return CC_CURSOR;
}

static unsigned char end(EditLine *el, int c) {
  (void)c;
  const LineInfoW *line = el_wline(el);
  const wchar_t *to = end_of_line(line, line->cursor);
  (void)el_cursor(el, (int)((to == line->cursor ? line->lastchar : to) - line->cursor));
  return CC_CURSOR;
}

/* ---- the Enter key ---- */

/* Ends the line, or begins another one if the chunk is incomplete. Text that comes fast was pasted as if it were typed:
   it goes line by line, without blanks that it does not have. */
static unsigned char enter(EditLine *el, int c) {
  (void)c;
  Editing *ed = editing_of(el);
  if (ed->block || wait_pending() >= EDITING_PASTED) return end_line(el);
  int top = lua_gettop(ed->L);
  bool is_good = editing_call(ed->L, "enter", editing_text(ed), editing_text_before(ed), 1);
  const char *text = is_good ? lua_tostring(ed->L, -1) : NULL;
  if (text) insert(el, text);
  lua_settop(ed->L, top);
  return text ? CC_REFRESH : end_line(el);
}

/* Alt-Enter: begins another line anyway. */
static unsigned char new_line(EditLine *el, int c) {
  (void)c;
  insert(el, "\n");
  return CC_REFRESH;
}

/* ---- pasting ---- */

/* Shows the beginning of the block in the line. */
static void show_beginning(EditLine *el, const char *text) {
  int rows, columns;
  output_size(&rows, &columns);
  char *beginning = paste_beginning(text, columns);
  if (beginning) insert(el, beginning);
  free(beginning);
}

/* The key that begins a paste. A paste that ends with a newline is entered as if the Enter key had followed. One that
   is too large for editing is entered in any case, and only its beginning is shown. */
static unsigned char paste(EditLine *el, int c) {
  (void)c;
  Editing *ed = editing_of(el);
  char *text = paste_read(typed_next_byte, ed);
  if (!text) return ed->interrupted ? CC_EOF : CC_ERROR;
  size_t size = strlen(text), kept = size;
  while (kept > 0 && text[kept - 1] == '\n') kept--;
  text[kept] = '\0';
  bool enter = kept < size;
  int rows, columns;
  output_size(&rows, &columns);
  if (kept > LONGEST_PASTE || rows_of(text) > rows - 2) {
    const LineInfoW *line = el_wline(el);
    char *before = editing_text_before(ed);
    char *after = utf8_from_wide(line->cursor, (size_t)(line->lastchar - line->cursor));
    size_t room = before && after ? strlen(before) + kept + strlen(after) + 1 : 0;
    free(ed->block);
    ed->block = room > 0 ? (char *)malloc(room) : NULL;
    if (ed->block) (void)snprintf(ed->block, room, "%s%s%s", before, text, after);
    free(before);
    free(after);
    show_beginning(el, text);
    enter = true;
  } else {
    insert(el, text);
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

/* ---- the screen ---- */

/* Ctrl-L: clears the screen. */
static unsigned char clear(EditLine *el, int c) {
  (void)c;
  Editing *ed = editing_of(el);
  drawing_write("\033[H\033[2J");
  ed->shown = false;
  drawing_show(ed);
  return CC_NORM;
}

/* ---- completion ---- */

/* Prints the lines of a list on top of L. */
static void print_lines(lua_State *L) {
  for (lua_Integer i = 1; lua_rawgeti(L, -1, i) == LUA_TSTRING; i++, lua_pop(L, 1)) {
    (void)printf("%s\n", lua_tostring(L, -1));
  }
  lua_pop(L, 1);
}

/* The Tab key. */
static unsigned char complete(EditLine *el, int c) {
  (void)c;
  Editing *ed = editing_of(el);
  lua_State *L = ed->L;
  int top = lua_gettop(L);
  const LineInfoW *line = el_wline(el);
  const wchar_t *before = line->cursor;
  while (before > line->buffer && (before[-1] == L' ' || before[-1] == L'\t')) before--;
  bool blank = before == line->buffer || before[-1] == L'\n';
  int pending = wait_pending();
  if (blank || pending >= EDITING_PASTED) { /* also a tab in a text that a terminal pastes as if it were typed */
    insert(el, pending > 0 ? "\t" : "  ");
    return CC_REFRESH;
  }
  unsigned char result = CC_ERROR;
  if (editing_call(L, "complete", editing_text_before(ed), NULL, 2) && lua_isstring(L, -2)) {
    const char *inserted = lua_tostring(L, -2);
    insert(el, inserted);
    result = *inserted ? CC_REFRESH : CC_NORM;
    if (lua_istable(L, -1)) {
      output_forget_line();
      print_lines(L); /* which hides the line */
      drawing_show(ed);
      result = CC_NORM;
    }
  }
  lua_settop(L, top);
  return result;
}

void keys_begin(Editing *ed) {
  if (!ed->text_before || !ed->text_after) return;
  wchar_t *after = utf8_to_wide(ed->text_after);
  if (after) {
    insert(ed->el, ed->text_before);
    insert(ed->el, ed->text_after);
    (void)el_cursor(ed->el, -(int)wcslen(after));
  }
  free(after);
}

void keys_move_closing(Editing *ed) {
  static const wchar_t last[] = L"defl)]}";
  const LineInfoW *line = el_wline(ed->el);
  size_t length = (size_t)(line->lastchar - line->buffer);
  bool is_typed = length == ed->length + 1 && line->cursor > line->buffer && line->cursor[-1] == ed->key;
  ed->length = length;
  if (!is_typed || !wcschr(last, ed->key) || wait_pending() >= EDITING_PASTED) return;
  const wchar_t *begin = editing_begin_of_line(line, line->cursor), *word;
  for (word = begin; word < line->cursor && *word == L' ';) word++;
  if (begin == line->buffer || line->cursor - word > LONGEST_CLOSING) return;
  int top = lua_gettop(ed->L);
  if (editing_call(ed->L, "closing", editing_text_before(ed), NULL, 1) && lua_isinteger(ed->L, -1)) {
    int n = (int)(word - begin) - (int)lua_tointeger(ed->L, -1), behind = (int)(line->cursor - word);
    if (n > 0) {
      (void)el_cursor(ed->el, -behind);
      el_deletestr(ed->el, n);
      (void)el_cursor(ed->el, behind);
      ed->length -= (size_t)n;
    }
  }
  lua_settop(ed->L, top);
}

/* ---- binding ---- */

/* A key's function, and the keys that it is bound to. */
typedef struct Binding {
  const wchar_t *name;
  const wchar_t *help;
  unsigned char (*function)(EditLine *el, int c); /* NULL: a function of libedit's */
  const wchar_t *keys[KEYS_EACH];
} Binding;

void keys_bind(EditLine *el) {
  static const Binding bindings[] = {
      {L"runnel-complete", L"Complete a name", complete, {L"^I"}},
      {L"runnel-paste", L"Insert what is pasted", paste, {PASTE_BEGINS}},
      {L"runnel-nothing", L"Do nothing", nothing, {PASTE_ENDS_KEY}},
      {L"runnel-enter", L"End the line, or begin another one", enter, {L"\n", L"\r"}},
      {L"runnel-new-line", L"Begin another line", new_line, {L"\033\n", L"\033\r"}},
      {L"runnel-up", L"Line above, or older chunk", up, {L"\033[A", L"\033OA"}},
      {L"runnel-down", L"Line below, or newer chunk", down, {L"\033[B", L"\033OB"}},
      {L"runnel-older", L"Older chunk", older, {L"^P"}},
      {L"runnel-newer", L"Newer chunk", newer, {L"^N"}},
      {L"runnel-clear", L"Clear the screen", clear, {L"^L"}},
      {L"runnel-home", L"Beginning of the line", home, {L"^A", L"\033[H", L"\033OH", L"\033[1~"}},
      {L"runnel-end", L"End of the line", end, {L"^E", L"\033[F", L"\033OF", L"\033[4~"}},
      {L"em-inc-search-prev", NULL, NULL, {L"^R"}},
      {L"ed-prev-history", NULL, NULL, {OLDER}},
      {L"ed-next-history", NULL, NULL, {NEWER}},
  };
  for (size_t i = 0; i < sizeof bindings / sizeof *bindings; i++) {
    const Binding *binding = &bindings[i];
    if (binding->function) (void)el_wset(el, EL_ADDFN, binding->name, binding->help, binding->function);
    for (size_t n = 0; n < KEYS_EACH && binding->keys[n]; n++) {
      (void)el_wset(el, EL_BIND, binding->keys[n], binding->name, NULL);
    }
  }
}
