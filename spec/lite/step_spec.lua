-- examples/embed/step.c: a C program with a loop of its own, on each Lua that has headers.

local process = require "spec.support.process"
local programs = require "spec.support.lite.programs"

describe("examples/embed/step.c", function()
  for _, name in ipairs { "lua5.4", "luajit", "lua5.1" } do
    local is_there = programs.has "cc" and os.execute(("pkg-config --exists %s 2>/dev/null"):format(name))
    local it = is_there and it or pending
    it("runs go blocks between its events, with the library of " .. name, function()
      local dir <close> = process.directory()
      programs.run(dir, ([[
        cc -std=c11 -Wall -Wextra -Werror -D_POSIX_C_SOURCE=200809L -o step '%s/examples/embed/step.c' \
          $(pkg-config --cflags --libs %s) -lm
      ]]):format(programs.root, name))
      -- A fifo, so that a burst ends while the program still has input: when it has printed the first.
      local output = programs.run(dir, ([[
        mkfifo input
        ./step '%s/examples/embed/step.lua' <input >output &
        exec 3>input
        echo a >&3; echo b >&3
        until [ -s output ]; do sleep 0.01; done
        printf 'c\nd' >&3
        exec 3>&-
        wait $! && cat output
      ]]):format(programs.root))
      assert.equal('2 lines, the first is "a"\n2 lines, the first is "c"\n', output)
    end)
  end
end)
