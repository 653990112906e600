-- scripts/check_release: its table, and where its rows run. `make` and git are stand-ins here.

local process = require "spec.support.process"

describe("scripts/check_release", function()
  local dir
  before_each(function()
    dir = process.directory()
    assert(os.execute(("cd '%s' && mkdir -p scripts bin .git"):format(dir.path)))
    assert(os.execute(("cp scripts/check_release scripts/last_commit '%s/scripts'"):format(dir.path)))
    dir:write("bin/git", '#!/bin/sh\n[ "$1" = diff ] || exec tar -c --exclude=./.git --exclude=./build .\n')
  end)
  after_each(function() dir:remove() end)

  -- The table of a run of these rows, in which `make` does what the shell code says, with the assignments in `before`.
  local function run(rows, make, before)
    dir:write("bin/make", ([[#!/bin/sh
      case $* in *long-checks) echo check-gc coverage check-install; exit ;; esac
      %s
    ]]):format(make))
    local result = process.run(dir.path,
      ("unset SUITE; chmod +x bin/* && PATH=$PWD/bin:$PATH %sscripts/check_release %s"):format(before or "", rows))
    local found = {}
    for name, word in result.out:gmatch "\n([%l-]+) +(%a+) +%d+ s +%d+ s%f[\n]" do
      found[#found + 1] = name .. " " .. word
    end
    return found, result
  end

  it("runs its rows in an unpacked archive, but for those that need a repository #ci", function()
    local found, result = run("specs addresses gc", ([[
      [ ! -e .git ] || echo "$*" >>'%s/in_repository'
      [ -e .git ] || echo "$*" >>'%s/in_archive']]):format(dir.path, dir.path))
    assert.same({ "addresses ok", "specs ok", "gc ok" }, found, result.err)
    assert.same({ 0, "3 of 3 passed" }, { result.status, result.out:match "%d of %d passed" })
    assert.equal("-s check-addresses\n", dir:read "in_repository")
    assert.matches("^test\ncheck%-gc\n$", (dir:read "in_archive":gsub("^check%-gc\ntest\n", "test\ncheck-gc\n")))
  end)

  it("runs them in a root of Debian, with SUITE #ci", function()
    dir:write("scripts/debian_root", [[
      export called=$tree/called
      choose() { suite=${1%/*} lua=${1#*/}; }
      enter_namespaces() { echo "namespaces for $*" >>"$tree/called"; }
      make_root() { echo "make $1" >>"$tree/called"; }
      copy_root() { root=$(mktemp -d) && mkdir "$root/root"; }
      inside() { (cd "$root/root/$folder" && echo "$lua: $1 ${2#*; }" >>"$called" && eval "$2"); }
      keep_packages() { echo "keep $1" >>"$tree/called"; }
      remove_root() { rm -r "$root"; }
    ]])
    local found, result = run("addresses specs gc", '[ "$1" != test ] || { pwd; exit 1; }', "SUITE=unstable/lua5.4 ")
    assert.same({ "addresses ok", "specs FAILED", "gc ok" }, found, result.err)
    local called = {}
    for line in dir:read "called":gmatch "[^\n]+" do called[#called + 1] = line end
    assert.same({ "namespaces for scripts/check_release addresses specs gc", "make unstable" },
      table.move(called, 1, 2, 1, {}))
    assert.same("keep unstable", table.remove(called))
    called = table.move(called, 3, #called, 1, {})
    table.sort(called)
    assert.same({ "lua5.4: root make check-gc", "lua5.4: root make test" }, called)
    local place = dir:read "build/release/unstable/lua5.4/specs.log"
    assert.matches("/root/lane[01]\n$", place)
    assert.is_nil((io.open(place:match "^(.*)/root/lane")))
  end)

  it("goes on after a row that fails or skips something, and fails in the end #ci", function()
    local found, result = run("specs lint install", [[
      case $* in
      test) echo "1 failure"; exit 1 ;;
      check-install) echo "check-differences: skipped: there is no node" ;;
      esac]])
    assert.same({ "lint ok", "specs FAILED", "install skipped" }, found, result.err)
    assert.same({ 1, "1 of 3 passed" }, { result.status, result.out:match "%d of %d passed" })
    assert.equal("1 failure\n", dir:read "build/release/specs.log")
    found, result = run("gc", "echo 'check-differences: skipped: there is no node'")
    assert.same({ { "gc skipped" }, 1 }, { found, result.status })
  end)

  it("takes a row for ok that leaves out what Debian has no newer version of, and says so #ci", function()
    local too_old = "echo 'clusters: skipped: nats-server is older than 2.11'"
    local found, result = run("gc install", too_old)
    assert.same({ { "gc ok", "install ok" }, 0 }, { found, result.status }, result.err)
    local line = "leaves out clusters: nats-server is older than 2.11\n"
    assert.matches(("\ngc %sinstall %s2 of 2 passed"):format(line, line), result.out, 1, true)
    found, result = run("gc", too_old .. "; echo 'a: skipped: there is no b'")
    assert.same({ { "gc skipped" }, 1 }, { found, result.status })
  end)

  it("has a row for each check of make check-long #ci", function()
    local found, result = run("long", "[ $1 != coverage ]")
    assert.same({ "gc ok", "coverage FAILED", "install ok" }, found, result.err)
    found = run("long lint gc", "true")
    assert.same({ "lint ok", "gc ok", "coverage ok", "install ok" }, found)
  end)

  it("refuses a row that it does not have", function()
    local _, result = run("specs nosuch", "true")
    assert.equal(2, result.status)
    assert.matches("there is no row nosuch", result.err, 1, true)
  end)
end)
