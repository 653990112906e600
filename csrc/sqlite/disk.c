/* disk.c: a file system for SQLite in a function of Lua: the disk of a simulated host (lua/runnel/sim/database.lua);
   see database.h. The Lua thread.

   Each database on such a disk has a file system (sqlite3_vfs) of its own, which calls the function for everything but
   shared memory. A call must not jump out of SQLite: SQLite sees an error of the function as an error of the disk. The
   function itself keeps the error if it is needed later. */
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "sqlite/database.h"

#define MEMORY_TYPE "runnel.sqlite.memory"

/* The index of a write-ahead log, which the connections to one file share. */
typedef struct Memory {
  Handle handle;   /* also held by each File that uses it */
  char **regions;  /* each of the size that SQLite asks for, owned; they never move */
  size_t n;        /* their number */
  size_t capacity; /* the number that `regions` has room for */
} Memory;

struct Disk {
  sqlite3_vfs vfs; /* its pAppData is this */
  char name[32];   /* of the file system; no other one of the process has it */
  lua_State *L;    /* of the call into SQLite that runs; NULL: none */
};

typedef struct File {
  sqlite3_file base; /* its pMethods is NULL until the file is open */
  Disk *disk;        /* on which it is */
  lua_Integer id;    /* by which the function knows it */
  Memory *memory;    /* with a hold; or NULL */
} File;

/* ---- calling the function ---- */

/* A call of the function, (operation, file, text, a, b) -> result, or nil and an error. */
typedef struct Call {
  const char *operation;
  const char *text;   /* a path, or data; or NULL */
  size_t size;        /* of the text */
  lua_Integer file;   /* File.id */
  lua_Integer a, b;   /* depend on the operation */
  lua_Integer result; /* if it is a boolean: 0 or 1 */
  char *bytes;        /* to where a result that is a string is copied, with a zero byte; or NULL */
  size_t room;        /* how many bytes of the string there is room for */
  size_t got;         /* how many were copied */
  Memory *memory;     /* the result of "memory", with a hold */
  bool is_full;       /* the error is that the disk is full */
} Call;

/* Protected: (disk, call) */
static int perform(lua_State *L) {
  Call *call = (Call *)lua_touserdata(L, 2);
  (void)lua_rawgetp(L, LUA_REGISTRYINDEX, lua_touserdata(L, 1));
  lua_pushstring(L, call->operation);
  lua_pushinteger(L, call->file);
  if (call->text) lua_pushlstring(L, call->text, call->size);
  else lua_pushnil(L);
  lua_pushinteger(L, call->a);
  lua_pushinteger(L, call->b);
  lua_call(L, 5, 2);
  if (lua_isnil(L, 3)) {
    const char *err = lua_tostring(L, 4);
    call->is_full = err && strcmp(err, "ENOSPC") == 0;
    return lua_error(L);
  }
  if (lua_isinteger(L, 3)) {
    call->result = lua_tointeger(L, 3);
  } else if (lua_type(L, 3) == LUA_TSTRING) {
    const char *bytes = lua_tolstring(L, 3, &call->got);
    if (call->got > call->room) call->got = call->room;
    if (call->bytes) memcpy(call->bytes, bytes, call->got);
  } else if (lua_isuserdata(L, 3)) {
    call->memory = (Memory *)handle_hold(handle_check(L, 3, MEMORY_TYPE));
  } else {
    call->result = lua_toboolean(L, 3);
  }
  return 0;
}

/* Returns SQLITE_OK, or `code` if the function has failed, or SQLITE_FULL. */
static int ask(Disk *disk, Call *call, int code) {
  lua_State *L = disk->L;
  if (!L || !lua_checkstack(L, LUA_MINSTACK)) return code;
  int top = lua_gettop(L);
  lua_pushcfunction(L, perform);
  lua_pushlightuserdata(L, disk);
  lua_pushlightuserdata(L, call);
  int status = lua_pcall(L, 2, 0, 0);
  lua_settop(L, top);
  if (status == LUA_OK) return SQLITE_OK;
  return call->is_full ? SQLITE_FULL : code;
}

/* The same for an operation on a file. */
static int ask_of(sqlite3_file *base, Call *call, int code) {
  const File *file = (const File *)base;
  call->file = file->id;
  return ask(file->disk, call, code);
}

/* ---- files: sqlite3_io_methods ---- */

static void leave_memory(File *file) {
  if (file->memory) handle_release(file->memory);
  file->memory = NULL;
}

static int file_close(sqlite3_file *base) {
  (void)ask_of(base, &(Call){.operation = "close"}, SQLITE_OK);
  leave_memory((File *)base);
  return SQLITE_OK;
}

static int file_read(sqlite3_file *base, void *to, int n, sqlite3_int64 offset) {
  Call call = {.operation = "read", .a = n, .b = offset, .bytes = (char *)to, .room = (size_t)n};
  int code = ask_of(base, &call, SQLITE_IOERR_READ);
  if (code != SQLITE_OK || call.got == (size_t)n) return code;
  memset((char *)to + call.got, 0, (size_t)n - call.got);
  return SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *base, const void *from, int n, sqlite3_int64 offset) {
  Call call = {.operation = "write", .text = (const char *)from, .size = (size_t)n, .b = offset};
  return ask_of(base, &call, SQLITE_IOERR_WRITE);
}

static int file_truncate(sqlite3_file *base, sqlite3_int64 size) {
  return ask_of(base, &(Call){.operation = "truncate", .a = size}, SQLITE_IOERR_TRUNCATE);
}

static int file_sync(sqlite3_file *base, int flags) {
  (void)flags;
  return ask_of(base, &(Call){.operation = "sync"}, SQLITE_IOERR_FSYNC);
}

static int file_size(sqlite3_file *base, sqlite3_int64 *size) {
  Call call = {.operation = "size"};
  int code = ask_of(base, &call, SQLITE_IOERR_FSTAT);
  *size = call.result;
  return code;
}

/* An operation whose result is whether it has got a lock. */
static int lock(sqlite3_file *base, Call call) {
  int code = ask_of(base, &call, SQLITE_IOERR_LOCK);
  return code == SQLITE_OK && !call.result ? SQLITE_BUSY : code;
}

static int file_lock(sqlite3_file *base, int level) { return lock(base, (Call){.operation = "lock", .a = level}); }

static int file_unlock(sqlite3_file *base, int level) {
  return ask_of(base, &(Call){.operation = "unlock", .a = level}, SQLITE_IOERR_UNLOCK);
}

static int file_is_reserved(sqlite3_file *base, int *is_reserved) {
  Call call = {.operation = "is_reserved"};
  int code = ask_of(base, &call, SQLITE_IOERR_CHECKRESERVEDLOCK);
  *is_reserved = (int)call.result;
  return code;
}

static int file_control(sqlite3_file *base, int what, void *value) {
  (void)base, (void)what, (void)value;
  return SQLITE_NOTFOUND;
}

/* A write changes no other bytes, whatever happens: so SQLite does not ask for the size of a sector. */
static int file_device(sqlite3_file *base) {
  (void)base;
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

/* ---- memory that connections share ---- */

static void free_memory(void *object) {
  Memory *memory = (Memory *)object;
  for (size_t i = 0; i < memory->n; i++) free(memory->regions[i]);
  free(memory->regions);
  free(memory);
}

static const HandleType memory_type = {MEMORY_TYPE, NULL, free_memory};

int disk_memory(lua_State *L) {
  (void)handle_new(L, &memory_type, sizeof(Memory), 0);
  return 1;
}

static bool add_region(Memory *memory, size_t size) {
  char **regions = (char **)grow(memory->regions, &memory->capacity, memory->n + 1, sizeof *regions);
  if (!regions) return false;
  memory->regions = regions;
  regions[memory->n] = (char *)calloc(1, size);
  if (!regions[memory->n]) return false;
  memory->n++;
  return true;
}

static int file_map(sqlite3_file *base, int region, int size, int extends, void volatile **to) {
  File *file = (File *)base;
  *to = NULL;
  if (!file->memory) {
    Call call = {.operation = "memory"};
    int code = ask_of(base, &call, SQLITE_IOERR_SHMMAP);
    if (code != SQLITE_OK) return code;
    file->memory = call.memory;
  }
  Memory *memory = file->memory;
  while (extends && memory->n <= (size_t)region) {
    if (!add_region(memory, (size_t)size)) return SQLITE_NOMEM;
  }
  if ((size_t)region < memory->n) *to = memory->regions[region];
  return SQLITE_OK;
}

static int file_share(sqlite3_file *base, int first, int n, int flags) {
  if (flags & SQLITE_SHM_UNLOCK) {
    return ask_of(base, &(Call){.operation = "unshare", .a = first, .b = n}, SQLITE_IOERR_SHMLOCK);
  }
  return lock(base, (Call){.operation = flags & SQLITE_SHM_SHARED ? "share" : "exclude", .a = first, .b = n});
}

/* Nothing to do: all that use the memory are in this thread. */
static void file_barrier(sqlite3_file *base) { (void)base; }

static int file_unmap(sqlite3_file *base, int is_last) {
  (void)is_last;
  (void)ask_of(base, &(Call){.operation = "forget"}, SQLITE_OK);
  leave_memory((File *)base);
  return SQLITE_OK;
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_is_reserved,
    .xFileControl = file_control,
    .xDeviceCharacteristics = file_device,
    .xShmMap = file_map,
    .xShmLock = file_share,
    .xShmBarrier = file_barrier,
    .xShmUnmap = file_unmap,
};

/* ---- the file system: sqlite3_vfs ---- */

/* A call with a path, or without one. */
static Call with_path(const char *operation, const char *path) {
  return (Call){.operation = operation, .text = path, .size = path ? strlen(path) : 0};
}

static int disk_open_file(sqlite3_vfs *vfs, const char *path, sqlite3_file *base, int flags, int *out) {
  File *file = (File *)base;
  *file = (File){.disk = (Disk *)vfs->pAppData};
  Call call = with_path("open", path);
  call.a = flags & SQLITE_OPEN_CREATE;
  call.b = flags & SQLITE_OPEN_READONLY;
  int code = ask(file->disk, &call, SQLITE_CANTOPEN);
  if (code != SQLITE_OK) return code;
  file->id = call.result;
  file->base.pMethods = &file_methods;
  if (out) *out = flags;
  return SQLITE_OK;
}

static int disk_delete(sqlite3_vfs *vfs, const char *path, int syncs) {
  Call call = with_path("delete", path);
  call.a = syncs;
  return ask((Disk *)vfs->pAppData, &call, SQLITE_IOERR_DELETE);
}

static int disk_access(sqlite3_vfs *vfs, const char *path, int what, int *result) {
  (void)what;
  Call call = with_path("access", path);
  int code = ask((Disk *)vfs->pAppData, &call, SQLITE_IOERR_ACCESS);
  *result = (int)call.result;
  return code;
}

static int disk_full_path(sqlite3_vfs *vfs, const char *path, int room, char *to) {
  Call call = with_path("full_path", path);
  call.bytes = to;
  call.room = (size_t)room - 1;
  int code = ask((Disk *)vfs->pAppData, &call, SQLITE_CANTOPEN);
  to[call.got] = '\0';
  return code;
}

/* The time in ms since noon on 24 November 4714 BC. */
static int disk_time_ms(sqlite3_vfs *vfs, sqlite3_int64 *ms) {
  Call call = {.operation = "time"};
  int code = ask((Disk *)vfs->pAppData, &call, SQLITE_ERROR);
  *ms = call.result + INT64_C(210866760000000);
  return code;
}

/* uncovered: SQLite sleeps here only if others change the log while it begins to read */
static int disk_sleep(sqlite3_vfs *vfs, int us) {
  (void)vfs;
  return us;
}

static int disk_last_error(sqlite3_vfs *vfs, int n, char *to) {
  (void)vfs;
  if (n > 0) to[0] = '\0';
  return 0;
}

/* ---- the disk of a database ---- */

void disk_open(lua_State *L, Database *db, int at) {
  Disk *disk = (Disk *)calloc(1, sizeof *disk);
  db->disk = disk; /* freed with it */
  if (!disk) {
    luaL_error(L, "not enough memory"); /* seldom covered: only when memory runs out */
    return;
  }
  (void)snprintf(disk->name, sizeof disk->name, "runnel-%p", (void *)disk);
  /* SQLite takes random numbers from the default file system, and the time in days only where there is none in ms. */
  disk->vfs = (sqlite3_vfs){
      .iVersion = 2,
      .szOsFile = sizeof(File),
      .mxPathname = 512,
      .zName = disk->name,
      .pAppData = disk,
      .xOpen = disk_open_file,
      .xDelete = disk_delete,
      .xAccess = disk_access,
      .xFullPathname = disk_full_path,
      .xSleep = disk_sleep,
      .xGetLastError = disk_last_error,
      .xCurrentTimeInt64 = disk_time_ms,
  };
  lua_pushvalue(L, at);
  lua_rawsetp(L, LUA_REGISTRYINDEX, disk);
  if (sqlite3_vfs_register(&disk->vfs, 0) != SQLITE_OK) luaL_error(L, "not enough memory");
}

const char *disk_name(const Disk *disk) { return disk ? disk->name : NULL; }

lua_State *disk_enter(Disk *disk, lua_State *L) {
  if (!disk) return NULL;
  lua_State *before = disk->L;
  disk->L = L;
  return before;
}

void disk_close(lua_State *L, Disk *disk) {
  if (!disk) return;
  disk->L = NULL;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, disk) != LUA_TNIL) {
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, disk); /* an existing key: allocates nothing */
  }
  lua_pop(L, 1);
}

void disk_free(Disk *disk) {
  if (!disk) return;
  (void)sqlite3_vfs_unregister(&disk->vfs);
  free(disk);
}

void disk_init(lua_State *L) {
  static const luaL_Reg methods[] = {{NULL, NULL}};
  handle_open(L, &memory_type, methods);
}
