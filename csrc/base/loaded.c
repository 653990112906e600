/* loaded.c: see loaded.h. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): it is how dladdr is asked for */
#endif
#include "base/loaded.h"

#include <dlfcn.h>
#include <stdint.h>

void stay_loaded(void) {
  Dl_info info;
  if (dladdr((void *)(uintptr_t)stay_loaded, &info) && info.dli_fname) {
    /* cppcheck-suppress leakReturnValNotUsed */
    (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  }
}
