/* The file system that records. See crashes.h. */
#include "crashes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct Recorder {
  sqlite3_vfs vfs;   /* ours */
  sqlite3_vfs *real; /* what it writes to */
  pthread_mutex_t lock;
  Log log;
  int current[FILE_NAMES]; /* the file of each name; -1: none */
  int64_t writes, full_from, full_to;
  int64_t syncs, failing;
};

typedef struct RecordedFile {
  sqlite3_file base;
  Recorder *recorder;
  FileName name; /* FILE_NAMES: it is not recorded */
  int number;
  bool is_new;        /* its name is not on the disk before its first sync, with all other names */
  sqlite3_file *real; /* follows this structure */
} RecordedFile;

static RecordedFile *recorded(sqlite3_file *file) { return (RecordedFile *)(void *)file; }

void log_add(Log *log, Op op) {
  if (log->count == log->room) {
    log->room = log->room ? 2 * log->room : 1024;
    log->ops = larger(log->ops, log->room * sizeof *log->ops);
  }
  if (op.kind == OP_WRITE) {
    const unsigned char *data = op.data;
    op.data = malloc((size_t)op.size);
    if (!op.data) abort();
    memcpy(op.data, data, (size_t)op.size);
  }
  log->ops[log->count++] = op;
}

void log_free(Log *log) {
  for (size_t i = 0; i < log->count; i++)
    if (log->ops[i].kind == OP_WRITE) free(log->ops[i].data);
  free(log->ops);
  *log = (Log){0};
}

static void add(Recorder *recorder, Op op) {
  pthread_mutex_lock(&recorder->lock);
  log_add(&recorder->log, op);
  pthread_mutex_unlock(&recorder->lock);
}

/* ---- files ---- */

static int on_close(sqlite3_file *file) {
  RecordedFile *of = recorded(file);
  return of->real->pMethods ? of->real->pMethods->xClose(of->real) : SQLITE_OK;
}

static int on_read(sqlite3_file *file, void *to, int size, sqlite3_int64 at) {
  RecordedFile *of = recorded(file);
  return of->real->pMethods->xRead(of->real, to, size, at);
}

/* Whether the disk is too full for this write. */
static bool is_full(RecordedFile *of, int size, sqlite3_int64 at) {
  Recorder *recorder = of->recorder;
  sqlite3_int64 now = 0;
  if (of->real->pMethods->xFileSize(of->real, &now) != SQLITE_OK || at + size <= now) return false;
  pthread_mutex_lock(&recorder->lock);
  int64_t n = recorder->writes++;
  pthread_mutex_unlock(&recorder->lock);
  return n >= recorder->full_from && n < recorder->full_to;
}

static int on_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at) {
  RecordedFile *of = recorded(file);
  if (of->name == FILE_NAMES) return of->real->pMethods->xWrite(of->real, data, size, at);
  bool full = is_full(of, size, at);
  int done = full ? size / 2 : size;
  if (done > 0) {
    int code = of->real->pMethods->xWrite(of->real, data, done, at);
    if (code != SQLITE_OK) return code;
    add(of->recorder, (Op){.kind = OP_WRITE,
                           .name = of->name,
                           .file = of->number,
                           .at = at,
                           .size = done,
                           .data = (unsigned char *)(uintptr_t)data});
  }
  return full ? SQLITE_FULL : SQLITE_OK;
}

static int on_truncate(sqlite3_file *file, sqlite3_int64 size) {
  RecordedFile *of = recorded(file);
  int code = of->real->pMethods->xTruncate(of->real, size);
  if (code == SQLITE_OK && of->name != FILE_NAMES)
    add(of->recorder, (Op){.kind = OP_TRUNCATE, .name = of->name, .file = of->number, .at = size});
  return code;
}

static int on_sync(sqlite3_file *file, int flags) {
  RecordedFile *of = recorded(file);
  Recorder *recorder = of->recorder;
  (void)flags; /* what is recorded is on the disk when the log says so: no need to wait for the real one */
  if (of->name == FILE_NAMES) return SQLITE_OK;
  pthread_mutex_lock(&recorder->lock);
  bool fails = recorder->syncs++ == recorder->failing;
  pthread_mutex_unlock(&recorder->lock);
  add(recorder, (Op){.kind = fails ? OP_FAILED_SYNC : OP_SYNC, .name = of->name, .file = of->number});
  if (fails) return SQLITE_IOERR_FSYNC;
  /* As os_unix.c: the first sync of a new log or journal is one of its directory, too. */
  if (of->is_new && of->name != FILE_DATABASE) add(recorder, (Op){.kind = OP_DIRECTORY, .name = of->name});
  of->is_new = false;
  return SQLITE_OK;
}

static int on_size(sqlite3_file *file, sqlite3_int64 *size) {
  RecordedFile *of = recorded(file);
  return of->real->pMethods->xFileSize(of->real, size);
}

static int on_lock(sqlite3_file *file, int level) {
  RecordedFile *of = recorded(file);
  return of->real->pMethods->xLock(of->real, level);
}

static int on_unlock(sqlite3_file *file, int level) {
  RecordedFile *of = recorded(file);
  return of->real->pMethods->xUnlock(of->real, level);
}

static int on_check(sqlite3_file *file, int *is_reserved) {
  RecordedFile *of = recorded(file);
  return of->real->pMethods->xCheckReservedLock(of->real, is_reserved);
}

static int on_control(sqlite3_file *file, int what, void *argument) {
  RecordedFile *of = recorded(file);
  /* It would make the file longer beside what is recorded. */
  if (what == SQLITE_FCNTL_SIZE_HINT || what == SQLITE_FCNTL_CHUNK_SIZE) return SQLITE_OK;
  return of->real->pMethods->xFileControl(of->real, what, argument);
}

static int on_sector(sqlite3_file *file) {
  RecordedFile *of = recorded(file);
  return of->real->pMethods->xSectorSize(of->real);
}

static int on_device(sqlite3_file *file) {
  RecordedFile *of = recorded(file);
  return of->real->pMethods->xDeviceCharacteristics(of->real);
}

static int on_map(sqlite3_file *file, int page, int size, int extends, void volatile **at) {
  RecordedFile *of = recorded(file);
  return of->real->pMethods->xShmMap(of->real, page, size, extends, at);
}

static int on_shm_lock(sqlite3_file *file, int offset, int n, int flags) {
  RecordedFile *of = recorded(file);
  return of->real->pMethods->xShmLock(of->real, offset, n, flags);
}

static void on_barrier(sqlite3_file *file) {
  RecordedFile *of = recorded(file);
  of->real->pMethods->xShmBarrier(of->real);
}

static int on_unmap(sqlite3_file *file, int deletes) {
  RecordedFile *of = recorded(file);
  return of->real->pMethods->xShmUnmap(of->real, deletes);
}

static const sqlite3_io_methods METHODS = {
    .iVersion = 2, /* without mapped files, which could be changed without a write */
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_sync,
    .xFileSize = on_size,
    .xLock = on_lock,
    .xUnlock = on_unlock,
    .xCheckReservedLock = on_check,
    .xFileControl = on_control,
    .xSectorSize = on_sector,
    .xDeviceCharacteristics = on_device,
    .xShmMap = on_map,
    .xShmLock = on_shm_lock,
    .xShmBarrier = on_barrier,
    .xShmUnmap = on_unmap,
};

/* ---- the file system ---- */

static Recorder *recorder_of(sqlite3_vfs *vfs) { return vfs->pAppData; }

FileName name_of_file(const char *path) {
  size_t length = strlen(path);
  if (length > 4 && strcmp(path + length - 4, "-wal") == 0) return FILE_WAL;
  if (length > 8 && strcmp(path + length - 8, "-journal") == 0) return FILE_JOURNAL;
  return FILE_DATABASE;
}

static int on_open(sqlite3_vfs *vfs, sqlite3_filename path, sqlite3_file *file, int flags, int *out) {
  Recorder *recorder = recorder_of(vfs);
  RecordedFile *of = recorded(file);
  *of = (RecordedFile){.recorder = recorder, .name = FILE_NAMES};
  of->real = (sqlite3_file *)(void *)(of + 1);
  of->real->pMethods = NULL;
  int had = 1, result = 0;
  bool is_ours = path && flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL);
  if (is_ours) recorder->real->xAccess(recorder->real, path, SQLITE_ACCESS_READWRITE, &had);
  int code = recorder->real->xOpen(recorder->real, path, of->real, flags, out ? out : &result);
  of->base.pMethods = of->real->pMethods ? &METHODS : NULL;
  if (code != SQLITE_OK || !is_ours) return code;
  of->name = name_of_file(path);
  pthread_mutex_lock(&recorder->lock);
  if (!had) {
    of->is_new = true;
    recorder->current[of->name] = recorder->log.files++;
    log_add(&recorder->log, (Op){.kind = OP_CREATE, .name = of->name, .file = recorder->current[of->name]});
  }
  of->number = recorder->current[of->name];
  pthread_mutex_unlock(&recorder->lock);
  return SQLITE_OK;
}

static int on_delete(sqlite3_vfs *vfs, const char *path, int syncs) {
  Recorder *recorder = recorder_of(vfs);
  FileName name = name_of_file(path);
  int code = recorder->real->xDelete(recorder->real, path, 0);
  if (code != SQLITE_OK || recorder->current[name] < 0) return code;
  add(recorder, (Op){.kind = OP_DELETE, .name = name, .file = recorder->current[name]});
  recorder->current[name] = -1;
  if (syncs) add(recorder, (Op){.kind = OP_DIRECTORY, .name = name});
  return SQLITE_OK;
}

static int on_access(sqlite3_vfs *vfs, const char *path, int flags, int *result) {
  Recorder *recorder = recorder_of(vfs);
  return recorder->real->xAccess(recorder->real, path, flags, result);
}

static int on_full_path(sqlite3_vfs *vfs, const char *path, int size, char *to) {
  Recorder *recorder = recorder_of(vfs);
  return recorder->real->xFullPathname(recorder->real, path, size, to);
}

Recorder *recorder_start(void) {
  Recorder *recorder = calloc(1, sizeof *recorder);
  if (!recorder) abort();
  recorder->real = sqlite3_vfs_find(NULL);
  recorder->full_from = recorder->full_to = recorder->failing = -1;
  for (int i = 0; i < FILE_NAMES; i++) recorder->current[i] = -1;
  pthread_mutex_init(&recorder->lock, NULL);
  recorder->vfs = *recorder->real; /* what is not about files stays as it is */
  recorder->vfs.pNext = NULL;
  recorder->vfs.zName = "recorder";
  recorder->vfs.pAppData = recorder;
  recorder->vfs.szOsFile = (int)sizeof(RecordedFile) + recorder->real->szOsFile;
  recorder->vfs.xOpen = on_open;
  recorder->vfs.xDelete = on_delete;
  recorder->vfs.xAccess = on_access;
  recorder->vfs.xFullPathname = on_full_path;
  if (sqlite3_vfs_register(&recorder->vfs, 1) != SQLITE_OK) abort();
  return recorder;
}

Log recorder_stop(Recorder *recorder) {
  Log log = recorder->log;
  sqlite3_vfs_unregister(&recorder->vfs);
  sqlite3_vfs_register(recorder->real, 1);
  pthread_mutex_destroy(&recorder->lock);
  free(recorder);
  return log;
}

void recorder_mark(Recorder *recorder, int64_t number) { add(recorder, (Op){.kind = OP_MARK, .at = number}); }

void recorder_fill(Recorder *recorder, int64_t first, int64_t count) {
  recorder->full_from = first;
  recorder->full_to = first + count;
}

void recorder_fail_sync(Recorder *recorder, int64_t first) { recorder->failing = first; }

void recorder_counts(Recorder *recorder, int64_t *writes, int64_t *syncs) {
  *writes = recorder->writes;
  *syncs = recorder->syncs;
}
