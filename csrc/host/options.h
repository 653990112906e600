/* options.h: the command line: the options of lua5.4, and those of runnel. */
#ifndef RUNNEL_HOST_OPTIONS_H
#define RUNNEL_HOST_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "host/bundle/bundle.h"

/* The action for go blocks that are parked forever when the script has ended. */
typedef enum Deadlock { DEADLOCK_WARN, DEADLOCK_ERROR, DEADLOCK_IGNORE } Deadlock;

typedef struct Options {
  const char *program;     /* the executable's name in messages */
  int script;              /* index of the script in argv, or argc without one; "-" is standard input */
  const char *wrong;       /* the invalid option, or NULL */
  const char *reason;      /* the reason why it is invalid; NULL: the option is unknown */
  bool help;               /* -h, --help */
  bool version;            /* -v */
  bool version_only;       /* --version */
  bool interactive;        /* -i */
  bool executes;           /* there is at least one -e */
  bool no_environment;     /* -E */
  bool no_drain;           /* --no-drain, and `test`: end with the script */
  bool timed;              /* --time: print times and memory at the end */
  bool simulated;          /* --sim: in virtual time */
  bool seeded;             /* --seed N: all random numbers depend on the seed */
  const char *command;     /* the script is the name of a command, such as `test`: its module; or NULL */
  bool monitored;          /* --monitor: with the page in the browser */
  int monitor_port;        /* its port; 0: any that is free */
  bool errors_pass;        /* --errors=warn: unhandled errors do not change the exit status */
  long long seed;          /* N */
  const char *trace;       /* --trace=FILE: the path, or NULL */
  long long trace_records; /* --trace-records=N; 0: the default */
  const char *profile;     /* --profile=FILE: the path, or NULL */
  bool has_deadlock;       /* --deadlock=... was given */
  Deadlock deadlock;       /* its mode */
} Options;

/* Reads the arguments that precede the script. */
Options options_read(int argc, char **argv);

/* Reads the options that a program takes that was built, before its own arguments, which begin at `script`. */
Options options_of_bundle(const Bundle *b, int argc, char **argv);

/* If argv[*i] is an option that is executed in its turn (-e, -l or -W): returns its letter, stores its argument, and
   moves *i to its last word. Returns 0 for any other option. */
char options_next(char **argv, int *i, const char **argument);

/* Writes the list of options. */
void options_usage(FILE *to, const char *program);

/* The command or the option that a word may have been meant for, or NULL. */
const char *options_meant(const char *word);

#endif
