/* options.h: what the command line asks for: that of lua5.4, and the host's own. */
#ifndef RUNNEL_HOST_OPTIONS_H
#define RUNNEL_HOST_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

/* What to do about go blocks that are parked for ever when the script has ended. */
typedef enum Deadlock { DEADLOCK_WARN, DEADLOCK_ERROR, DEADLOCK_IGNORE } Deadlock;

typedef struct Options {
  const char *program; /* the executable's name in messages */
  int script;          /* index of the script in argv, or argc without one; "-" is standard input */
  const char *wrong;   /* the option that cannot be, or NULL */
  const char *reason;  /* what is wrong with it; NULL: nobody knows it */
  bool help;           /* -h, --help */
  bool version;        /* -v */
  bool interactive;    /* -i */
  bool executes;       /* there is an -e */
  bool no_environment; /* -E */
  bool no_drain;       /* --no-drain: end with the script */
  bool timed;          /* --time: tell how long it took */
  bool simulated;      /* --sim: in virtual time */
  bool seeded;         /* --seed N: what is random comes from the seed */
  bool test;           /* the script is `test`: its arguments are busted's */
  bool errors_pass;    /* --errors=warn: errors that nobody took do not change the exit status */
  long long seed;      /* N */
  Deadlock deadlock;   /* --deadlock=... */
} Options;

/* Reads the arguments as far as the script. */
Options options_read(int argc, char **argv);

/* The argument of an option that lua5.4 runs in its turn (-e, -l, -W), when argv[*i] is one: its letter is returned, its
   argument stored, and *i moved to the last word that it takes. 0 for any other option. */
char options_next(char **argv, int *i, const char **argument);

/* Writes how to call the executable. */
void options_usage(FILE *to, const char *program);

#endif
