/* loaded.c: see loaded.h. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): it is how dladdr is asked for */
#endif
#include "base/loaded.h"

#ifdef __wasm__
bool stay_loaded(void) { return true; } /* a web page cannot unload it */
bool stay_loaded_at(const void *address) { return address != 0; }
#else

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

/* Whether the object at that address is the program itself. */
static bool is_program(const void *start) {
#if defined(__linux__)
  Dl_info info;
  return dladdr((void *)(uintptr_t)getauxval(AT_PHDR), &info) && info.dli_fbase == start;
#else
  (void)start;
  return false;
#endif
}

/* Whether the program is linked statically: nothing is unloaded then, and dladdr knows no address. */
static bool is_static(void) {
#if defined(__linux__)
  return getauxval(AT_BASE) == 0;
#else
  return false;
#endif
}

/* Whether the promise has been given. It holds until the process ends; asking the system takes 7,500 instructions. */
static atomic_bool is_kept;

bool stay_loaded_at(const void *address) {
  Dl_info info;
  if (!dladdr(address, &info)) return is_static();
  if (is_program(info.dli_fbase)) return true;
  /* cppcheck-suppress leakReturnValNotUsed ; it stays loaded */
  return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) != NULL;
}

bool stay_loaded(void) {
  if (!atomic_load(&is_kept) && stay_loaded_at((const void *)(uintptr_t)stay_loaded)) atomic_store(&is_kept, true);
  return atomic_load(&is_kept);
}
#endif
