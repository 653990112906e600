/* options.c: see options.h. */
#include "host/options.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/bundle/bundle.h"

static bool complain(Options *o, const char *option, const char *reason) {
  o->wrong = option;
  o->reason = reason;
  return false;
}

/* The value of the option `name` at argv[*i]: after a `=`, or the next word. NULL if there is none. */
static const char *value_of(const char *name, char **argv, int *i) {
  size_t length = strlen(name);
  if (argv[*i][length] == '=') return argv[*i] + length + 1;
  return argv[*i + 1] ? argv[++*i] : NULL;
}

/* Whether the word is the option `name`, with or without a `=value`. */
static bool is_option(const char *word, const char *name) {
  size_t length = strlen(name);
  return strncmp(word, name, length) == 0 && (word[length] == '\0' || word[length] == '=');
}

static bool read_deadlock(Options *o, const char *value) {
  static const char *const names[] = {"warn", "error", "ignore"};
  o->has_deadlock = true;
  for (int i = 0; value && i < 3; i++) {
    if (strcmp(value, names[i]) != 0) continue;
    o->deadlock = (Deadlock)i;
    return true;
  }
  return complain(o, "--deadlock", "needs one of error, warn and ignore");
}

static bool read_errors(Options *o, const char *value) {
  o->errors_pass = value && strcmp(value, "warn") == 0;
  return o->errors_pass || (value && strcmp(value, "error") == 0) ||
         complain(o, "--errors", "needs one of error and warn");
}

/* The file will be overwritten: it must not be a script by mistake, as in `--trace script.lua`. */
static bool read_trace(Options *o, const char *word) {
  if (word[strlen("--trace")] == '=') o->trace = word + strlen("--trace=");
  if (!o->trace || !*o->trace) return complain(o, "--trace", "needs the path of a file, as in --trace=out.json");
  size_t length = strlen(o->trace);
  return length < 4 || strcmp(o->trace + length - 4, ".lua") != 0 ||
         complain(o, "--trace", "does not write over a Lua file: give another one, as in --trace=out.json");
}

static bool read_profile(Options *o, const char *word) {
  if (word[strlen("--profile")] == '=') o->profile = word + strlen("--profile=");
  return (o->profile && *o->profile) || complain(o, "--profile",
                                                 "needs the path of a file ending in .html, .folded or .json, as in "
                                                 "--profile=out.html");
}

/* Reads a whole value as an integer in a range. */
static bool read_integer(const char *value, long long least, long long most, long long *n) {
  char *end = NULL;
  errno = 0;
  if (value) *n = strtoll(value, &end, 10);
  return end && end != value && !*end && errno != ERANGE && *n >= least && *n <= most;
}

/* The range is that of rn.trace. */
static bool read_trace_records(Options *o, const char *value) {
  return read_integer(value, 256, 16777216, &o->trace_records) ||
         complain(o, "--trace-records", "needs an integer from 256 to 16777216");
}

static bool read_seed(Options *o, const char *value) {
  o->seeded = true;
  return read_integer(value, LLONG_MIN, LLONG_MAX, &o->seed) ||
         complain(o, "--seed", "needs an integer from -2^63 to 2^63 - 1");
}

static bool read_monitor(Options *o, const char *word) {
  const char *value = word[strlen("--monitor")] == '=' ? word + strlen("--monitor=") : "0";
  long long port = 0;
  bool is_port = read_integer(value, 0, 65535, &port);
  o->monitored = true;
  o->monitor_port = (int)port;
  return is_port || complain(o, "--monitor", "needs a port from 0 to 65535, as in --monitor=8080");
}

/* Reads an option of two dashes at argv[*i]. Returns false if it is invalid. */
static bool read_long(Options *o, char **argv, int *i) {
  const char *word = argv[*i];
  if (strcmp(word, "--help") == 0) return o->help = true;
  if (strcmp(word, "--version") == 0) return o->version_only = true;
  if (strcmp(word, "--no-drain") == 0) return o->no_drain = true;
  if (strcmp(word, "--time") == 0) return o->timed = true;
  if (strcmp(word, "--sim") == 0) return o->simulated = true;
  if (is_option(word, "--seed")) return read_seed(o, value_of("--seed", argv, i));
  if (is_option(word, "--monitor")) return read_monitor(o, word);
  if (is_option(word, "--errors")) return read_errors(o, value_of("--errors", argv, i));
  if (is_option(word, "--deadlock")) return read_deadlock(o, value_of("--deadlock", argv, i));
  if (is_option(word, "--trace")) return read_trace(o, word);
  if (is_option(word, "--profile")) return read_profile(o, word);
  if (is_option(word, "--trace-records")) return read_trace_records(o, value_of("--trace-records", argv, i));
  return complain(o, word, NULL);
}

/* Reads an option of one dash at argv[*i]. Returns false if it is invalid. */
static bool read_short(Options *o, char **argv, int *i) {
  const char *word = argv[*i], *argument;
  if (options_next(argv, i, &argument)) {
    if (word[1] == 'e') o->executes = true;
    return argument || complain(o, word, "needs argument");
  }
  if (word[1] && word[2]) return complain(o, word, NULL);
  switch (word[1]) {
  case 'h':
    return o->help = true;
  case 'v':
    return o->version = true;
  case 'i':
    return o->interactive = o->version = true;
  case 'E':
    return o->no_environment = true;
  default:
    return complain(o, word, NULL);
  }
}

char options_next(char **argv, int *i, const char **argument) {
  const char *word = argv[*i];
  *argument = "";
  if (word[0] != '-') return 0;
  if (strcmp(word, "-W") == 0) return 'W';
  if (word[1] != 'e' && word[1] != 'l') {
    static const char *const with_value[] = {"--seed", "--deadlock", "--errors", "--trace-records"};
    for (size_t n = 0; n < sizeof with_value / sizeof *with_value; n++) {
      if (strcmp(word, with_value[n]) == 0) ++*i;
    }
    return 0;
  }
  *argument = word[2] ? word + 2 : argv[*i + 1] && argv[*i + 1][0] != '-' ? argv[++*i] : NULL;
  return word[1];
}

/* The least of three numbers. */
static size_t least_of(size_t a, size_t b, size_t c) {
  size_t least = a < b ? a : b;
  return least < c ? least : c;
}

/* How many letters must be inserted, removed, replaced or exchanged with the next one to make one word of the other.
   Words that are longer than MOST are not like any. */
static size_t distance(const char *a, const char *b) {
  enum { MOST = 24 };
  size_t n = strlen(a), m = strlen(b), d[MOST + 1][MOST + 1];
  if (n > MOST || m > MOST) return MOST;
  for (size_t i = 0; i <= n; i++) {
    for (size_t j = 0; j <= m; j++) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = least_of(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
      bool is_exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_exchanged && d[i - 2][j - 2] + 1 < d[i][j]) d[i][j] = d[i - 2][j - 2] + 1;
    }
  }
  return d[n][m];
}

const char *options_meant(const char *word) {
  static const char *const known[] = {"new",        "test",     "queues",          "runs",      "build",
                                      "doc",        "--help",   "--version",       "--sim",     "--seed",
                                      "--trace",    "--time",   "--trace-records", "--monitor", "--no-drain",
                                      "--deadlock", "--errors", "--profile"};
  size_t limit = strlen(word) <= 3 ? 1 : 2;
  const char *best = NULL;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t n = distance(word, known[i]);
    if (n > limit || (known[i][0] == '-') != (word[0] == '-')) continue;
    best = known[i];
    limit = n - (n > 0);
    if (n == 0) break;
  }
  return best;
}

static const char *program_name(int argc, char **argv) { return argc > 0 && argv[0][0] ? argv[0] : "runnel"; }

/* The module of a command, or NULL for a script. */
static const char *command_of(const char *word) {
  static const char *const commands[][2] = {
      {"new", "runnel.host.new"},          {"test", "runnel.host.test"},   {"queues", "runnel.host.queue_command"},
      {"runs", "runnel.host.run_command"}, {"build", "runnel.host.build"}, {"doc", "runnel.host.doc_command"},
  };
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    if (strcmp(word, commands[i][0]) == 0) return commands[i][1];
  }
  return NULL;
}

/* Whether the word at argv[i] is the port that was meant for --monitor before it, and not a script. */
static bool is_lost_port(char **argv, int i) {
  const char *word = argv[i];
  return strcmp(argv[i - 1], "--monitor") == 0 && *word && !word[strspn(word, "0123456789")];
}

/* Refuses options that would have no effect. */
static bool check_effects(Options *o) {
  if (o->trace_records && !o->trace) return complain(o, "--trace-records", "needs --trace, as in --trace=out.json");
  if (o->trace && o->profile && strcmp(o->trace, o->profile) == 0)
    return complain(o, "--profile", "needs another file than --trace");
  if (o->has_deadlock && o->no_drain)
    return complain(o, "--deadlock", "has no effect with --no-drain, nor with test: they do not wait for go blocks");
  return true;
}

/* The options and the script. */
static Options read_words(int argc, char **argv) {
  Options o = {.program = program_name(argc, argv), .script = argc};
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i];
    if (word[0] != '-' || word[1] == '\0') {
      if (is_lost_port(argv, i)) {
        (void)complain(&o, "--monitor", "takes its port after a '=', as in --monitor=8080");
        return o;
      }
      o.script = i;
      o.command = command_of(word);
      if (strcmp(word, "test") == 0) o.no_drain = true; /* a test does not wait for what it has left */
      return o;
    }
    if (strcmp(word, "--") == 0) {
      o.script = i + 1;
      return o;
    }
    if (!(word[1] == '-' ? read_long(&o, argv, &i) : read_short(&o, argv, &i))) return o;
  }
  return o;
}

Options options_read(int argc, char **argv) {
  Options o = read_words(argc, argv);
  bool runs = o.script < argc || o.executes;
  if (o.wrong || !check_effects(&o) || !o.simulated || runs) return o;
  if (o.interactive || o.version || isatty(STDIN_FILENO))
    (void)complain(&o, "--sim", "needs a script: the prompt runs in real time");
  return o;
}

Options options_of_bundle(const Bundle *b, int argc, char **argv) {
  Options o = {.program = program_name(argc, argv), .no_environment = true};
  int i = 1;
  while (i < argc && bundle_takes(b, argv[i]) && read_long(&o, argv, &i)) i++;
  o.script = i;
  if (!o.wrong) (void)check_effects(&o);
  return o;
}

void options_usage(FILE *to, const char *program) {
  (void)fprintf(
      to,
      "usage: %s [options] [script [args]]\n"
      "       %s [options] test FILE...\n"
      "       %s queues [URL] [COMMAND]\n"
      "       %s runs FILE [COMMAND]\n"
      "       %s build SCRIPT [OPTIONS]\n"
      "       %s new NAME\n"
      "       %s doc NAME\n"
      "Without a script: the prompt, or the script on standard input if that is not a terminal.\n"
      "As in lua5.4:\n"
      "  -e stat          execute string 'stat'\n"
      "  -i               the prompt after executing 'script'\n"
      "  -l mod           require library 'mod' into global 'mod'\n"
      "  -l g=mod         require library 'mod' into global 'g'\n"
      "  -v               show version information\n"
      "  -E               ignore environment variables\n"
      "  -W               turn warnings on\n"
      "  --               stop handling options\n"
      "  -                stop handling options and execute stdin\n"
      "Other options:\n"
      "  -h, --help       show this list and exit\n"
      "  --version        show the version and exit\n"
      "  --no-drain       exit when the script ends; do not wait for its go blocks\n"
      "  --deadlock=MODE  if the script ends and leaves go blocks parked for ever: warn (the default), error or\n"
      "                   ignore\n"
      "  --errors=MODE    after an unhandled error of a go block: error (exit with status 1, the default) or\n"
      "                   warn (do not change the exit status)\n"
      "  --monitor[=PORT] show the program in a browser while it runs: prints the page's URL to stderr\n"
      "  --sim            run in virtual time, which jumps from one deadline to the next\n"
      "  --seed N         seed all random numbers with N\n"
      "  --trace=FILE     record what go blocks and channels do; at the end write the last of it to FILE, for\n"
      "                   Perfetto's viewer, chrome://tracing or speedscope\n"
      "  --trace-records=N  how many records are kept (default: 65536)\n"
      "  --profile=FILE   measure where the time goes, and write it to FILE at the end: a page if it ends in\n"
      "                   .html, folded stacks in .folded, for speedscope in .json\n"
      "  --time           print elapsed time, CPU time and peak memory at the end\n"
      "  test FILE...     run specs with busted\n"
      "  queues           show the queues of a NATS server; queues help lists its commands\n"
      "  runs FILE        show the durable runs in a file of runnel.store; runs help lists its commands\n"
      "  build SCRIPT     write an executable with the script, its modules and files; build --help lists its options\n"
      "  new NAME         write a project into the new folder NAME, with a spec and a file for CI\n"
      "  doc NAME         show what the manual says of a name or a question; doc --json writes all of it\n",
      program, program, program, program, program, program, program);
}
