/* SQLite's recovery of a disk in memory. See crashes.h. */
#include "crashes.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096

/* ---- bytes ---- */

/* These bytes are changed. */
static void touch(Bytes *bytes, size_t from, size_t to) {
  Track *track = bytes->track;
  if (!track || from >= to) return;
  size_t last = (to - 1) / PAGE;
  if (last >= track->dirty_room) {
    size_t room = 2 * last + 16;
    track->is_dirty = larger(track->is_dirty, room);
    track->dirty = larger(track->dirty, room * sizeof *track->dirty);
    memset(track->is_dirty + track->dirty_room, 0, room - track->dirty_room);
    track->dirty_room = room;
  }
  for (size_t page = from / PAGE; page <= last; page++) {
    if (track->is_dirty[page]) continue;
    track->is_dirty[page] = 1;
    track->dirty[track->count++] = page;
  }
}

void bytes_resize(Bytes *bytes, size_t size) {
  if (size > bytes->room) {
    bytes->room = size + size / 2 + PAGE;
    bytes->data = larger(bytes->data, bytes->room);
  }
  if (size > bytes->size) memset(bytes->data + bytes->size, 0, size - bytes->size);
  touch(bytes, size < bytes->size ? size : bytes->size, size < bytes->size ? bytes->size : size);
  bytes->size = size;
}

void bytes_write(Bytes *bytes, size_t at, const void *data, size_t size) {
  if (at + size > bytes->size) bytes_resize(bytes, at + size);
  touch(bytes, at, at + size);
  memcpy(bytes->data + at, data, size);
}

void bytes_copy(Bytes *to, const Bytes *from) {
  to->size = 0;
  if (from->size > to->room) bytes_resize(to, from->size);
  if (from->size > 0) memcpy(to->data, from->data, from->size);
  to->size = from->size;
}

uint64_t mixed(uint64_t h) {
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93u;
  return h ^ h >> 32;
}

/* Four sums side by side, since one would wait for each of its multiplications. */
uint64_t bytes_hash(const unsigned char *data, size_t size, uint64_t seed) {
  uint64_t h[4] = {seed + 1, seed + 2, seed + 3, seed + 4};
  size_t i = 0;
  for (; i + 32 <= size; i += 32) {
    uint64_t words[4];
    memcpy(words, data + i, 32);
    for (int k = 0; k < 4; k++) {
      h[k] = (h[k] ^ words[k]) * 0x9e3779b97f4a7c15u;
      h[k] ^= h[k] >> 29;
    }
  }
  for (; i < size; i++) h[i & 3] = (h[i & 3] ^ data[i]) * 0x9e3779b97f4a7c15u + 1;
  return mixed(mixed(mixed(mixed(h[0]) + h[1]) + h[2]) + h[3] + size);
}

static size_t pages_of(size_t size) { return (size + PAGE - 1) / PAGE; }

static uint64_t page_hash(const Bytes *bytes, size_t page) {
  size_t from = page * PAGE, size = bytes->size - from;
  return bytes_hash(bytes->data + from, size < PAGE ? size : PAGE, mixed(page));
}

void track_begin(Bytes *bytes, const Bytes *from, uint64_t version) {
  Track *track = bytes->track;
  if (!track) {
    track = bytes->track = calloc(1, sizeof *track);
    if (!track) abort();
  }
  if (track->version == version) {
    for (size_t i = 0; i < track->count; i++) {
      size_t page = track->dirty[i], at = page * PAGE;
      track->is_dirty[page] = 0;
      if (at >= from->size) continue;
      memcpy(bytes->data + at, from->data + at, from->size - at < PAGE ? from->size - at : PAGE);
    }
    bytes->size = from->size;
    track->count = 0;
    return;
  }
  for (size_t i = 0; i < track->count; i++) track->is_dirty[track->dirty[i]] = 0;
  bytes->track = NULL;
  bytes_copy(bytes, from);
  bytes->track = track;
  track->count = 0;
  track->version = version;
  track->size = bytes->size;
  track->pages = pages_of(bytes->size);
  if (track->pages > track->room) {
    track->room = 2 * track->pages;
    track->hashes = larger(track->hashes, track->room * sizeof *track->hashes);
  }
  track->sum = 0;
  for (size_t page = 0; page < track->pages; page++) track->sum += track->hashes[page] = page_hash(bytes, page);
}

uint64_t pages_hash(const Bytes *bytes) {
  const Track *track = bytes->track;
  size_t pages = pages_of(bytes->size);
  uint64_t sum = 0;
  if (!track) {
    for (size_t page = 0; page < pages; page++) sum += page_hash(bytes, page);
    return mixed(sum + bytes->size);
  }
  sum = track->sum;
  for (size_t i = 0; i < track->count; i++) {
    size_t page = track->dirty[i];
    if (page < track->pages) sum -= track->hashes[page];
    if (page < pages) sum += page_hash(bytes, page);
  }
  return mixed(sum + bytes->size);
}

void disk_free(Disk *disk) {
  for (int i = 0; i < FILE_NAMES; i++) {
    Track *track = disk->files[i].track;
    if (track) {
      free(track->hashes);
      free(track->is_dirty);
      free(track->dirty);
      free(track);
    }
    free(disk->files[i].data);
  }
  *disk = (Disk){0};
}

/* ---- a file system in memory ---- */

typedef struct ImageFile {
  sqlite3_file base;
  Bytes *bytes;
} ImageFile;

static ImageFile *image(sqlite3_file *file) { return (ImageFile *)(void *)file; }

static int on_close(sqlite3_file *file) {
  (void)file;
  return SQLITE_OK;
}

static int on_read(sqlite3_file *file, void *to, int size, sqlite3_int64 at) {
  Bytes *bytes = image(file)->bytes;
  size_t from = (size_t)at, wanted = (size_t)size;
  size_t there = from >= bytes->size ? 0 : bytes->size - from;
  if (there > wanted) there = wanted;
  if (there > 0) memcpy(to, bytes->data + from, there);
  if (there == wanted) return SQLITE_OK;
  memset((char *)to + there, 0, wanted - there);
  return SQLITE_IOERR_SHORT_READ;
}

static int on_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at) {
  bytes_write(image(file)->bytes, (size_t)at, data, (size_t)size);
  return SQLITE_OK;
}

static int on_truncate(sqlite3_file *file, sqlite3_int64 size) {
  bytes_resize(image(file)->bytes, (size_t)size);
  return SQLITE_OK;
}

static int on_sync(sqlite3_file *file, int flags) {
  (void)file;
  (void)flags;
  return SQLITE_OK;
}

static int on_size(sqlite3_file *file, sqlite3_int64 *size) {
  *size = (sqlite3_int64)image(file)->bytes->size;
  return SQLITE_OK;
}

static int on_lock(sqlite3_file *file, int level) {
  (void)file;
  (void)level;
  return SQLITE_OK;
}

static int on_check(sqlite3_file *file, int *is_reserved) {
  (void)file;
  *is_reserved = 0;
  return SQLITE_OK;
}

static int on_control(sqlite3_file *file, int what, void *argument) {
  (void)file;
  (void)what;
  (void)argument;
  return SQLITE_NOTFOUND;
}

/* As os_unix.c says it of most disks. */
static int on_sector(sqlite3_file *file) {
  (void)file;
  return 4096;
}

static int on_device(sqlite3_file *file) {
  (void)file;
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static const sqlite3_io_methods METHODS = {
    .iVersion = 1, /* without shared memory: the database is opened by one connection */
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_sync,
    .xFileSize = on_size,
    .xLock = on_lock,
    .xUnlock = on_lock,
    .xCheckReservedLock = on_check,
    .xFileControl = on_control,
    .xSectorSize = on_sector,
    .xDeviceCharacteristics = on_device,
};

/* The disk of the recovery that runs on this thread, and the file system. */
static _Thread_local Disk *present;
static sqlite3_vfs memory;

static int on_open(sqlite3_vfs *vfs, sqlite3_filename path, sqlite3_file *file, int flags, int *out) {
  (void)vfs;
  file->pMethods = NULL;
  if (!path) return SQLITE_CANTOPEN;
  FileName name = name_of_file(path);
  if (!present->exists[name]) {
    if (!(flags & SQLITE_OPEN_CREATE)) return SQLITE_CANTOPEN;
    present->exists[name] = true;
    bytes_resize(&present->files[name], 0);
  }
  image(file)->bytes = &present->files[name];
  file->pMethods = &METHODS;
  if (out) *out = flags;
  return SQLITE_OK;
}

static int on_delete(sqlite3_vfs *vfs, const char *path, int syncs) {
  (void)vfs;
  (void)syncs;
  present->exists[name_of_file(path)] = false;
  return SQLITE_OK;
}

static int on_access(sqlite3_vfs *vfs, const char *path, int flags, int *result) {
  (void)vfs;
  FileName name = name_of_file(path);
  *result = present->exists[name] && (flags != SQLITE_ACCESS_EXISTS || present->files[name].size > 0);
  return SQLITE_OK;
}

static int on_full_path(sqlite3_vfs *vfs, const char *path, int size, char *to) {
  (void)vfs;
  sqlite3_snprintf(size, to, "%s", path);
  return SQLITE_OK;
}

void image_prepare(void) {
  if (memory.zName) return;
  sqlite3_vfs *real = sqlite3_vfs_find("unix");
  if (!real) abort();
  memory = *real;
  memory.pNext = NULL;
  memory.zName = "image";
  memory.szOsFile = sizeof(ImageFile);
  memory.xOpen = on_open;
  memory.xDelete = on_delete;
  memory.xAccess = on_access;
  memory.xFullPathname = on_full_path;
  if (sqlite3_vfs_register(&memory, 0) != SQLITE_OK) abort();
}

int image_recover(Disk *disk) {
  present = disk;
  sqlite3 *db = NULL;
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  int code = sqlite3_open_v2("/db", &db, flags, "image");
  /* The second statement begins a transaction, which rolls a journal back, or reads the log. */
  if (code == SQLITE_OK) code = sqlite3_exec(db, "pragma locking_mode=exclusive; pragma schema_version", 0, 0, 0);
  int closed = sqlite3_close(db); /* moves the log into the database */
  if (code == SQLITE_OK) code = closed;
  if (code == SQLITE_OK && disk->exists[FILE_WAL] && disk->files[FILE_WAL].size > 0) return SQLITE_INTERNAL;
  Bytes *bytes = &disk->files[FILE_DATABASE];
  if (!disk->exists[FILE_DATABASE]) bytes_resize(bytes, 0);
  if (code == SQLITE_OK && bytes->size >= 32) { /* what follows the last page belongs to nobody */
    const unsigned char *at = bytes->data + 28;
    size_t pages = (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
    if (pages * PAGE < bytes->size) bytes_resize(bytes, pages * PAGE);
  }
  return code;
}
