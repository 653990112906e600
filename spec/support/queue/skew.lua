---A clock that can be set for programs that a spec starts: a library that is put before the system's functions. The
---clock is ahead by as many seconds as a file says: the one that SKEW names in the environment, or `skew` in the
---directory of the program.

local process = require "spec.support.process"
local shell = require "spec.support.shell"

local skew = {}

local LIBRARY <const> = [[
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long skew(void) {
  char text[32] = {0};
  const char *path = getenv("SKEW");
  int file = open(path ? path : "skew", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t n = read(file, text, sizeof text - 1);
  close(file);
  return n > 0 ? atol(text) : 0;
}
int clock_gettime(clockid_t id, struct timespec *t) {
  int result = (int)syscall(SYS_clock_gettime, id, t);
  if (id == CLOCK_REALTIME) t->tv_sec += skew();
  return result;
}
int gettimeofday(struct timeval *t, void *zone) {
  struct timespec s;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &s);
  t->tv_sec = s.tv_sec;
  t->tv_usec = s.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *at) {
  struct timespec s;
  clock_gettime(CLOCK_REALTIME, &s);
  if (at) *at = s.tv_sec;
  return s.tv_sec;
}
]]

---Whether this works here: on Linux, without sanitizers and other such libraries.
skew.works = shell.run("uname"):find "Linux" and io.open "/proc/sys/kernel/random/boot_id" ~= nil
  and not os.getenv "LD_PRELOAD" and not os.getenv "ASAN_OPTIONS" and true or false

---Builds the library `skew.so` in a directory. Returns its path; nil if that fails.
---@param dir string
---@return string? path
function skew.build(dir)
  local file <close> = assert(io.open(dir .. "/skew.c", "w"))
  file:write(LIBRARY)
  file:flush()
  return process.run(dir, "cc -shared -fPIC -o skew.so skew.c").status == 0 and dir .. "/skew.so" or nil
end

return skew
