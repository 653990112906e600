/* profile_tree.h: adds a sample to a tree of calls (profile.h). */
#ifndef RUNNEL_PROFILE_TREE_H
#define RUNNEL_PROFILE_TREE_H

#include "core/state.h"

/* Keys of numbers in a tree; all other keys are names. */
enum { PROFILE_RAN = 1, PROFILE_WAITED };

/* User values of a profile. */
enum {
  PROFILE_HELP = 1, /* the C function that adds a sample, called protected */
  PROFILE_RUNNING,  /* the tree of what has run */
  PROFILE_WAITING,  /* the tree of what was waited for */
  PROFILE_NAMES,    /* table: "file:line" of a Lua function, or a C function as a light userdata -> its name */
  PROFILE_NAMERS,   /* see profile_start */
  PROFILE_LABELS, /* table: id of a go block that has a sample -> its name, the first one in the paths of its samples */
  PROFILE_NUSER = PROFILE_LABELS
};

/* What a go block, or the main program, has waited for. */
typedef enum ProfileWhat { PROFILE_TAKE, PROFILE_PUT, PROFILE_SLEEP, PROFILE_ALTS } ProfileWhat;

/* Who has woken it. */
typedef enum ProfileWaker {
  PROFILE_NOBODY, /* it still waits; or this is not known yet */
  PROFILE_GO,     /* a go block: `by` is its id; `source` and `line` tell where its function begins, or `origin` */
  PROFILE_HOLDER, /* it still waits, for what the go block `by` has used up (inspect_used_up) */
  PROFILE_MAIN,   /* the main program */
  PROFILE_DRIVER, /* the driver: input and output, and timers */
  PROFILE_OTHER   /* another thread */
} ProfileWaker;

/* A wait that is recorded. */
typedef struct ProfileWait {
  const Alt *alt;          /* whose */
  uint64_t id;             /* of its go block; 0: the main program's */
  int64_t ns;              /* as how long it counts */
  const Chan *chan;        /* the channel; NULL: a sleep. It is on the stack of the coroutine while that waits */
  ProfileWhat what;        /* see there */
  ProfileWaker waker;      /* see there */
  uint64_t by;             /* see ProfileWaker */
  uint32_t origin;         /* of a waker that the library has started, or 0 */
  int line;                /* see ProfileWaker */
  char source[LUA_IDSIZE]; /* see ProfileWaker */
} ProfileWait;

/* A sample. */
typedef struct ProfileSample {
  Go *go;                  /* the go block, or NULL: the main program */
  lua_State *co;           /* whose stack it is */
  int first;               /* the innermost level that counts */
  int64_t ns;              /* as how long it counts */
  const ProfileWait *wait; /* what it has waited for; NULL: it runs */
  bool is_blocked;         /* the thread was blocked meanwhile */
} ProfileSample;

/* The C function of PROFILE_HELP: (light userdata: a ProfileSample; the go block's userdata, or nil if it runs). Its
   upvalues are the scheduler and the profile. It may run finalizers. */
int profile_tree_add(lua_State *L);

#endif
