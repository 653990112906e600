-- scripts/check_includes.lua: finds circles of files, and what runs upward, by includes and by calls.

local process = require "spec.support.process"

describe("scripts/check_includes.lua", function()
  local SCRIPT = assert(io.popen "pwd"):read() .. "/scripts/check_includes.lua"
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  -- Writes these files below csrc, compiles the sources, and checks them. Returns what the script says, and its status.
  local function check(files)
    local script = { "set -e" }
    for path, text in pairs(files) do
      local folder = path:match "^(.+)/"
      os.execute(("mkdir -p '%s/csrc/%s' '%s/obj/%s'"):format(dir.path, folder, dir.path, folder))
      dir:write("csrc/" .. path, text)
      if path:match "%.c$" then
        script[#script + 1] = ("${CC:-cc} -iquote csrc -c -o obj/%s csrc/%s"):format(path:gsub("c$", "o"), path)
      end
    end
    script[#script + 1] = ("%s '%s' csrc obj"):format(os.getenv "LUA" or "lua5.4", SCRIPT)
    local result = process.run(dir.path, table.concat(script, "\n"))
    return result.err, result.status
  end

  it("accepts files that include and call others in one direction, also back by a pointer", function()
    assert.same({ "", 0 }, { check {
      ["base/low.h"] = "void low(void (*back)(void));\n",
      ["base/low.c"] = '#include "base/low.h"\nvoid low(void (*back)(void)) { back(); }\n',
      ["base/high.c"] = '#include "base/low.h"\nvoid high(void) { low(high); }\n',
      ["nats/top.c"] = '#include "base/low.h"\nvoid high(void);\nvoid top(void) { low(high); }\n',
    } })
  end)

  it("finds two files that call each other though neither includes the other, and says what they call", function()
    local err, status = check {
      ["base/a.c"] = "void b(void);\nvoid a(void) { b(); }\n",
      ["base/b.c"] = "void a(void);\nvoid b(void) { a(); }\n",
    }
    assert.same({ "a circle of files: base/a -> base/b -> base/a\n  base/a: it calls b of base/b\n" ..
      "  base/b: it calls a of base/a\n", 1 }, { err, status })
  end)

  it("finds a circle of an include and a use of data, through a third file", function()
    local err, status = check {
      ["base/a.h"] = "extern const int a;\n",
      ["base/a.c"] = '#include "base/a.h"\nint b(void);\nconst int a = 1;\nint of_a(void) { return b(); }\n',
      ["base/b.c"] = "int c(void);\nint b(void) { return c(); }\n",
      ["base/c.c"] = '#include "base/a.h"\nint c(void) { return a; }\n',
    }
    assert.matches("a circle of files: base/a %-> base/b %-> base/c %-> base/a", err)
    assert.equal(1, status)
  end)

  it("finds a call that runs upward", function()
    local err, status = check {
      ["base/a.c"] = "void b(void);\nvoid a(void) { b(); }\n",
      ["core/b.c"] = "void b(void) { }\n",
    }
    assert.same({ "base/a: b is defined above it, in core/b, and must not be called there\n", 1 }, { err, status })
  end)

  it("finds an include that runs upward", function()
    local err, status = check {
      ["base/a.c"] = '#include "core/b.h"\n',
      ["core/b.h"] = "",
    }
    assert.matches("^csrc/base/a.c:1: core/b.h is above base, and must not be included there\n", err)
    assert.equal(1, status)
  end)

  it("gives a folder in another one a place of its own in the order", function()
    local err, status = check {
      ["host/bundle/a.h"] = "",
      ["host/bundle/a.c"] = '#include "host/b.h"\n',
      ["host/b.h"] = '#include "host/bundle/a.h"\nvoid b(void);\n',
      ["host/bundle/c.c"] = "void b(void);\nvoid c(void) { b(); }\n",
      ["host/b.c"] = "void b(void) { }\n",
    }
    assert.matches("csrc/host/bundle/a.c:1: host/b.h is above host/bundle, and must not be included there\n", err)
    assert.matches("host/bundle/c: b is defined above it, in host/b, and must not be called there\n", err)
    assert.equal(1, status)
  end)

  it("finds a name that a module defines, though the core does", function()
    local err, status = check {
      ["base/a.c"] = "void open_it(void) { }\n",
      ["tls/b.c"] = "void open_it(void) { }\n",
    }
    assert.same({ "tls/b defines open_it, as base/a of the core does\n", 1 }, { err, status })
  end)

  it("accepts a name that two modules define, which are never linked together", function()
    assert.same({ "", 0 }, { check {
      ["nats/a.c"] = "void open_it(void) { }\n",
      ["tls/b.c"] = "void open_it(void) { }\n",
    } })
  end)
end)
