/* host: how fast the executable starts, compared with lua5.4, and how fast its prompt echoes keys.

     host LUA RUNNEL

   Starts both in turn with an empty chunk. Then types at the prompt, in a pseudo-terminal, while 1000 go blocks pass
   messages, and waits for the echo of each key. Fails if a target is missed: starting in at most 1.3 times the time of
   lua5.4, and echoing 9 of 10 keys within 10 ms. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STARTS = 200, KEYS = 300, PATIENCE_MS = 10000 };

static double now_ms(void) {
  struct timespec ts;
  (void)clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}

static void give_up(const char *what) {
  perror(what);
  exit(EXIT_FAILURE);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Runs an interpreter with an empty chunk, and returns how many ms it takes. */
static double time_start(const char *program) {
  double began = now_ms();
  pid_t pid = fork();
  if (pid < 0) give_up("fork");
  if (pid == 0) {
    (void)execlp(program, program, "-e", "", (char *)NULL);
    _exit(127);
  }
  int status;
  if (waitpid(pid, &status, 0) != pid || status != 0) {
    (void)fprintf(stderr, "host: %s cannot be run\n", program);
    exit(EXIT_FAILURE);
  }
  return now_ms() - began;
}

static bool starts_fast(const char *lua, const char *runnel) {
  static double of_lua[STARTS], of_runnel[STARTS];
  for (int i = 0; i < STARTS; i++) {
    of_lua[i] = time_start(lua);
    of_runnel[i] = time_start(runnel);
  }
  qsort(of_lua, STARTS, sizeof(double), compare);
  qsort(of_runnel, STARTS, sizeof(double), compare);
  double ratio = of_runnel[STARTS / 2] / of_lua[STARTS / 2];
  (void)printf("start       lua %.2f ms, runnel %.2f ms (medians): %.2f x, target <= 1.3: %s\n", of_lua[STARTS / 2],
               of_runnel[STARTS / 2], ratio, ratio <= 1.3 ? "met" : "MISSED");
  return ratio <= 1.3;
}

/* Starts the prompt in a pseudo-terminal, and returns the descriptor of the other end. */
static int open_prompt(const char *runnel, pid_t *pid) {
  int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) give_up("posix_openpt");
  const char *name = ptsname(terminal);
  *pid = fork();
  if (*pid < 0) give_up("fork");
  if (*pid == 0) {
    (void)setsid();
    int fd = open(name, O_RDWR);
    for (int i = 0; i < 3 && fd >= 0; i++) (void)dup2(fd, i);
    (void)setenv("TERM", "xterm", 1);
    (void)setenv("XDG_STATE_HOME", "/nowhere", 1);
    (void)execlp(runnel, runnel, (char *)NULL);
    _exit(127);
  }
  return terminal;
}

/* Reads until the byte arrives. */
static void read_until(int fd, char byte) {
  char buffer[4096];
  ssize_t n;
  do {
    if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, PATIENCE_MS) <= 0) {
      (void)fprintf(stderr, "host: the prompt does not answer\n");
      exit(EXIT_FAILURE);
    }
    n = read(fd, buffer, sizeof buffer);
    if (n <= 0) give_up("read");
  } while (!memchr(buffer, byte, (size_t)n));
}

static void send(int fd, const char *text) {
  if (write(fd, text, strlen(text)) < 0) give_up("write");
}

static bool answers_fast(const char *runnel) {
  static double took[KEYS];
  pid_t pid;
  int fd = open_prompt(runnel, &pid);
  read_until(fd, '>');
  send(fd, "for i = 1, 500 do local a, b = rn.chan(), rn.chan() "
           "rn.go(function() while true do a:put(1) b:take() end end) "
           "rn.go(function() while true do a:take() b:put(1) end end) end print(string.char(64))\r");
  read_until(fd, '@');
  for (int i = 0; i < KEYS; i++) {
    char key[] = {(char)('a' + i % 26), '\0'};
    (void)nanosleep(&(struct timespec){.tv_nsec = 7000000}, NULL);
    double began = now_ms();
    send(fd, key);
    read_until(fd, key[0]);
    took[i] = now_ms() - began;
  }
  (void)kill(pid, SIGKILL);
  (void)waitpid(pid, NULL, 0);
  (void)close(fd);
  qsort(took, KEYS, sizeof(double), compare);
  double most = took[KEYS * 9 / 10];
  (void)printf("key's echo  %.2f ms (median), 9 of 10 within %.2f ms, target <= 10: %s\n", took[KEYS / 2], most,
               most <= 10 ? "met" : "MISSED");
  return most <= 10;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    (void)fprintf(stderr, "usage: host LUA RUNNEL\n");
    return EXIT_FAILURE;
  }
  bool well = starts_fast(argv[1], argv[2]);
  return answers_fast(argv[2]) && well ? EXIT_SUCCESS : EXIT_FAILURE;
}
