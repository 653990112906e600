/* host: tests parts of the executable that specs reach only partly: pastes, UTF-8, the command line, output while a
   line is edited, and the width of the terminal. */
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "host/options.h"
#include "host/prompt/output.h"
#include "host/prompt/paste.h"
#include "host/prompt/picture.h"
#include "host/prompt/utf8.h"
#include "host/prompt/width.h"

/* ---- pastes ---- */

static int next_of_text(void *ud) {
  const char **at = (const char **)ud;
  return **at ? (unsigned char)*(*at)++ : -1;
}

static void is_pasted_as(const char *typed, const char *expected) {
  char *text = paste_read(next_of_text, &typed);
  if (expected) CHECK(text && strcmp(text, expected) == 0);
  else CHECK(!text);
  free(text);
}

static void a_paste_ends_with_its_mark(void) {
  is_pasted_as("one\rtwo\r\nthree\nfour\r\r\n\033[201~rest", "one\ntwo\nthree\nfour\n\n");
  is_pasted_as("\033[201~", "");
  is_pasted_as("a ~ \033[201 \033[200~ \xE2\x82\033[201~", "a ~ \033[201 \033[200~ \xE2\x82");
  is_pasted_as("it never ends \033[201", NULL);
  char long_paste[3000];
  memset(long_paste, 'x', sizeof long_paste);
  (void)snprintf(long_paste + 2000, 1000, "\033[201~");
  const char *at = long_paste;
  char *text = paste_read(next_of_text, &at);
  CHECK(text && strlen(text) == 2000);
  free(text);
}

static int next_of_bytes(void *ud) { return (unsigned char)*(*(const char **)ud)++; }

static void a_paste_loses_its_zeros(void) {
  const char *at = "a\0b\033[201~";
  char *text = paste_read(next_of_bytes, &at);
  CHECK(text && strcmp(text, "ab") == 0);
  free(text);
}

static void begins_with(const char *text, int columns, const char *expected) {
  char *beginning = paste_beginning(text, columns);
  CHECK(beginning && strcmp(beginning, expected) == 0);
  free(beginning);
}

static void of_a_long_paste_the_beginning_is_shown(void) {
  begins_with("one\ntwo\nthree\nfour", 80, "one\ntwo\n… 2 more lines");
  begins_with("one\ntwo", 80, "one\ntwo");
  begins_with("", 80, "");
  begins_with("0123456789012345678901234567890\n", 10, "01234567890123456789…");
  begins_with("0123456789012345678\xC3\xA4\xC3\xA4", 40, "0123456789012345678…");
  begins_with("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", 40, "…");
}

/* ---- pictures ---- */

/* Makes a picture of a text, with the cursor before its character number `cursor`. */
static void make_picture(Picture *picture, int columns, const wchar_t *text, size_t cursor) {
  picture_begin(picture, columns);
  for (size_t i = 0; text[i]; i++) {
    if (i == cursor) picture_put_cursor(picture);
    CHECK(picture_add(picture, text[i], text[i] == L'"' ? PICTURE_STRING : PICTURE_PLAIN));
  }
  if (cursor >= wcslen(text)) picture_put_cursor(picture);
}

static void is_drawn_as(int rows, int columns, const wchar_t *text, size_t cursor, const char *expected) {
  Picture picture = {0};
  Bytes out = {0};
  make_picture(&picture, columns, text, cursor);
  CHECK(picture_draw(&picture, rows, true, &out) && bytes_add(&out, "", 1));
  if (strcmp(bytes_first(&out), expected) != 0) (void)fprintf(stderr, "drawn: %s\n", bytes_first(&out));
  CHECK(strcmp(bytes_first(&out), expected) == 0);
  bytes_free(&out);
  picture_free(&picture);
}

static void a_line_is_drawn(void) {
  CHECK(setlocale(LC_CTYPE, "C.UTF-8"));
  is_drawn_as(9, 9, L"", 0, "\033[J\r");
  is_drawn_as(9, 9, L"abc", 1, "abc\033[J\r\033[1C");
  is_drawn_as(9, 9, L"a\"b", 3, "a\033[0;32m\"\033[0mb\033[J\r\033[3C");
  is_drawn_as(9, 9, L"a\nbc", 0, "a\033[K\r\nbc\033[J\033[1A\r");
  is_drawn_as(9, 20, L"\ta\001\xDC80", 99, "        a^A\\U+DC80\033[J\r\033[18C"); /* U+DC80 is a byte */
}

static void a_full_row_goes_on_without_a_newline(void) {
  is_drawn_as(9, 3, L"abcd", 4, "abcd\033[J\r\033[1C");
  is_drawn_as(9, 3, L"abc", 3, "abc \r\033[J\r"); /* the cursor is in the next row */
  is_drawn_as(9, 3, L"abc", 0, "abc \r\033[J\033[1A\r");
  is_drawn_as(9, 3, L"abc\nd", 3, "abc\r\nd\033[J\033[1A\r\033[2C"); /* no row is left out, none is erased */
  is_drawn_as(9, 3, L"ab\x65E5", 2, "ab\033[K\xE6\x97\xA5\033[J\033[1A\r\033[2C"); /* a wide one does not fit */
}

static void of_a_high_picture_the_rows_around_the_cursor_are_drawn(void) {
  const wchar_t *text = L"1\n2\n3\n4\n5\n6";
  is_drawn_as(3, 9, text, 0, "1\033[K\r\n2\033[K\r\n3\033[J\033[2A\r");
  is_drawn_as(3, 9, text, 6, "3\033[K\r\n4\033[K\r\n5\033[J\033[1A\r");
  is_drawn_as(3, 9, text, 11, "4\033[K\r\n5\033[K\r\n6\033[J\r\033[1C");
}

static void the_row_of_the_cursor_follows_the_width(void) {
  Picture picture = {0};
  Bytes out = {0};
  make_picture(&picture, 10, L"abcdefgh\nij", 11);
  CHECK(picture_draw(&picture, 24, false, &out) && picture_rows(&picture) == 2);
  CHECK(picture_row(&picture, 10) == 1 && picture_row(&picture, 4) == 2 && picture_row(&picture, 3) == 3);
  CHECK(picture_row(&picture, 8) == 1 && picture_row(&picture, 1) == 10);
  bytes_free(&out);
  picture_free(&picture);
}

/* ---- UTF-8 ---- */

/* Checks that a text is read as these characters, and that they are written as this text. */
static void is_read_as(const char *text, const wchar_t *expected, size_t length) {
  wchar_t *wide = utf8_to_wide(text);
  CHECK(wide);
  CHECK(wcslen(wide) == length);
  CHECK(wmemcmp(wide, expected, length) == 0);
  char *again = utf8_from_wide(wide, length);
  CHECK(again);
  CHECK(strcmp(again, text) == 0);
  free(again);
  free(wide);
}

#define READ_AS(text, ...)                                                                                             \
  do {                                                                                                                 \
    const wchar_t expected_[] = {__VA_ARGS__};                                                                         \
    is_read_as(text, expected_, sizeof expected_ / sizeof *expected_);                                                 \
  } while (0)

static void utf8_is_read_and_written(void) {
  is_read_as("", L"", 0);
  READ_AS("a\x7F", 'a', 0x7F);
  READ_AS("\xC2\x80\xDF\xBF", 0x80, 0x7FF);
  READ_AS("\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF", 0x800, 0xD7FF, 0xE000, 0xFFFF);
  READ_AS("\xF0\x90\x80\x80\xF4\x8F\xBF\xBF", 0x10000, 0x10FFFF);
}

static void what_combines_has_a_column_of_its_own(void) {
  CHECK(setlocale(LC_CTYPE, "C.UTF-8"));
  READ_AS("e\xCC\x81", 'e', 0xF0301);
  READ_AS("\xE0\xB8\xB5", 0xF0E35);                            /* Thai */
  READ_AS("\xF3\xB0\x8C\x81", 0xDCF3, 0xDCB0, 0xDC8C, 0xDC81); /* U+F0301 itself: nothing is taken for another */
  READ_AS("\xF3\xB0\x80\x81", 0xF0001);
  char drawn[UTF8_DRAWN];
  CHECK(utf8_draw(0xF0301, drawn) == 5 && memcmp(drawn, "\xE2\x97\x8C\xCC\x81", 5) == 0);
  CHECK(utf8_draw(0xF0E35, drawn) == 6 && memcmp(drawn, "\xE2\x97\x8C\xE0\xB8\xB5", 6) == 0);
  CHECK(utf8_draw(0xF0001, drawn) == 4 && memcmp(drawn, "\xF3\xB0\x80\x81", 4) == 0);
  CHECK(utf8_draw('a', drawn) == 1 && utf8_draw(0xDCFF, drawn) == 1 && drawn[0] == '\xFF');
  CHECK(utf8_size(0xF0301) == 2 && utf8_size(0xDC80) == 1 && utf8_size(0x20AC) == 3 && utf8_size(0x1F600) == 4);
}

static void what_is_no_utf8_is_kept_byte_by_byte(void) {
  READ_AS("\x80\xBF", 0xDC80, 0xDCBF);                         /* nothing began */
  READ_AS("\xC0\x80\xC1\xBF", 0xDCC0, 0xDC80, 0xDCC1, 0xDCBF); /* overlong */
  READ_AS("\xE0\x9F\xBF\xF0\x8F\xBF\xBF", 0xDCE0, 0xDC9F, 0xDCBF, 0xDCF0, 0xDC8F, 0xDCBF, 0xDCBF);
  READ_AS("\xED\xA0\x80\xED\xBF\xBF", 0xDCED, 0xDCA0, 0xDC80, 0xDCED, 0xDCBF, 0xDCBF);             /* surrogates */
  READ_AS("\xF4\x90\x80\x80\xF5\x80\xFF", 0xDCF4, 0xDC90, 0xDC80, 0xDC80, 0xDCF5, 0xDC80, 0xDCFF); /* too large */
  READ_AS("\xC3", 0xDCC3); /* it ends too early */
  READ_AS("\xE2\x82", 0xDCE2, 0xDC82);
  READ_AS("\xF0\x9F\x98", 0xDCF0, 0xDC9F, 0xDC98);
  READ_AS("\xE2\x82\x61\xC3\xA4", 0xDCE2, 0xDC82, 'a', 0xE4); /* it is broken off */
  READ_AS("\xF0\x9F\xC3\xA4\xC3(", 0xDCF0, 0xDC9F, 0xE4, 0xDCC3, '(');
}

/* Bytes that come in pieces: a negative number ends each. */
static int next_of_pieces(void *ud) {
  const int **at = (const int **)ud;
  return *(*at)++;
}

static void a_reader_goes_on_after_an_end(void) {
  static const int pieces[] = {-1, 0xE2, 0x82, -1, 'a', 0xE2, 0x82, 0xAC, -1};
  const int *at = pieces;
  Utf8Reader reader = {.count = 0};
  CHECK(utf8_read(&reader, next_of_pieces, &at) == UTF8_END);
  CHECK(utf8_read(&reader, next_of_pieces, &at) == 0xDCE2); /* it cannot be waited for */
  CHECK(reader.count == 1);
  CHECK(utf8_read(&reader, next_of_pieces, &at) == 0xDC82);
  CHECK(utf8_read(&reader, next_of_pieces, &at) == 'a');
  CHECK(utf8_read(&reader, next_of_pieces, &at) == 0x20AC);
  CHECK(utf8_read(&reader, next_of_pieces, &at) == UTF8_END);
  CHECK(reader.count == 0);
}

static void characters_that_are_no_bytes_are_written(void) {
  static const wchar_t wide[] = {0xDC7F, 0xDD00}; /* at both sides of those that are */
  char *text = utf8_from_wide(wide, 2);
  CHECK(text);
  CHECK(strcmp(text, "\xED\xB1\xBF\xED\xB4\x80") == 0);
  free(text);
}

/* ---- the command line ---- */

enum { MOST_WORDS = 8 };

/* Reads words as those that follow the program's name. */
static Options options_of(char **words) {
  char *argv[MOST_WORDS + 2] = {(char *)"program"};
  int argc = 1;
  while (*words && argc <= MOST_WORDS) argv[argc++] = *words++;
  return options_read(argc, argv);
}

#define OPTIONS(...) options_of((char *[]){__VA_ARGS__, NULL})

/* Whether reading it ended with a complaint. */
static bool is_wrong(Options o, const char *option, const char *reason) {
  if (!o.wrong || strcmp(o.wrong, option) != 0) return false;
  return reason ? o.reason && strcmp(o.reason, reason) == 0 : !o.reason;
}

static void the_command_line_is_read(void) {
  char *nothing[] = {NULL}, *nameless[] = {(char *)"", NULL}, *none[] = {NULL};
  CHECK(strcmp(options_read(0, none).program, "runnel") == 0);
  CHECK(strcmp(options_read(1, nameless).program, "runnel") == 0);
  CHECK(options_of(nothing).script == 1);

  CHECK(OPTIONS("--help").help);
  CHECK(OPTIONS("-h").help);
  CHECK(OPTIONS("-v").version && !OPTIONS("-v").interactive);
  CHECK(OPTIONS("-i").version && OPTIONS("-i").interactive);
  CHECK(OPTIONS("-E").no_environment && OPTIONS("--no-drain").no_drain);
  CHECK(OPTIONS("--time").timed && OPTIONS("--sim").simulated);
  CHECK(OPTIONS("-e", "x").executes && OPTIONS("-ex").executes && !OPTIONS("-lx").executes);

  CHECK(OPTIONS("-W", "-", "-x").script == 2);
  CHECK(OPTIONS("-W", "--", "-x").script == 3);
  CHECK(OPTIONS("-l", "mod", "script", "-x").script == 3);
  CHECK(OPTIONS("test", "file").command && !OPTIONS("tests").command);

  CHECK(OPTIONS("--seed", "12").seed == 12 && OPTIONS("--seed=-3").seed == -3 && OPTIONS("--seed=1", "s").script == 2);
  CHECK(OPTIONS("--deadlock", "warn").deadlock == DEADLOCK_WARN);
  CHECK(OPTIONS("--deadlock=error").deadlock == DEADLOCK_ERROR);
  CHECK(OPTIONS("--deadlock=ignore").deadlock == DEADLOCK_IGNORE);
  CHECK(OPTIONS("--errors=warn").errors_pass && !OPTIONS("--errors", "error").errors_pass);
  CHECK(OPTIONS("--trace-records=256").trace_records == 256);
  CHECK(strcmp(OPTIONS("--trace=lua").trace, "lua") == 0);
  CHECK(OPTIONS("--monitor").monitored && OPTIONS("--monitor=65535").monitor_port == 65535);
}

static void a_wrong_command_line_is_told_of(void) {
  static const char seed[] = "needs an integer from -2^63 to 2^63 - 1", mode[] = "needs one of error, warn and ignore";
  static const char argument[] = "needs argument", records[] = "needs an integer from 256 to 16777216";
  static const char *const ports[] = {"--monitor=", "--monitor=1x", "--monitor=-1", "--monitor=65536"};
  CHECK(is_wrong(OPTIONS("--seed"), "--seed", seed));
  CHECK(is_wrong(OPTIONS("--seed="), "--seed", seed));
  CHECK(is_wrong(OPTIONS("--seed", "1x"), "--seed", seed));
  CHECK(is_wrong(OPTIONS("--seeds", "1"), "--seeds", NULL));
  CHECK(is_wrong(OPTIONS("--deadlock"), "--deadlock", mode));
  CHECK(is_wrong(OPTIONS("--deadlock=errors"), "--deadlock", mode));
  CHECK(is_wrong(OPTIONS("--deadlocked"), "--deadlocked", NULL));
  CHECK(is_wrong(OPTIONS("--errors"), "--errors", "needs one of error and warn"));
  CHECK(is_wrong(OPTIONS("--errors=ignore"), "--errors", "needs one of error and warn"));
  CHECK(is_wrong(OPTIONS("--trace-records"), "--trace-records", records));
  CHECK(is_wrong(OPTIONS("--trace-records="), "--trace-records", records));
  CHECK(is_wrong(OPTIONS("--trace-records=1x"), "--trace-records", records));
  CHECK(is_wrong(OPTIONS("--trace-records=9"), "--trace-records", records));
  CHECK(is_wrong(OPTIONS("--trace="), "--trace", "needs the path of a file, as in --trace=out.json"));
  CHECK(is_wrong(OPTIONS("--trace=x.lua"), "--trace",
                 "does not write over a Lua file: give another one, as in --trace=out.json"));
  for (size_t i = 0; i < sizeof ports / sizeof *ports; i++)
    CHECK(is_wrong(OPTIONS((char *)ports[i]), "--monitor", "needs a port from 0 to 65535, as in --monitor=8080"));
  CHECK(is_wrong(OPTIONS("-e"), "-e", argument));
  CHECK(is_wrong(OPTIONS("-e", "-v"), "-e", argument));
  CHECK(is_wrong(OPTIONS("-l"), "-l", argument));
  CHECK(is_wrong(OPTIONS("-vi"), "-vi", NULL));
  CHECK(is_wrong(OPTIONS("-x"), "-x", NULL));
  CHECK(is_wrong(OPTIONS("-v", "-Wx"), "-Wx", NULL));
}

static void the_options_that_run_are_found_again(void) {
  char *argv[] = {(char *)"program",
                  (char *)"-v",
                  (char *)"--seed",
                  (char *)"1",
                  (char *)"-ex",
                  (char *)"-l",
                  (char *)"mod",
                  (char *)"-W",
                  (char *)"-l",
                  (char *)"--deadlock",
                  (char *)"error",
                  (char *)"script",
                  NULL};
  const char *argument;
  int i = 1;
  CHECK(options_next(argv, &i, &argument) == 0 && i == 1);
  CHECK(options_next(argv, (i = 2, &i), &argument) == 0 && i == 3);
  CHECK(options_next(argv, (i = 4, &i), &argument) == 'e' && i == 4 && strcmp(argument, "x") == 0);
  CHECK(options_next(argv, (i = 5, &i), &argument) == 'l' && i == 6 && strcmp(argument, "mod") == 0);
  CHECK(options_next(argv, (i = 7, &i), &argument) == 'W' && i == 7);
  CHECK(options_next(argv, (i = 8, &i), &argument) == 'l' && i == 8 && !argument);
  CHECK(options_next(argv, (i = 9, &i), &argument) == 0 && i == 10);
  CHECK(options_next(argv, (i = 11, &i), &argument) == 0 && i == 11);
}

/* ---- output above a line that is edited ---- */

static int screen; /* what is written to the terminal arrives here */

static void resize(unsigned short columns) {
  struct winsize size = {.ws_row = 24, .ws_col = columns};
  CHECK(ioctl(screen, TIOCSWINSZ, &size) == 0);
}

/* Checks what has been written to the terminal. */
static void shows(const char *expected) {
  char bytes[1024] = "";
  size_t length = strlen(expected), n = 0;
  (void)fflush(stdout);
  while (n < sizeof bytes && poll(&(struct pollfd){.fd = screen, .events = POLLIN}, 1, n < length ? 5000 : 0) > 0) {
    ssize_t got = read(screen, bytes + n, sizeof bytes - n);
    CHECK(got > 0);
    n += (size_t)got;
  }
  CHECK(n == length && memcmp(bytes, expected, n) == 0);
}

static int hidden;
static void hide(void) { hidden++; }

/* stdout becomes a terminal from here on. */
static void open_terminal(void) {
  struct termios raw = {0};
  screen = posix_openpt(O_RDWR | O_NOCTTY);
  CHECK(screen >= 0 && grantpt(screen) == 0 && unlockpt(screen) == 0);
  int terminal = open(ptsname(screen), O_RDWR | O_NOCTTY); /* NOLINT(concurrency-mt-unsafe): there is one thread */
  CHECK(terminal >= 0);
  CHECK(tcgetattr(terminal, &raw) == 0);
  raw.c_oflag &= ~(tcflag_t)OPOST;
  CHECK(tcsetattr(terminal, TCSANOW, &raw) == 0);
  CHECK(dup2(terminal, STDOUT_FILENO) == STDOUT_FILENO);
  (void)close(terminal);
  resize(80);
  output_install();
}

static void a_line_begins_on_the_left(void) {
  output_fresh_line();
  shows("");
  (void)printf("tick");
  output_fresh_line();
  shows("tick\n");
  output_fresh_line();
  shows("");
  (void)printf("tock\n"); /* it goes on where it was */
  shows("\033[A\rticktock\n");
  output_fresh_line();
  shows("");
}

/* Whatever is printed stays in a line of its own. */
static void is_not_continued(const char *line) {
  char expected[512];
  (void)fputs(line, stdout);
  output_fresh_line();
  (void)snprintf(expected, sizeof expected, "%s\n", line);
  shows(expected);
  (void)printf("more\n");
  shows("more\n");
}

static void what_cannot_be_continued_is_not(void) {
  char line[101] = "";
  is_not_continued("a\ttab");
  is_not_continued("a\177");
  memset(line, '.', 100);
  is_not_continued(line);
  (void)fputs("a\tb", stdout); /* it goes on, but it is not known where */
  shows("a\tb");
  is_not_continued("c");
  resize(3);
  is_not_continued("abc");
  resize(0);
  is_not_continued("abc");
  resize(80);
}

static void is_read(const char *bytes) {
  for (; *bytes; bytes++) {
    if (!width_takes((unsigned char)*bytes)) width_keep((unsigned char)*bytes);
  }
}

static void has_keys(const char *keys) {
  for (; *keys; keys++) CHECK(width_next() == (unsigned char)*keys);
  CHECK(width_next() == -1);
}

/* The terminal's answer comes between keys that begin like it, such as arrows. */
static void keys_around_the_width_are_kept(void) {
  width_ask(true);
  shows("\0337\033[9999C\033[6n\0338");
  is_read("a\033[D\033[1;5C\033\033[24;8");
  CHECK(width_answer() == 0);
  is_read("0Rb");
  CHECK(width_answer() == 80);
  has_keys("a\033[D\033[1;5C\033b");
  is_read("\033[24;90R"); /* it has not asked for that */
  CHECK(width_answer() == 80);
  has_keys("\033[24;90R");
  width_ask(true);
  shows("\0337\033[9999C\033[6n\0338");
  is_read("\033[1111111111111111"); /* longer than any answer */
  has_keys("\033[1111111111111111");
  is_read("\033[1;7R");
  CHECK(width_answer() == 7);
}

/* The screen may change its size again before the terminal has answered. */
static void the_answer_to_an_earlier_question_is_no_key(void) {
  width_ask(true);
  shows("\0337\033[9999C\033[6n\0338");
  width_ask(true);
  shows("\0337\033[9999C\033[6n\0338");
  is_read("a\033[1;50R");
  CHECK(width_answer() == 0);
  is_read("b\033[1;80Rc");
  CHECK(width_answer() == 80);
  has_keys("abc");
  width_ask(true); /* whose answer is lost */
  shows("\0337\033[9999C\033[6n\0338");
  width_ask(false);
  shows("\0337\033[9999C\033[6n\0338");
  is_read("\033[1;60R\033[1;5R");
  CHECK(width_answer() == 60);
  has_keys("\033[1;5R");
}

static void the_line_is_hidden_once(void) {
  output_before(hide);
  (void)printf("a\nb\n");
  shows("a\nb\n");
  CHECK(hidden == 1);
  output_before(hide);
  output_before(NULL);
  (void)printf("c\n");
  shows("c\n");
  CHECK(hidden == 1);
}

enum { MUCH = 200000 };

/* Reads as much as is written, and begins late. */
static void *read_much(void *ud) {
  char bytes[4096];
  size_t n = 0;
  (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  while (n < MUCH) {
    ssize_t got = read(screen, bytes, sizeof bytes);
    CHECK(got > 0);
    n += (size_t)got;
  }
  *(size_t *)ud = n;
  return NULL;
}

static void a_terminal_that_does_not_block_gets_all(void) {
  pthread_t reader;
  size_t n = 0;
  CHECK(fcntl(STDOUT_FILENO, F_SETFL, O_WRONLY | O_NONBLOCK) == 0);
  CHECK(pthread_create(&reader, NULL, read_much, &n) == 0);
  for (int i = 0; i < MUCH; i++) CHECK(putchar(i % 100 == 99 ? '\n' : 'y') != EOF);
  CHECK(fflush(stdout) == 0);
  CHECK(pthread_join(reader, NULL) == 0);
  CHECK(n == MUCH);
}

static void a_terminal_that_cannot_be_written_to_is_an_error(void) {
  int nowhere = open("/dev/null", O_RDONLY);
  CHECK(nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) == STDOUT_FILENO);
  (void)close(nowhere);
  (void)printf("lost");
  CHECK(fflush(stdout) == EOF);
  CHECK(ferror(stdout));
}

int main(void) {
  a_paste_ends_with_its_mark();
  a_paste_loses_its_zeros();
  of_a_long_paste_the_beginning_is_shown();
  utf8_is_read_and_written();
  what_is_no_utf8_is_kept_byte_by_byte();
  what_combines_has_a_column_of_its_own();
  a_line_is_drawn();
  a_full_row_goes_on_without_a_newline();
  of_a_high_picture_the_rows_around_the_cursor_are_drawn();
  the_row_of_the_cursor_follows_the_width();
  a_reader_goes_on_after_an_end();
  characters_that_are_no_bytes_are_written();

  the_command_line_is_read();
  a_wrong_command_line_is_told_of();
  the_options_that_run_are_found_again();

#if defined(__GLIBC__)
  open_terminal();
  a_line_begins_on_the_left();
  what_cannot_be_continued_is_not();
  keys_around_the_width_are_kept();
  the_answer_to_an_earlier_question_is_no_key();
  the_line_is_hidden_once();
  a_terminal_that_does_not_block_gets_all();
  a_terminal_that_cannot_be_written_to_is_an_error();
#endif
  (void)fputs("host: all is well\n", stderr);
  return EXIT_SUCCESS;
}
