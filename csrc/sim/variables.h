/* variables.h: the variables and tables that go blocks share in a run of a search, beside channels. When a go block
   starts, those are listed that its function and its arguments can reach: upvalues, the tables and functions in them,
   the transducers and policies of channels, and so on. It can reach them from then on, and so can the go block that has
   started it, unless nothing on its stack leads there any more at the end of that step. After each step they are
   compared with what they were before: a step that has written one touches the turns of all others that can reach it,
   whether they read it or not.

   What is reached only through globals, modules, values on channels, coroutines or C is not seen. The library's own
   state is left out. */
#ifndef RUNNEL_VARIABLES_H
#define RUNNEL_VARIABLES_H

#include "sim/footprint.h"

/* A variable or a table that go blocks can reach. */
typedef struct Watched {
  const void *id;   /* lua_upvalueid, or lua_topointer */
  int upvalue;      /* the number of the upvalue, of the function that is kept; 0: a table */
  uint32_t count;   /* entries of the table when it was compared last */
  uint64_t *owners; /* turns of the go blocks that can reach it */
  size_t n, size;
  uint64_t starter; /* one of them that may not reach it any more: it has started another one in this step; or 0 */
  bool is_compared; /* two can reach it: what it was is kept */
} Watched;

typedef struct Variables {
  Watched *items;
  size_t n, size;
  Map seen;           /* in this run: from an id to the number of an item, from 1; marked with the last walk */
  Map known;          /* the ids that are left out */
  lua_Integer nknown; /* how many values are kept alive for that */
  uint32_t walk;      /* the number of the last walk */
  bool has_starter;   /* an item has one */
  bool is_unsure;     /* the last walk has met a coroutine, into which it does not look */
  bool failed;        /* memory has run out in this run */
} Variables;

/* Finds what is left out. May raise. */
void variables_open(lua_State *L, Variables *v);

/* Begins a run, and may raise; ends it: keeps no values alive. */
void variables_begin(lua_State *L, Variables *v);
void variables_end(lua_State *L, Variables *v);

/* The running go block, or none, has started one. Does not raise. */
void variables_spawn(lua_State *L, Variables *v, Sched *S, Go *go);

/* The go block of the last step has parked or ended: that step touches who can reach what it has written. Does not
   raise. */
void variables_check(lua_State *L, Variables *v, Footprint *f);

/* Frees all memory. */
void variables_close(lua_State *L, Variables *v);

#endif
