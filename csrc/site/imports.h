/* imports.h: what the page does for the program: the functions of csrc/site/imports.js, which call those of the worker
   (site/pages/worker.js). */
#ifndef RUNNEL_SITE_IMPORTS_H
#define RUNNEL_SITE_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>

/* Waits for so many ms, or until the page has something for the program: a command, or what it has fetched. 0 only lets
   such things in. */
extern void page_sleep(double ms);

/* Whether the page can reach the program while it runs. Otherwise page_sleep blocks the worker, and there are neither
   commands nor page_fetch. */
extern bool page_reaches(void);

/* The number that a text begins with, and where it ends, as strtod. */
extern double page_number(const char *text, char **end);

/* Sends the monitor's page a message: JSON. */
extern void page_message(const char *json, size_t length);

/* The monitor's page's next command: its number and its words, each ended by a zero. From malloc; NULL if there is none. */
extern char *page_command(size_t *length);

/* Begins to fetch a URL, or as much of it as the page may see. */
extern void page_fetch(int number, const char *url);

/* Something that has been fetched: its number, the HTTP status, and the body, from malloc. A status of 0 means failure,
   and the body says why. Returns 0 if there is nothing. */
extern int page_fetched(int *status, char **body, size_t *length);

#endif
