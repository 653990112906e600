/* screen.c: see screen.h. */
#include "host/screen.h"

#include <stdbool.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "host/output.h"
#include "host/utf8.h"

#if defined(__GLIBC__)

/* The first byte of all private characters; the most bytes drawn for one of them; the most bytes written at once. */
enum { LEAD = 0xF3, LONGEST = 8, ROOM = 512 };

static char held[4]; /* the first bytes of what may be a private character */
static size_t count; /* how many */

/* Takes a byte, and returns how many bytes to write for it: none while it may belong to a private character. */
static size_t take(char byte, char out[LONGEST]) {
  bool begins = (unsigned char)byte == LEAD;
  if (count == 0 && !begins) {
    out[0] = byte;
    return 1;
  }
  held[count++] = byte;
  bool goes_on = count == 1 || ((unsigned char)byte & 0xC0) == 0x80;
  if (goes_on && count < sizeof held) return 0;
  size_t length = utf8_drawn(held, count, out);
  if (length == 0) memcpy(out, held, length = count);
  count = 0;
  return length;
}

static ssize_t draw(void *cookie, const char *bytes, size_t size) {
  char out[ROOM];
  size_t n = 0;
  (void)cookie;
  for (size_t i = 0; i < size; i++) {
    n += take(bytes[i], out + n);
    if (n + LONGEST <= ROOM) continue;
    if (!output_write(STDOUT_FILENO, out, n)) return 0;
    n = 0;
  }
  return output_write(STDOUT_FILENO, out, n) ? (ssize_t)size : 0;
}

FILE *screen_open(void) { return fopencookie(NULL, "w", (cookie_io_functions_t){.write = draw}); }

#else

FILE *screen_open(void) {
  int fd = dup(STDOUT_FILENO);
  FILE *screen = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (fd >= 0 && !screen) (void)close(fd);
  return screen;
}

#endif
