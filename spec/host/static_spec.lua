-- What is otherwise known of a library, in a program that is linked statically. `make check-static` runs a whole one.

local process = require "spec.support.process"

describe("a program that is linked statically", function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  it("stays loaded, and so its threads and its allocator work #ci", function()
    dir:write("main.c", [[
#include <stdio.h>
#include "base/loaded.h"
int main(void) {
  int on_stack;
  printf("%d %d %d\n", stay_loaded(), stay_loaded(), stay_loaded_at((const void *)&on_stack));
  return 0;
}
]])
    local tree = io.popen("pwd"):read "l"
    dir:write("no.c", "int main(void) { return 0; }")
    local has_archive = process.run(dir.path, "${CC:-cc} -static -o no no.c && ./no")
    if has_archive.status ~= 0 then return pending "the C library has no archive" end
    local result = process.run(dir.path, ([[
      tree='%s'
      for linked in -static ""; do
        ${CC:-cc} -std=c11 -D_POSIX_C_SOURCE=200809L -iquote "$tree/csrc" $linked -o program main.c \
          "$tree/csrc/base/loaded.c" && ./program
      done
    ]]):format(tree))
    assert.same({ "1 1 1\n1 1 0\n", 0 }, { result.out, result.status }, result.err)
  end)
end)
