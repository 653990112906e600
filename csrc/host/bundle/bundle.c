/* bundle.c: see bundle.h. */
#include "host/bundle/bundle.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif

/* The build changes it in the file, so the compiler must not know its value. */
static const volatile BundleRecord record = {"\x1Brunnel's bundl", 0, 0, 0};

/* An entry in the file. Places are counted from the beginning of the bundle. */
typedef struct Entry {
  uint64_t kind;   /* PartKind */
  uint64_t name;   /* where its name is, which ends with a zero byte */
  uint64_t detail; /* likewise; see Part.module */
  uint64_t data;   /* where its bytes are */
  uint64_t size;   /* how many these are */
  uint64_t needs;  /* where the indices of the libraries are that it needs */
  uint64_t needed; /* how many these are */
} Entry;

BundleRecord bundle_record(void) {
  BundleRecord r = {.offset = record.offset, .size = record.size, .sum = record.sum};
  for (size_t i = 0; i < sizeof r.mark; i++) r.mark[i] = record.mark[i];
  return r;
}

uint64_t bundle_sum(const unsigned char *bytes, size_t size) {
  uint64_t sum = size, word;
  for (size_t i = 0; i < size; i += sizeof word) {
    word = 0;
    memcpy(&word, bytes + i, size - i < sizeof word ? size - i : sizeof word);
    sum = (sum ^ word) * UINT64_C(0x9E3779B97F4A7C15); /* a change of either changes the result */
    sum = sum << 29 | sum >> 35;
  }
  return sum;
}

/* A descriptor of the executable's file, or -1. */
static int open_executable(void) {
#ifdef __linux__
  int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) return fd;
  const char *path = (const char *)getauxval(AT_EXECFN); /* where /proc is not mounted */
  return path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
#else
  return -1;
#endif
}

/* The bytes of the bundle, or NULL and why not. */
static const unsigned char *map(const BundleRecord *r, const char **why) {
  int fd = open_executable();
  struct stat file;
  *why = "this program cannot read its own file";
  if (fd < 0) return NULL;
  if (fstat(fd, &file) != 0 || (uint64_t)file.st_size < r->offset + r->size) {
    (void)close(fd);
    *why = "this program is damaged: its end is missing. Copy it again, and do not strip it";
    return NULL;
  }
  uint64_t before = r->offset % (uint64_t)sysconf(_SC_PAGESIZE);
  void *bytes = mmap(NULL, (size_t)(r->size + before), PROT_READ, MAP_PRIVATE, fd, (off_t)(r->offset - before));
  (void)close(fd);
  /* cppcheck-suppress memleak ; it is what is returned */
  return bytes != MAP_FAILED ? (const unsigned char *)bytes + before : NULL;
}

static void read_part(Part *part, const unsigned char *bytes, size_t i) {
  Entry e;
  memcpy(&e, bytes + sizeof(uint64_t) + i * sizeof e, sizeof e);
  part->kind = (PartKind)e.kind;
  part->module = (Module){(const char *)bytes + e.name, (const char *)bytes + e.detail, bytes + e.data, (size_t)e.size};
  part->needs = (const uint64_t *)(const void *)(bytes + e.needs); /* the build aligns them */
  part->needed = (size_t)e.needed;
}

const char *bundle_open(Bundle **bundle) {
  *bundle = NULL;
  BundleRecord r = bundle_record();
  if (r.offset == 0) return NULL;
  const char *why;
  const unsigned char *bytes = map(&r, &why);
  if (!bytes) return why;
  if (bundle_sum(bytes, (size_t)r.size) != r.sum)
    return "this program is damaged: what was built into it has another checksum. Copy it again";
  uint64_t count;
  memcpy(&count, bytes, sizeof count);
  Bundle *b = (Bundle *)calloc(1, sizeof *b);
  if (b) b->parts = (Part *)calloc((size_t)count, sizeof *b->parts);
  if (!b || !b->parts) {
    free(b); /* uncovered: only when memory runs out */
    return "not enough memory";
  }
  b->count = (size_t)count;
  (void)pthread_mutex_init(&b->lock, NULL);
  for (size_t i = 0; i < b->count; i++) {
    read_part(&b->parts[i], bytes, i);
    b->parts[i].bundle = b;
  }
  *bundle = b;
  return NULL;
}

Part *bundle_next(const Bundle *b, PartKind kind, size_t *i) {
  while (*i < b->count) {
    Part *part = &b->parts[(*i)++];
    if (part->kind == kind) return part;
  }
  return NULL;
}

Part *bundle_find(const Bundle *b, PartKind kind, const char *name) {
  Part *part;
  for (size_t i = 0; (part = bundle_next(b, kind, &i));) {
    if (strcmp(part->module.name, name) == 0) return part;
  }
  return NULL;
}

bool bundle_takes(const Bundle *b, const char *word) {
  if (strncmp(word, "--", 2) != 0) return false;
  size_t length = strcspn(word + 2, "=");
  Part *part;
  for (size_t i = 0; (part = bundle_next(b, PART_OPTION, &i));) {
    if (strlen(part->module.name) == length && strncmp(part->module.name, word + 2, length) == 0) return true;
  }
  return false;
}
