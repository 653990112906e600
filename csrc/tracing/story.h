/* story.h: what happens in one run of an explorer (sim/explore.h), in order, each event with the line of the program
   that did it. It gets the records of the trace (trace_record.h) and the choices.

   It uses malloc, and calls nothing of Lua that allocates. So recording a story runs no finalizer, and does not change
   what happens. */
#ifndef RUNNEL_STORY_H
#define RUNNEL_STORY_H

#include "core/state.h"

/* Kinds of events besides those of a trace (TraceKind). */
enum {
  STORY_CHOICE = 32,     /* + a ChoiceKind: a choice; `chan` is the number that was chosen, of `seq` */
  STORY_OFFER_VAIN = 40, /* an offer on `chan` has failed: it had no room */
  STORY_POLL_VAIN,       /* a poll on `chan` has failed: it had no value */
  STORY_PARK_TOO,        /* after a TRACE_PARK of an alts: `chan` is one more channel of it */
  STORY_NOTE,            /* a note of a simulated world: its number is `seq` */
  STORY_TIMER /* the go block has used a timer of rn.after, which `chan` stands for. `what` is a StoryTimer */
};

/* What has happened to a timer. */
typedef enum StoryTimer {
  STORY_TIMER_STARTED,   /* it was made, and fires in `seq` ms */
  STORY_TIMER_RESTARTED, /* the same of one that there was already */
  STORY_TIMER_STOPPED,   /* it was pending */
  STORY_TIMER_OVER       /* it was to be stopped, but was not pending */
} StoryTimer;

/* The most channels that a story names of a waiting alts. */
enum { STORY_NAMED = 4 };

typedef struct StoryEvent {
  int64_t time;            /* virtual, in ns */
  uint32_t go;             /* as in a TraceRecord */
  uint32_t chan;           /* as there */
  uint32_t seq;            /* as there */
  uint16_t label;          /* as there */
  uint8_t kind;            /* a TraceKind, or one of the above */
  uint8_t what;            /* as there */
  int line;                /* where the running go block is in the program, or 0 */
  char source[LUA_IDSIZE]; /* the file */
} StoryEvent;

typedef struct Story {
  const Sched *sched; /* whose */
  const Go *running;  /* the go block that runs and has not parked or ended, or NULL */
  char *library;      /* how the names of the library's own sources begin */
  StoryEvent *events; /* in order */
  size_t n;           /* how many */
  size_t size;        /* the number that the memory has room for */
} Story;

/* Adds an event, unless there is no memory for it. */
void story_add(Story *story, int kind, uint32_t go, uint16_t label, uint32_t chan, uint64_t seq, int what);

/* Frees the memory of a story, which may be empty. */
void story_clear(Story *story);

#endif
