/* What make check-crashes does with SQLite: a file system that records what is written (recorder.c), the disks that a
 * crash may leave of it (place.c), and SQLite's recovery of such a disk (image.c). crashes.c is for Lua. */
#ifndef RUNNEL_CRASHES_H
#define RUNNEL_CRASHES_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* As realloc; without memory the check ends. */
static inline void *larger(void *old, size_t size) {
  void *memory = realloc(old, size);
  if (!memory) abort();
  return memory;
}

/* The files of a database, by their names. */
typedef enum { FILE_DATABASE, FILE_WAL, FILE_JOURNAL, FILE_NAMES } FileName;

/* Something that was done to the files, or is to be remembered among that. */
typedef enum {
  OP_CREATE,      /* a name has a new file */
  OP_DELETE,      /* a name has no file any more */
  OP_WRITE,       /* bytes of a file */
  OP_TRUNCATE,    /* a file has another size */
  OP_SYNC,        /* what was done to a file is on the disk */
  OP_FAILED_SYNC, /* that is unknown, and stays so */
  OP_DIRECTORY,   /* the names are on the disk */
  OP_MARK         /* the program was told that something is done */
} OpKind;

typedef struct Op {
  OpKind kind;
  FileName name;       /* of the file */
  int file;            /* its number: a name may have one after the other */
  int64_t at;          /* where bytes are written; the new size; the number of a mark */
  int size;            /* of the bytes */
  unsigned char *data; /* the bytes */
} Op;

typedef struct Log {
  Op *ops;
  size_t count, room;
  int files; /* how many there were */
} Log;

/* Adds an operation. The log owns the bytes, which are copied. */
void log_add(Log *log, Op op);
void log_free(Log *log);

/* ---- table.c ---- */

/* A number for each of some hashes. */
typedef struct Entry Entry;
typedef struct Table {
  Entry *entries;
  size_t count, room; /* a power of two */
} Table;

/* Returns whether the hash is new. */
bool table_put(Table *table, uint64_t hash, int64_t value);
/* The number of a hash; -1 if there is none. */
int64_t table_get(const Table *table, uint64_t hash);

/* ---- recorder.c ---- */

/* The file with this path. */
FileName name_of_file(const char *path);

/* A file system for SQLite that is the default one from `recorder_start` to `recorder_stop`. It writes through to the
 * real one. */
typedef struct Recorder Recorder;

Recorder *recorder_start(void);
/* All files must be closed. Frees the recorder. The caller gets the log, and frees it. */
Log recorder_stop(Recorder *recorder);
/* Remembers that something was done by now. */
void recorder_mark(Recorder *recorder, int64_t number);
/* The disk is full for `count` writes that make a file longer, after `first` others. */
void recorder_fill(Recorder *recorder, int64_t first, int64_t count);
/* One sync fails, after `first` others. */
void recorder_fail_sync(Recorder *recorder, int64_t first);
/* How many writes made a file longer so far, and how many syncs there were. */
void recorder_counts(Recorder *recorder, int64_t *writes, int64_t *syncs);

/* ---- image.c ---- */

/* Which pages of a database differ from those that it has had before a crash: only these are compared and put back. */
typedef struct Track {
  uint64_t version; /* of the bytes before; 0: none */
  uint64_t *hashes; /* of their pages */
  size_t pages, room;
  uint64_t sum; /* of the hashes */
  size_t size;
  unsigned char *is_dirty; /* by page */
  size_t *dirty;           /* the pages */
  size_t count, dirty_room;
} Track;

typedef struct Bytes {
  unsigned char *data;
  size_t size, room;
  Track *track; /* NULL: what changes does not matter */
} Bytes;

/* Makes room for so many bytes. The new ones are 0. */
void bytes_resize(Bytes *bytes, size_t size);
void bytes_write(Bytes *bytes, size_t at, const void *data, size_t size);
void bytes_copy(Bytes *to, const Bytes *from);
uint64_t bytes_hash(const unsigned char *data, size_t size, uint64_t seed);
uint64_t mixed(uint64_t hash);

/* Makes them what they were before, which is `from`. */
void track_begin(Bytes *bytes, const Bytes *from, uint64_t version);
/* The hash of a database, with or without a track. */
uint64_t pages_hash(const Bytes *bytes);

/* What a disk has of a database. */
typedef struct Disk {
  Bytes files[FILE_NAMES];
  bool exists[FILE_NAMES];
} Disk;

void disk_free(Disk *disk);

/* Must be called before the next one. */
void image_prepare(void);
/* Opens the database as after a crash, and closes it, so that the disk has only the database, or nothing (size 0).
 * Returns SQLite's code. */
int image_recover(Disk *disk);

/* ---- place.c ---- */

/* A place in a log, where a crash may happen. */
typedef struct Place Place;

Place *place_new(const Log *log);
void place_free(Place *place);
/* Goes on, up to the next operation before which all crashes are tried: one that puts something on the disk, or a mark;
 * later crashes include those between others. Returns its number in the log; log->count at the end, and then -1. */
int64_t place_next(Place *place);
/* How many parts of writes, of at most a sector each, how many writes, and how many changes of names may be on the disk or
 * not. */
size_t place_parts(const Place *place);
size_t place_writes(const Place *place);
size_t place_names(const Place *place);
/* The write of a part, and its operation. */
size_t place_write_of(const Place *place, size_t part);
size_t place_op(const Place *place, size_t part);

typedef enum { PART_LOST, PART_KEPT, PART_GARBAGE } Fate;

/* A crash: what became of each part, and how many of the changes of names are on the disk. */
typedef struct Crash {
  unsigned char *fates;
  size_t names;
  uint64_t garbage; /* the seed of random bytes */
} Crash;

/* A hash of what the disk has after it. */
uint64_t place_hash(Place *place, const Crash *crash);
/* The disk after it. */
void place_crash(const Place *place, const Crash *crash, Disk *disk);

#endif
