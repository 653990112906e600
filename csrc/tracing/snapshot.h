/* snapshot.h: a copy of a scheduler's state, for a thread that must not touch Lua: its go blocks, its channels, and
   which go blocks put on and take from which channels. Plain records in malloc'ed memory, filled in the scheduler's
   thread.

   With many go blocks that takes a while. So it is filled a part at a time, and the program runs in between. Changes
   that it makes meanwhile may be missing from the snapshot. */
#ifndef RUNNEL_CORE_SNAPSHOT_H
#define RUNNEL_CORE_SNAPSHOT_H

#include "base/map.h"
#include "core/state.h"

/* What a go block waits for. */
typedef enum SnapshotOp { SNAPSHOT_NOTHING, SNAPSHOT_TAKE, SNAPSHOT_PUT, SNAPSHOT_ALTS } SnapshotOp;

/* A go block; the main program, while it waits outside any go block, has the id 0. */
typedef struct SnapshotGo {
  uint64_t id;     /* its id */
  uint64_t chan;   /* id of the (first) channel that it waits on, or 0 */
  int64_t since;   /* when it began to wait, in ns of the scheduler's clock; 0: it does not */
  uint32_t name;   /* a text: its name */
  uint32_t where;  /* a text: the line where it waits, or "" */
  uint32_t nchans; /* channels that it waits on */
  uint8_t state;   /* an AltState */
  uint8_t op;      /* a SnapshotOp */
} SnapshotGo;

typedef enum SnapshotFlag {
  SNAPSHOT_CLOSED = 1,  /* accepts no more puts */
  SNAPSHOT_RESULT = 2,  /* the result channel of a go block */
  SNAPSHOT_TIMEOUT = 4, /* a timeout */
  SNAPSHOT_XFORM = 8,   /* has a transducer */
  SNAPSHOT_DONE = 32,   /* closes when another channel does */
  SNAPSHOT_UNNAMED = 16 /* `name` is where it was made: the program has given it none */
} SnapshotFlag;

/* SnapshotChan.last: it is not known, or does not matter. */
#define SNAPSHOT_NOBODY UINT64_MAX

typedef struct SnapshotChan {
  uint64_t id;   /* its id */
  uint64_t last; /* if takes wait since the last value was taken, or puts since the buffer was filled: the id of who has
                      done that (Chan.last); else SNAPSHOT_NOBODY */
  uint64_t puts; /* values accepted so far */
  uint64_t takes;  /* values given so far */
  uint32_t name;   /* a text: the name that the program has given it, or where it was made, or "" */
  uint32_t count;  /* values in the buffer */
  uint32_t limit;  /* values that the buffer holds; 0: no buffer, or a policy that does not say */
  uint32_t nputs;  /* puts that wait */
  uint32_t ntakes; /* takes that wait */
  uint8_t kind;    /* a BufferKind */
  uint8_t flags;   /* of SnapshotFlag */
} SnapshotChan;

/* Go blocks of one name have put on a channel, or taken from it. */
typedef struct SnapshotEdge {
  uint64_t chan;  /* id of the channel */
  uint64_t total; /* how many values; 0 if they only wait, or are not counted (trace.h) */
  uint32_t name;  /* a text: the name of the go blocks */
  bool is_put;    /* they put, else they take */
} SnapshotEdge;

/* An array that grows. */
typedef struct SnapshotArray {
  void *items; /* the elements */
  uint32_t n;  /* how many there are */
  size_t room; /* the number that the memory has room for */
} SnapshotArray;

/* Begins as zeros. */
typedef struct Snapshot {
  SnapshotArray gos;   /* of SnapshotGo */
  SnapshotArray chans; /* of SnapshotChan */
  SnapshotArray edges; /* of SnapshotEdge, each one once */
  SnapshotArray texts; /* of char: the texts, each one once and with a zero at its end; a text is named by its offset */
  Map index;           /* of the texts: from map_hash to the offset */
  Map seen;            /* what is in `chans` and `edges` */
  SnapshotArray labels; /* of uint32_t: the texts of labels (trace.h; offset + 1, or 0) */
  uint8_t phase;        /* how far it is filled: 0: it is complete; 1: channels; 2: edges; 3: go blocks */
  uint32_t next;        /* the next one of these */
  uint32_t ngos;        /* go blocks in the list SCHED_SNAPSHOT */
  bool has_main;        /* the first of `gos` is the main program */
  bool is_virtual;      /* the scheduler's time is virtual */
  int64_t now;          /* the scheduler's time when it was begun */
  int64_t began;        /* the time then by clock_ns, which is another in virtual time */
  uint64_t lost;        /* puts and takes of edges that are missing, since the trace had no room for them */
  int64_t taken;        /* time that filling it has taken, in ns */
  uint64_t memory;      /* bytes that Lua uses */
  uint32_t ready;       /* go blocks in the run queue */
  int64_t turn;         /* the longest turn of the loop since the last one was begun, in ns (watch.h) */
  int64_t leaks;        /* go blocks that were collected while they waited, so far; -1: not counted (leaks.h) */
} Snapshot;

/* The text at an offset. */
static inline const char *snapshot_text(const Snapshot *snapshot, uint32_t text) {
  return (const char *)snapshot->texts.items + text;
}

/* Fills the next part: begins anew if it is complete. Returns whether it is complete now. May raise, and then it must
   be begun anew. */
bool snapshot_fill(lua_State *L, Sched *S, Snapshot *snapshot);

/* ---- what a page asks about ---- */

/* Pushes the userdata of the go block with this id and returns true, or pushes nothing. */
bool snapshot_push_go(lua_State *L, Sched *S, uint64_t id);

/* Pushes the channel with this id that a snapshot lists and returns true, or pushes nothing. */
bool snapshot_push_chan(lua_State *L, Sched *S, uint64_t id);

/* Pushes a list of at most `max` values: the buffer's of the channel at index `at`, the oldest first, and then those
   that waiting puts hold. None for a shared channel or a policy. */
void snapshot_push_values(lua_State *L, Chan *ch, int at, lua_Integer max);

#endif
