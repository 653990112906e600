/* The disks that a crash may leave at a place of a log. See crashes.h. */
#include "crashes.h"

#include <stdlib.h>
#include <string.h>

#define SECTOR 512

/* A part of a write: bytes of one sector. Or a new size. */
typedef struct Part {
  size_t op;       /* in the log */
  size_t write;    /* of which it is a part, among those that are not on the disk for sure */
  int64_t at;      /* in the file */
  int skipped;     /* bytes of the write before it */
  int size;        /* bytes; 0: it sets the size of the file */
  bool is_sure;    /* it is on the disk, but must stay behind one that may not be */
  bool is_unknown; /* a sync of it has failed */
  size_t range;    /* the first of the flat list that has the same bytes of the same file */
  uint64_t hash;   /* of where it is, and of its bytes */
  bool is_same;    /* the disk has these bytes for sure */
} Part;

typedef struct File {
  FileName name;
  Bytes durable;    /* what is on the disk for sure */
  uint64_t version; /* of that */
  uint64_t hash;    /* of that */
  Part *parts;      /* the rest, in order */
  size_t count, room;
} File;

struct Place {
  const Log *log;
  size_t next;             /* the operation */
  bool has_stopped;        /* before that operation, and it is to be done now */
  File *files;             /* by their numbers */
  int durable[FILE_NAMES]; /* the file that each name has on the disk for sure; -1: none */
  Part **flat;             /* the parts of all files that may be lost */
  uint64_t *last;          /* by range: what the disk has there (place_hash) */
  size_t count, room;
  size_t *names; /* the changes of names after that: their operations */
  size_t names_count, names_room;
};

Place *place_new(const Log *log) {
  Place *place = calloc(1, sizeof *place);
  if (!place) abort();
  place->log = log;
  place->files = calloc((size_t)log->files + 1, sizeof *place->files);
  if (!place->files) abort();
  for (int i = 0; i < FILE_NAMES; i++) place->durable[i] = -1;
  return place;
}

void place_free(Place *place) {
  for (int i = 0; i < place->log->files; i++) {
    free(place->files[i].durable.data);
    free(place->files[i].parts);
  }
  free(place->files);
  free(place->flat);
  free(place->last);
  free(place->names);
  free(place);
}

static void apply(Bytes *bytes, const Log *log, const Part *part) {
  if (part->size == 0) bytes_resize(bytes, (size_t)part->at);
  else bytes_write(bytes, (size_t)part->at, log->ops[part->op].data + part->skipped, (size_t)part->size);
}

/* ---- going on ---- */

static void add_part(File *file, const Log *log, Part part) {
  const unsigned char *data = part.size > 0 ? log->ops[part.op].data + part.skipped : NULL;
  uint64_t place = mixed(mixed((uint64_t)part.at + 1) + (uint64_t)part.size);
  part.hash = data ? bytes_hash(data, (size_t)part.size, place) : place;
  if (file->count == file->room) {
    file->room = file->room ? 2 * file->room : 64;
    file->parts = larger(file->parts, file->room * sizeof *file->parts);
  }
  file->parts[file->count++] = part;
}

static void add_write(File *file, const Log *log, const Op *op, size_t number) {
  for (int done = 0; done < op->size;) {
    int64_t at = op->at + done;
    int n = (int)(SECTOR - at % SECTOR);
    if (n > op->size - done) n = op->size - done;
    add_part(file, log, (Part){.op = number, .at = at, .skipped = done, .size = n});
    done += n;
  }
}

/* What was done to the file is on the disk, but for what a failed sync has left unknown. */
static void settle(File *file, const Log *log) {
  size_t left = 0;
  for (size_t i = 0; i < file->count; i++) {
    Part *part = &file->parts[i];
    if (left == 0 && !part->is_unknown) {
      apply(&file->durable, log, part);
      file->version++;
      file->hash = mixed(file->hash + part->hash);
      continue;
    }
    if (!part->is_unknown) part->is_sure = true;
    file->parts[left++] = *part;
  }
  file->count = left;
}

static void add_name(Place *place, size_t number) {
  if (place->names_count == place->names_room) {
    place->names_room = place->names_room ? 2 * place->names_room : 16;
    place->names = larger(place->names, place->names_room * sizeof *place->names);
  }
  place->names[place->names_count++] = number;
}

static void apply_names(const Place *place, size_t count, int names[FILE_NAMES]) {
  for (int i = 0; i < FILE_NAMES; i++) names[i] = place->durable[i];
  for (size_t i = 0; i < count; i++) {
    const Op *op = &place->log->ops[place->names[i]];
    names[op->name] = op->kind == OP_CREATE ? op->file : -1;
  }
}

static void perform(Place *place, const Op *op, size_t number) {
  File *file = &place->files[op->file];
  switch (op->kind) {
  case OP_CREATE:
    file->name = op->name;
    add_name(place, number);
    break;
  case OP_DELETE:
    add_name(place, number);
    break;
  case OP_WRITE:
    add_write(file, place->log, op, number);
    break;
  case OP_TRUNCATE:
    add_part(file, place->log, (Part){.op = number, .at = op->at});
    break;
  case OP_SYNC:
    settle(file, place->log);
    break;
  case OP_FAILED_SYNC:
    for (size_t i = 0; i < file->count; i++)
      if (!file->parts[i].is_sure) file->parts[i].is_unknown = true;
    break;
  case OP_DIRECTORY: {
    int names[FILE_NAMES];
    apply_names(place, place->names_count, names);
    memcpy(place->durable, names, sizeof names);
    place->names_count = 0;
    for (int i = 0; i < place->log->files; i++) /* what has no name is gone */
      if (names[place->files[i].name] != i) place->files[i].count = 0;
    break;
  }
  case OP_MARK:
    break;
  }
}

static bool is_end(OpKind kind) {
  return kind == OP_SYNC || kind == OP_FAILED_SYNC || kind == OP_DIRECTORY || kind == OP_MARK;
}

/* Lists the parts that may be lost, and finds those of the same bytes. */
static void list_parts(Place *place) {
  size_t writes = 0;
  place->count = 0;
  for (int i = 0; i < place->log->files; i++) {
    File *file = &place->files[i];
    size_t first = place->count;
    if (place->count + file->count > place->room) {
      place->room = 2 * (place->count + file->count);
      place->flat = larger(place->flat, place->room * sizeof(void *));
      place->last = larger(place->last, place->room * sizeof *place->last);
    }
    for (size_t k = 0; k < file->count; k++) {
      Part *part = &file->parts[k];
      if (part->is_sure) continue;
      if (k == 0 || file->parts[k - 1].is_sure || file->parts[k - 1].op != part->op) writes++;
      part->write = writes - 1;
      part->is_same = part->size > 0 && (size_t)part->at + (size_t)part->size <= file->durable.size &&
                      memcmp(file->durable.data + part->at, place->log->ops[part->op].data + part->skipped,
                             (size_t)part->size) == 0;
      size_t same = first;
      while (same < place->count && (place->flat[same]->at != part->at || place->flat[same]->size != part->size))
        same++;
      part->range = same;
      place->flat[place->count++] = part;
    }
  }
}

int64_t place_next(Place *place) {
  const Log *log = place->log;
  if (place->next > log->count) return -1;
  if (place->has_stopped) {
    if (place->next == log->count) return -1;
    perform(place, &log->ops[place->next], place->next);
    place->next++;
  }
  while (place->next < log->count && !is_end(log->ops[place->next].kind)) {
    perform(place, &log->ops[place->next], place->next);
    place->next++;
  }
  place->has_stopped = true;
  list_parts(place);
  return (int64_t)place->next;
}

/* ---- what may be lost ---- */

size_t place_parts(const Place *place) { return place->count; }

size_t place_writes(const Place *place) { return place->count > 0 ? place->flat[place->count - 1]->write + 1 : 0; }

size_t place_names(const Place *place) { return place->names_count; }

size_t place_write_of(const Place *place, size_t part) { return place->flat[part]->write; }

size_t place_op(const Place *place, size_t part) { return place->flat[part]->op; }

uint64_t place_hash(Place *place, const Crash *crash) {
  uint64_t sum = mixed(crash->names + 1);
  for (int i = 0; i < FILE_NAMES; i++) sum = mixed(sum + (uint64_t)place->durable[i]);
  for (int i = 0; i < place->log->files; i++) sum = mixed(sum + place->files[i].hash);
  if (place->count > 0) memset(place->last, 0, place->count * sizeof *place->last);
  for (size_t i = 0; i < place->count; i++) {
    const Part *part = place->flat[i];
    if (crash->fates[i] == PART_KEPT) place->last[part->range] = part->is_same ? 0 : part->hash;
    else if (crash->fates[i] == PART_GARBAGE) place->last[part->range] = mixed(crash->garbage + i) | 1;
  }
  for (size_t i = 0; i < place->count; i++)
    if (place->last[i]) sum += mixed(place->last[i] + i);
  return mixed(sum);
}

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 32;
}

void place_crash(const Place *place, const Crash *crash, Disk *disk) {
  int names[FILE_NAMES];
  apply_names(place, crash->names, names);
  const unsigned char *fate = crash->fates;
  uint64_t garbage = crash->garbage;
  for (int i = 0; i < FILE_NAMES; i++) disk->exists[i] = names[i] >= 0;
  for (int i = 0; i < place->log->files; i++) {
    const File *file = &place->files[i];
    bool is_there = names[file->name] == i;
    Bytes *bytes = &disk->files[file->name];
    if (is_there && file->name == FILE_DATABASE)
      track_begin(bytes, &file->durable, ((uint64_t)i + 1) << 40 | file->version);
    else if (is_there) bytes_copy(bytes, &file->durable);
    for (size_t k = 0; k < file->count; k++) {
      const Part *part = &file->parts[k];
      Fate its = part->is_sure ? PART_KEPT : (Fate)*fate++;
      if (!is_there || its == PART_LOST) continue;
      apply(bytes, place->log, part);
      if (its == PART_GARBAGE)
        for (int n = 0; n < part->size; n++) bytes->data[part->at + n] = (unsigned char)next_random(&garbage);
    }
  }
}
