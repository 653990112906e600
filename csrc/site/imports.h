/* imports.h: the page's functions for the program: those of csrc/site/imports.js, which call the worker's
   (site/pages/worker.js). */
#ifndef RUNNEL_SITE_IMPORTS_H
#define RUNNEL_SITE_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>

/* Waits for `ms`, or until the page has a command or a fetched body for the program. 0 only lets these in. */
extern void page_sleep(double ms);

/* Whether the page can reach the program while it runs. Otherwise page_sleep blocks the worker, and there are neither
   commands nor page_fetch. */
extern bool page_reaches(void);

/* Parses the number at the start of a text, and finds its end, as strtod. */
extern double page_number(const char *text, char **end);

/* Sends the monitor's page a message: JSON. */
extern void page_message(const char *json, size_t length);

/* Gives the page the story of a simulated world, which it draws: JSON. */
extern void page_story(const char *json, size_t length);

/* The monitor's page's next command: its number and its words, each ended by a zero. From malloc; NULL if there is none. */
extern char *page_command(size_t *length);

/* The code of a Lua module that is not in this one (site/site.mk), from malloc; NULL if there is none of that name. */
extern char *page_module(const char *name, size_t *length);

/* Begins to fetch a URL; the browser may restrict the access. */
extern void page_fetch(int number, const char *url);

/* A fetched answer: its number, the HTTP status, and the body, from malloc. A status of 0 means failure, and the body
   has the reason. Returns 0 if there is none. */
extern int page_fetched(int *status, char **body, size_t *length);

#endif
