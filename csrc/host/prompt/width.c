/* width.c: see width.h. */
#include "host/prompt/width.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "host/prompt/output.h"

enum { ESCAPE = '\033', DIGITS = 5, LONGEST = 2 * DIGITS + 4, KEYS = 512 };

static int pending;          /* answers to come: to the last question, and to earlier ones */
static int answer;           /* columns */
static char begun[LONGEST];  /* possibly the beginning of the answer */
static size_t count;         /* bytes of it */
static char keys[KEYS];      /* keys that were read too early */
static size_t first, number; /* the first of them, and their number */

/* Moves the cursor to the right edge, asks for its position, and puts it back. */
void width_ask(bool may_answer) {
  pending = may_answer ? pending + 1 : 1;
  answer = 0;
  static const char question[] = "\0337\033[9999C\033[6n\0338";
  (void)output_write(STDOUT_FILENO, question, sizeof question - 1);
}

int width_answer(void) { return answer; }

bool width_has_room(void) { return number + LONGEST < KEYS; }

void width_keep(int byte) {
  if (number == KEYS) return;
  keys[(first + number++) % KEYS] = (char)byte;
}

int width_next(void) {
  if (number == 0) return -1;
  int byte = (unsigned char)keys[first];
  first = (first + 1) % KEYS;
  number--;
  return byte;
}

/* Whether the bytes match the answer so far: ESC [ row ; column R. */
typedef enum { NO, BEGINS, COMPLETE } Match;
static Match match(int *column) {
  size_t i = 2, digits;
  if (begun[0] != ESCAPE) return NO;
  if (count < 2) return BEGINS;
  if (begun[1] != '[') return NO;
  for (int part = 0; part < 2; part++) {
    *column = 0;
    for (digits = 0; i < count && digits < DIGITS && isdigit((unsigned char)begun[i]); i++, digits++) {
      *column = *column * 10 + (begun[i] - '0');
    }
    if (i == count) return BEGINS;
    if (digits == 0 || begun[i++] != (part == 0 ? ';' : 'R')) return NO;
  }
  return COMPLETE;
}

bool width_takes(int byte) {
  if (pending == 0 || (count == 0 && byte != ESCAPE)) return false;
  begun[count++] = (char)byte;
  int column;
  Match found = match(&column);
  if (found == COMPLETE) {
    if (--pending == 0) answer = column;
    count = 0;
  } else if (found == NO) { /* keys; the last of them may begin the answer */
    size_t n = byte == ESCAPE ? count - 1 : count;
    for (size_t i = 0; i < n; i++) width_keep(begun[i]);
    count -= n;
    begun[0] = ESCAPE;
  }
  return true;
}
