/* output.c: see output.h. */
#include "host/prompt/output.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <unistd.h>

enum { LONGEST_TAIL = 80 };

static void (*hide_line)(void);
static char tail[LONGEST_TAIL]; /* the output since the last newline, if it is short and plain */
static size_t tail_length;
static bool tail_lost;  /* it is not short and plain, so that output cannot continue it */
static bool tail_above; /* the cursor is below it, after output_fresh_line */

bool output_write(int fd, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t n = write(fd, bytes, size);
    if (n >= 0) {
      bytes += n;
      size -= (size_t)n;
    } else if (errno == EAGAIN) {
      (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

/* Stores the last line of the output. */
static void note_tail(const char *bytes, size_t size) {
  for (size_t i = size; i > 0; i--) {
    if (bytes[i - 1] != '\n') continue;
    bytes += i;
    size -= i;
    tail_length = 0;
    tail_lost = false;
    break;
  }
  for (size_t i = 0; i < size && !tail_lost; i++) {
    if (bytes[i] < ' ' || bytes[i] == 127 || tail_length == LONGEST_TAIL) tail_lost = true;
    else tail[tail_length++] = bytes[i];
  }
}

static void begin_output(void) {
  if (hide_line) {
    void (*hide)(void) = hide_line;
    hide_line = NULL;
    hide();
  }
  if (!tail_above) return;
  tail_above = false;
  if (tail_lost) tail_length = 0;
  else if (output_write(STDOUT_FILENO, "\033[A\r", 4)) output_write(STDOUT_FILENO, tail, tail_length);
  tail_lost = false;
}

void output_size(int *rows, int *columns) {
  struct winsize size;
  bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
  *rows = known ? size.ws_row : 24;
  *columns = known ? size.ws_col : 80;
}

void output_before(void (*hide)(void)) { hide_line = hide; }

void output_fresh_line(void) {
  (void)fflush(stdout);
  (void)fflush(stderr);
  if (tail_above || (tail_length == 0 && !tail_lost)) return;
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || tail_length >= size.ws_col) tail_lost = true;
  (void)output_write(STDOUT_FILENO, "\n", 1);
  tail_above = true;
}

void output_forget_line(void) {
  tail_above = tail_lost = false;
  tail_length = 0;
}

#if defined(__GLIBC__)
static ssize_t write_stream(void *cookie, const char *bytes, size_t size) {
  int fd = *(const int *)cookie;
  begin_output();
  if (!output_write(fd, bytes, size)) return 0;
  note_tail(bytes, size);
  return (ssize_t)size;
}

/* A stream to replace `file` with if that is a terminal; otherwise `file`. */
static FILE *replacement(FILE *file, int *fd) {
  cookie_io_functions_t functions = {.write = write_stream};
  FILE *stream = isatty(*fd) ? fopencookie(fd, "w", functions) : NULL;
  if (!stream) return file;
  (void)setvbuf(stream, NULL, _IOLBF, BUFSIZ);
  return stream;
}

void output_install(void) {
  static int fds[] = {STDOUT_FILENO, STDERR_FILENO};
  stdout = replacement(stdout, &fds[0]);
  stderr = replacement(stderr, &fds[1]);
}
#else
void output_install(void) {}
#endif
