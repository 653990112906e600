/* carried.c: see carried.h. */
#include "host/bundle/carried.h"

#include <dlfcn.h>
#include <errno.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bytes of a reason why a shared object cannot be loaded, and of its path. */
enum { WHY_MAX = 512, PATH_BYTES = 512 };

/* ---- shared objects, from memory ---- */

static bool write_all(int fd, const unsigned char *bytes, size_t size) {
  while (size > 0) {
    ssize_t n = write(fd, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n;
    size -= (size_t)n;
  }
  return true;
}

static bool is_object(const Part *part) { return part->kind == PART_C_MODULE || part->kind == PART_LIBRARY; }

/* The number of a shared object among those of the bundle, from 1 on. */
static size_t object_number(const Part *part) {
  size_t number = 1;
  for (const Part *other = part->bundle->parts; other < part; other++) number += is_object(other);
  return number;
}

/* A file in memory with the part's bytes: its descriptor and its path; or -1 if the system has none, or no /proc.
   The paths of two parts differ in their number of slashes: descriptors are used again, and dlopen takes an equal path
   for the library that it has loaded already. */
static int in_memory(const Part *part, char path[PATH_BYTES]) {
#ifdef __linux__
  int fd = memfd_create(part->module.name, MFD_CLOEXEC);
  if (fd < 0) return -1;
  size_t slashes = object_number(part);
  char number[16];
  (void)snprintf(number, sizeof number, "%d", fd);
  size_t begin = (size_t)snprintf(path, PATH_BYTES, "/proc/self/fd");
  if (begin + slashes + sizeof number <= PATH_BYTES) {
    memset(path + begin, '/', slashes);
    memcpy(path + begin + slashes, number, strlen(number) + 1);
    if (access(path, R_OK) == 0 && write_all(fd, part->module.code, part->module.size)) return fd;
  }
  (void)close(fd);
#else
  (void)part, (void)path;
#endif
  return -1;
}

/* A new file with the part's bytes in the folder for temporary files: its descriptor and its path; or -1. The caller
   removes it. */
static int on_disk(const Part *part, char path[PATH_BYTES]) {
  const char *folder = getenv("TMPDIR");
  if (!folder || !*folder || strlen(folder) > PATH_BYTES / 2) folder = "/tmp";
  (void)snprintf(path, PATH_BYTES, "%s/runnel-XXXXXX", folder);
  int fd = mkstemp(path);
  if (fd < 0 || write_all(fd, part->module.code, part->module.size)) return fd;
  (void)unlink(path);
  (void)close(fd);
  return -1;
}

/* Loads a shared object, once. One without bytes is in the file of the module that it needs. The bundle is locked.
   Returns NULL and why. */
static void *load_object(Part *part, char why[WHY_MAX]) {
  if (part->handle) return part->handle;
  for (size_t i = 0; i < part->needed; i++) {
    if (!load_object(&part->bundle->parts[part->needs[i]], why)) return NULL;
  }
  if (part->module.size == 0) return part->handle = part->bundle->parts[part->needs[0]].handle;
  char path[PATH_BYTES];
  int memory = in_memory(part, path), fd = memory >= 0 ? memory : on_disk(part, path);
  if (fd < 0) {
    (void)snprintf(why, WHY_MAX, "it needs /proc, or a folder for temporary files (TMPDIR)");
    return NULL;
  }
  part->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!part->handle) (void)snprintf(why, WHY_MAX, "%s", dlerror()); /* NOLINT(concurrency-mt-unsafe) */
  (void)close(fd);
  if (memory < 0) (void)unlink(path);
  return part->handle;
}

/* The loader of a C module: (name, where it was found) -> its value. Upvalue: its Part. */
static int load_c_module(lua_State *L) {
  Part *part = (Part *)lua_touserdata(L, lua_upvalueindex(1));
  char why[WHY_MAX];
  (void)pthread_mutex_lock(&part->bundle->lock);
  void *handle = load_object(part, why);
  (void)pthread_mutex_unlock(&part->bundle->lock);
  void *symbol = handle ? dlsym(handle, part->module.chunk) : NULL;
  if (!handle) return luaL_error(L, "cannot load '%s', which is in this program: %s", part->module.name, why);
  if (!symbol) return luaL_error(L, "'%s' has no function %s", part->module.name, part->module.chunk);
  lua_CFunction open;
  memcpy(&open, &symbol, sizeof open); /* ISO C has no cast for that */
  lua_pushcfunction(L, open);
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}

/* ---- files, and modules that are not in the program ---- */

/* (name) -> the bytes of a file, or nil. Upvalue: the Bundle. */
static int get_file(lua_State *L) {
  const Bundle *b = (const Bundle *)lua_touserdata(L, lua_upvalueindex(1));
  const Part *part = bundle_find(b, PART_FILE, luaL_checkstring(L, 1));
  if (part) lua_pushlstring(L, (const char *)part->module.code, part->module.size);
  else lua_pushnil(L);
  return 1;
}

/* The loader of runnel.host.files, which is get_file. Upvalue: the Bundle. */
static int open_files(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushcclosure(L, get_file, 1);
  return 1;
}

/* The last searcher of `require`: (name) -> why there is no such module. */
static int explain(lua_State *L) {
  lua_pushfstring(L, "it is not in this program: build it with --include %s", luaL_checkstring(L, 1));
  return 1;
}

/* The table `package` is on top of the stack. */
static void add_searcher(lua_State *L) {
  lua_getfield(L, -1, "searchers");
  lua_pushcfunction(L, explain);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  lua_pop(L, 1);
}

static void set_no_path(lua_State *L, const char *field) {
  lua_pushliteral(L, "");
  lua_setfield(L, -2, field);
}

/* Puts a function with one upvalue, a part or the bundle, into package.preload, which is on top of the stack. */
static void set_loader(lua_State *L, const char *name, lua_CFunction loader, void *upvalue) {
  lua_pushlightuserdata(L, upvalue);
  lua_pushcclosure(L, loader, 1);
  lua_setfield(L, -2, name);
}

void carried_preload(lua_State *L, Bundle *b) {
  lua_getglobal(L, LUA_LOADLIBNAME);
  set_no_path(L, "path");
  set_no_path(L, "cpath");
  add_searcher(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  Part *part;
  for (size_t i = 0; (part = bundle_next(b, PART_MODULE, &i));) modules_preload_one(L, &part->module);
  for (size_t i = 0; (part = bundle_next(b, PART_C_MODULE, &i));) set_loader(L, part->module.name, load_c_module, part);
  set_loader(L, "runnel.host.files", open_files, b);
  lua_pop(L, 2);
}

int carried_load_script(lua_State *L, const Bundle *b) {
  const Module *script = &bundle_next(b, PART_SCRIPT, &(size_t){0})->module;
  return luaL_loadbuffer(L, (const char *)script->code, script->size, script->chunk);
}
