/* bundle.h: what `runnel build` has put behind the executable: a program with its modules and files.

   A program that was built is a copy of this executable with a bundle behind it. The bundle's place, size and checksum
   are in a record inside the executable, which the build fills in (lua/runnel/host/build_bundle.lua). So a program that
   was truncated or stripped reports that its bundle is missing.

   A bundle is a count, that many entries (eight numbers each, see bundle.c), and the bytes they point to. Only the
   executable that it was built with reads it, so there is no version of the format, and numbers are as in memory. */
#ifndef RUNNEL_HOST_BUNDLE_H
#define RUNNEL_HOST_BUNDLE_H

#include <lua.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "librunnel/modules.h"

/* What a part is. lua/runnel/host/build_bundle.lua has the same numbers. */
typedef enum PartKind {
  PART_SCRIPT = 1, /* the program's script */
  PART_MODULE,     /* a Lua module */
  PART_C_MODULE,   /* the shared object of a C module */
  PART_LIBRARY,    /* a shared library that C modules need */
  PART_FILE,       /* a file, for rn.file */
  PART_OPTION,     /* an option that the program takes before its arguments, without the dashes */
  PART_VERSION     /* what --version prints, as its name */
} PartKind;

typedef struct Bundle Bundle;

typedef struct Part {
  PartKind kind;
  Module module;         /* its name, detail and bytes. The detail of Lua code is its chunk name; of a C module the name
                            of the function that opens it */
  const uint64_t *needs; /* of a C module: what to load before it, as indices of parts: libraries, or, if the module has
                            no bytes, the module in whose file it is */
  size_t needed;         /* how many these are */
  void *handle;          /* of a shared object: what dlopen has returned, or NULL; guarded by the bundle's lock */
  Bundle *bundle;        /* the bundle it is in */
} Part;

/* It lives as long as the process, since its threads may outlive the main program. */
struct Bundle {
  Part *parts;
  size_t count;
  pthread_mutex_t lock; /* held while shared objects are loaded */
};

/* The place of the bundle in the file. */
typedef struct BundleRecord {
  char mark[16];   /* by which the build finds the record */
  uint64_t offset; /* where the bundle begins, in bytes; 0 without a bundle */
  uint64_t size;   /* in bytes */
  uint64_t sum;    /* bundle_sum */
} BundleRecord;

/* The record of this executable. */
BundleRecord bundle_record(void);

/* A checksum. It always differs if all changes are within eight bytes whose place is a multiple of 8. */
uint64_t bundle_sum(const unsigned char *bytes, size_t size);

/* Finds and checks the bundle of this executable. Returns NULL and sets *bundle, to NULL if there is none; or returns
   why it cannot be used. */
const char *bundle_open(Bundle **bundle);

/* The next part of a kind, from number *i on, or NULL. Sets *i to the number after it. */
Part *bundle_next(const Bundle *b, PartKind kind, size_t *i);

/* The part of a kind and a name, or NULL. */
Part *bundle_find(const Bundle *b, PartKind kind, const char *name);

/* Whether the word is an option that the program takes, with or without `=value`. */
bool bundle_takes(const Bundle *b, const char *word);

#endif
