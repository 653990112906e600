/* locks.c: locks between processes, for lua/runnel/store: each lock has a text as its name, and is in a file beside the
   database. The system releases the locks of a process when it ends, however it ends.

   A lock is a lock of the system on one byte of the file, at an offset that is a hash of the text. Two texts with the
   same hash, one pair in 2^62, wait for each other, which does no harm. Locks of one handle do not exclude each other;
   Lua makes sure that this is not needed. The Lua thread. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): declares F_OFD_SETLK */
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

#include "sqlite/database.h"

#define LOCKS_TYPE "runnel.sqlite.locks"

/* Some systems have only locks that belong to a process: there, two Lua states of one process do not exclude each
   other. */
#ifdef F_OFD_SETLK
#define SET_LOCK F_OFD_SETLK
#else
#define SET_LOCK F_SETLK
#endif

typedef struct Locks {
  Handle handle; /* held by its userdata only */
  int fd;        /* of the file; 0 before it is open */
} Locks;

static void free_locks(void *object) {
  Locks *locks = (Locks *)object;
  if (locks->fd > 0) (void)close(locks->fd);
  free(locks);
}

static const HandleType locks_type = {LOCKS_TYPE, NULL, free_locks};

/* The offset for a text (FNV-1a). */
static off_t offset_of(const char *text, size_t size) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
  return (off_t)(hash >> (sizeof(off_t) == 8 ? 2 : 34));
}

/* Locks or unlocks the byte for the text at index 2; returns fcntl's result. */
static int set(lua_State *L, short type) {
  Locks *locks = (Locks *)handle_check(L, 1, LOCKS_TYPE);
  size_t size;
  const char *text = luaL_checklstring(L, 2, &size);
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = offset_of(text, size), .l_len = 1};
  return fcntl(locks->fd, SET_LOCK, &lock);
}

/* locks:try(text) -> whether it has got the lock */
static int locks_try(lua_State *L) {
  bool has_lock = set(L, F_WRLCK) == 0;
  if (!has_lock && errno != EAGAIN && errno != EACCES) return luaL_error(L, "cannot lock: %s", strerror(errno));
  lua_pushboolean(L, has_lock);
  return 1;
}

/* locks:release(text) */
static int locks_release(lua_State *L) {
  (void)set(L, F_UNLCK);
  return 0;
}

/* locks:close(): releases all. */
static int locks_close(lua_State *L) {
  handle_close(L, 1, LOCKS_TYPE);
  return 0;
}

/* Whether a file is on a network file system, as far as the system says so. There, two machines do not share the memory
   that SQLite's write-ahead log needs, and may not see each other's locks. */
static bool is_on_network(int fd) {
#ifdef __linux__
  static const uint32_t types[] = {0x6969 /* NFS */,       0x517B /* SMB */,     0xFF534D42 /* CIFS */,
                                   0xFE534D42 /* SMB 2 */, 0x5346414F /* AFS */, 0x00C36400 /* Ceph */};
  struct statfs info;
  if (fstatfs(fd, &info) != 0) return false;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if ((uint32_t)info.f_type == types[i]) return true;
  }
#else
  (void)fd;
#endif
  return false;
}

/* Gives a new file the group and the permissions of another one and, as root, its owner, much as SQLite does with its
   own files beside a database. This one stays when the database is closed, so whoever opens the database first, as root,
   as one of a group or with another umask, must not lock its other users out. */
static void adopt(int fd, const char *path) {
  struct stat database;
  if (stat(path, &database) != 0) return;
  uid_t owner = geteuid() == 0 ? database.st_uid : (uid_t)-1;
  (void)!fchown(fd, owner, database.st_gid); /* refused if this user is not in the group */
  (void)fchmod(fd, database.st_mode & 0777);
}

/* Opens the file of a database's locks, and makes it if it does not exist. Returns -1 and sets errno if it cannot. */
static int open_file(const char *path, const char *database) {
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd >= 0 || errno != ENOENT) return fd;
  fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd >= 0) adopt(fd, database);
  /* Another process has just made it; or it is a link to a file that does not exist. */
  else if (errno == EEXIST) fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  return fd;
}

/* lib.locks(path, database) -> locks; or nil and the problem. `path` is the file of the locks, `database` the file of the
   database, whose owner and permissions a new file of locks gets. */
int locks_new(lua_State *L) {
  const char *path = luaL_checkstring(L, 1), *database = luaL_checkstring(L, 2), *problem = NULL;
  Locks *locks = (Locks *)handle_new(L, &locks_type, sizeof *locks, 0);
  locks->fd = open_file(path, database);
  if (locks->fd < 0) {
    /* seldom covered: root may open all files; the specs run this as another user, which writes no counts */
    bool is_denied = errno == EACCES;
    problem = strerror(errno);
    if (is_denied && access(path, F_OK) == 0) /* the file is there, and belongs to another user */
      problem = "Permission denied: all who use the database must be able to write this file; delete it when no "
                "program uses the store";
  } else if (is_on_network(locks->fd))
    problem = "it is on a network file system, where processes of several machines would damage it: use a disk of this "
              "machine, or runnel.nats for several machines";
  if (!problem) return 1;
  lua_pushnil(L);
  lua_pushstring(L, problem);
  return 2;
}

void locks_open(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"close", locks_close}, {"release", locks_release}, {"try", locks_try}, {NULL, NULL}};
  handle_open(L, &locks_type, methods);
}
