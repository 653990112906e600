-- `runnel build`: executables with a script, its modules and files.

local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"
require "runnel" -- C modules need it

local runnel = process.runnel
local IS_INSTRUMENTED = os.getenv "ASAN_OPTIONS" ~= nil -- a sanitizer needs /proc, and libraries of its own

-- A shell command's output, without the newline at its end.
local function output_of(command)
  local pipe <close> = assert(io.popen(command))
  return (pipe:read "a":gsub("\n$", ""))
end

local IS_LINUX = output_of "uname" == "Linux"

describe("runnel build", function()
  if not IS_LINUX then return pending "only Linux is supported" end
  local dir

  setup(function() dir = process.directory() end)
  teardown(function() dir:remove() end)

  local function run(command) return process.run(dir.path, command) end

  -- Writes files: a table of texts by path. Folders must exist.
  local function write(files)
    for path, text in pairs(files) do dir:write(path, text) end
  end

  -- Builds from the script main.lua, and returns what is printed.
  local function build(arguments)
    local result = run(("%s build %s"):format(runnel, arguments or "main.lua -o app"))
    assert.equal("", result.err)
    assert.equal(0, result.status)
    return result.out
  end

  describe("makes one executable,", function()
    it("which runs the script with all arguments: no option is runnel's", function()
      write { ["main.lua"] = [[
        print(arg[0], #arg, arg[-1], ...)
        require("runnel").go(function() print "a go block" end)
      ]] }
      local printed = build "main.lua"
      assert.matches("^main: %d[^\n]*, with main%.lua\nmust be on the other machine: libc%.so[^\n]*\n", printed)
      assert.is_nil(printed:find "%-%-libraries")
      local result = run "./main -e x --help --version --sim"
      assert.equal("./main\t5\tnil\t-e\tx\t--help\t--version\t--sim\na go block\n", result.out)
      local by_name = run "PATH=\"$PWD:$PATH\" main"
      assert.equal(dir.path .. "/main\t0\tnil\na go block\n", by_name.out)
      assert.equal("", result.err)
      assert.equal(0, result.status)
    end)

    it("whose messages have the lines of the script, and whose exit status is the script's", function()
      write { ["main.lua"] = "#!/usr/bin/env lua\n\nerror 'no'" }
      build()
      local result = run "./app"
      assert.matches("^%./app: main%.lua:3: no\nstack traceback:\n", result.err)
      assert.equal(1, result.status)
      write { ["main.lua"] = "os.exit(7)" }
      build()
      assert.equal(7, run("./app").status)
    end)

    it("also of bytecode behind a first line for the shell", function()
      local code = [[io.open("main.lua", "wb"):write("#!/usr/bin/env lua\n", string.dump(load "print(42)")):close()]]
      assert.equal("", run(("%s -e '%s'"):format(runnel, code)).err)
      build()
      assert.equal("42\n", run("./app").out)
    end)

    it("which ignores the environment of Lua, and modules beside it", function()
      write {
        ["main.lua"] = "print(package.path == '' and package.cpath == '', pcall(require, 'be' .. 'side'))",
        ["beside.lua"] = "return 'beside'",
      }
      assert.matches("\nnot inside: the module that main%.lua:1 requires, whose name is computed [^\n]*\n", build())
      write { ["main.lua"] = "print(package.path == '' and package.cpath == '', pcall(require, 'beside'))" }
      build "main.lua -o app --exclude beside"
      local result = run [[LUA_INIT="error 'init'" LUA_PATH=./?.lua ./app]]
      assert.matches("^true\tfalse\tmodule 'beside' not found:.*"
        .. "it is not in this program: build it with %-%-include beside\n$", result.out)
    end)

    it("in place of an older one, also while that runs", function()
      write { ["main.lua"] = "print 'old' io.stdout:flush() io.read() print 'old still'", ["new.lua"] = "print 'new'" }
      build()
      local result = run(([[mkfifo in out; ./app <in >out & exec 3>in 4<out; read line <&4
        %s build new.lua -o app >/dev/null; echo >&3; echo "$line"; cat <&4; wait; ./app]]):format(runnel))
      assert.equal("old\nold still\nnew\n", result.out)
    end)
  end)

  describe("puts modules inside:", function()
    it("those that the script requires, and those that these require, where the script finds them", function()
      run "mkdir -p lib"
      write {
        ["main.lua"] = 'package.path = arg[0]:gsub("[^/]*$", "") .. "lib/?.lua;" .. package.path\n'
          .. 'print((require"first"), (select(2, pcall(require, "third"))))',
        ["lib/first.lua"] = "\xEF\xBB\xBFlocal second = require('second') return second.name",
        ["lib/second.lua"] = "-- require 'comment'\nreturn { name = ... }",
        ["lib/third.lua"] = "return 3",
      }
      assert.matches(", with main.lua, 3 Lua modules %(first, second, third%)\n", build())
      run "rm -r lib main.lua; mkdir elsewhere; mv app elsewhere"
      assert.equal("second\t3\n", run("cd elsewhere && ./app").out)
    end)

    it("further ones with --include", function()
      write { ["main.lua"] = "print(require('plug' .. 'in'))", ["plugin.lua"] = "return 'plugged', ..." }
      build "main.lua -o app --include plugin"
      run "rm plugin.lua"
      assert.equal("plugged\t:preload:\n", run("./app").out)
    end)

    it("and says which ones a plain require does not find", function()
      write { ["main.lua"] = "if false then require 'nowhere' end\npcall(require, 'perhaps')" }
      local printed = build()
      assert.matches("\nnot inside: the module nowhere, which main.lua:1 requires: it was not found\n", printed)
      assert.is_nil(printed:find "perhaps")
    end)

    it("for threads, too", function()
      write {
        ["main.lua"] = [[
          local rn = require "runnel"
          local pool <close> = rn.threads(2, "job")
          for v in rn.pmap(4, pool, { 1, 2, 3 }) do io.write(v, " ") end
          print(rn.thread(function(path) return require("job")(4) + #require("runnel").file(path) end, "a.txt"):take())
        ]],
        ["job.lua"] = "local helper = require 'helper' return function(v) return helper(v) end",
        ["helper.lua"] = "return function(v) return 2 * v end",
        ["a.txt"] = "12345",
      }
      build "main.lua -o app --file a.txt"
      run "rm *.lua *.txt"
      assert.equal("2 4 6 13\n", run("./app").out)
    end)
  end)

  it("puts files inside, which rn.file reads: by path, by pattern, and all of a folder", function()
    run "mkdir -p www/sub 'www/[x]'"
    write { ["www/a.txt"] = "a\0b", ["www/sub/b.txt"] = "", ["www/[x]/c.txt"] = "c", ["d.txt"] = "d", ["d.md"] = "d",
      ["main.lua"] = [[
        local rn = require "runnel"
        print(#rn.file "./www/a.txt", rn.file "www/sub/b.txt", rn.file "www/[x]/c.txt", (rn.file "d.txt"))
        print(rn.file "d.md" or select(2, rn.file "d.md"))
      ]] }
    assert.equal("3\t\tc\td\nd\n", run(runnel .. " main.lua").out) -- without building
    assert.matches(", 4 files %(", build "main.lua --file www './*.txt' -o app")
    run "rm -r www *.txt *.md"
    assert.equal("3\t\tc\td\nd.md: it is not in this program; build it with --file d.md\n", run("./app").out)
  end)

  it("puts hidden files of a folder inside, too", function()
    run "mkdir -p www/.well-known/..deep"
    write { ["www/.well-known/security.txt"] = "s", ["www/.htaccess"] = "h", ["www/.well-known/..deep/...x"] = "x",
      ["main.lua"] = [[
        local rn = require "runnel"
        print(rn.file "www/.well-known/security.txt", rn.file "www/.htaccess", (rn.file "www/.well-known/..deep/...x"))
      ]] }
    run "ln -s nowhere 'www/.#lock' && ln -s /dev/null www/null"
    local printed = build "main.lua --file www/ -o app"
    assert.matches(", 3 files %(", printed)
    assert.matches("\nnot inside: www/null: it is neither a file nor a folder\n", printed)
    assert.matches("\nnot inside: www/%.#lock: the link leads nowhere\n", printed)
    run "rm -r www"
    assert.equal("s\th\tx\n", run("./app").out)
  end)

  it("follows links to other folders, but not to one that the link is in", function()
    run "mkdir -p www/a other"
    write { ["www/index.html"] = "i", ["other/b.txt"] = "b", ["main.lua"] = [[
      local rn = require "runnel"
      print(rn.file "www/index.html", rn.file "www/a/other/b.txt", (rn.file "www/second/b.txt"))
    ]] }
    run "ln -s . www/self && ln -s .. www/a/up && ln -s ../../other www/a/other && ln -s ../other www/second"
    run "ln -s ../www other/back"
    local printed = build "main.lua --file www -o app"
    assert.matches(", 3 files %(", printed)
    for _, link in ipairs { "self", "a/up", "a/other/back", "second/back" } do
      assert.is_truthy(printed:find(("\nnot inside: www/%s: the link leads to a folder that it is in\n"):format(link),
        1, true), printed)
    end
    run "rm -r www other"
    assert.equal("i\tb\tb\n", run("./app").out)
  end)

  it("takes the module that the script requires, where the path begins with a computed folder", function()
    local below = "project" .. dir.path
    run(("mkdir -p project/lib ./%s"):format(below))
    write { ["only.lua"] = "return 'not that of the path'", [below .. "/only.lua"] = "return 'below the script'",
      ["project/lib/own.lua"] = "return 'lib'", ["project/main.lua"] = ([[
        local folder = arg[0]:match "^(.*)/" or "."
        package.path = folder .. "%s/?.lua;" .. folder .. "/lib/?.lua;none/?.lua;" .. package.path
        print((require "only"), (require "own"))
      ]]):format(dir.path) }
    local expected = "below the script\tlib\n"
    assert.equal(expected, run(runnel .. " project/main.lua").out)
    build "project/main.lua -o program"
    run "rm -r project"
    assert.equal(expected, run("./program").out)
  end)

  it("writes over nothing that goes inside, by whatever path, but over an older program", function()
    run "mkdir -p data && ln -s data/real link"
    local texts = { ["main.lua"] = "require 'part'", ["part.lua"] = "", ["prog"] = "", ["data/real"] = "precious" }
    write(texts)
    run "ln -f part.lua part"
    for _, case in ipairs {
      { "./prog -o prog", "prog" }, { "prog -o ./prog", "./prog" }, { "main.lua -o ./part", "./part" },
      { "main.lua --file data -o ./data/real", "./data/real" }, { "main.lua --file link -o data/real", "data/real" },
    } do
      local result = run(runnel .. " build " .. case[1])
      assert.equal(("runnel build: %s goes into the program, and would be written over; give another one as -o FILE\n"
        .. "(runnel build --help lists the options)\n"):format(case[2]), result.err)
      assert.equal(2, result.status)
      for path, text in pairs(texts) do assert.equal(text, dir:read(path)) end
    end
    build "main.lua -o app"
    run(("cp '%s' own"):format(runnel))
    for _, arguments in ipairs { "main.lua -o own", "--relink app -o ./own" } do
      local result = run("./own build " .. arguments)
      assert.matches("^runnel build: [./]*own is this runnel, and would be written over;", result.err)
      assert.equal(2, result.status)
    end
    write { ["data/app.new"] = "new", ["data/app.new2"] = "newer" }
    build "main.lua --file data -o data/app"
    build "main.lua --file data -o data/app"
    assert.equal("app\napp.new\napp.new2\nreal\n", run("ls data").out)
    assert.same({ "new", "newer" }, { dir:read "data/app.new", dir:read "data/app.new2" })
    run "rm -r data link part own"
  end)

  describe("puts C modules inside,", function()
    local has_sqlite, has_luv = pcall(require, "runnel.sqlite.core"), pcall(require, "luv")

    it("and says which shared libraries they need", function()
      if not has_sqlite then return pending "libsqlite3 is not installed" end
      write { ["main.lua"] = [[
        local db = require("runnel.sqlite").open ":memory:"
        for row in db:query "select 6 * 7 as n" do print(row.n) end
      ]] }
      local printed = build()
      assert.matches(", 1 C module %(runnel%.sqlite%.core%)\n", printed)
      assert.matches("\nmust be on the other machine: libsqlite3%.so%.0, for runnel%.sqlite%.core\n", printed)
      assert.equal("42\n", run("./app").out)
    end)

    it("with --libraries these, too", function()
      if not has_sqlite then return pending "libsqlite3 is not installed" end
      if IS_INSTRUMENTED then return pending "with sanitizers a library has others loaded" end
      write { ["main.lua"] = [[
        local db = require("runnel.sqlite").open ":memory:"
        for line in io.lines "/proc/self/maps" do
          if line:find "sqlite" then return print(line:match "%s(/%S*)") end
        end
      ]] }
      local printed = build "main.lua -o app --libraries"
      assert.matches(", 1 shared library %(libsqlite3%.so%.0%)\n", printed)
      assert.is_nil(printed:find "machine: libsqlite3")
      assert.matches("^/memfd:", run("./app").out)
    end)

    it("with --libraries from memory, however many files there are", function()
      if not has_sqlite then return pending "libsqlite3 is not installed" end
      if IS_INSTRUMENTED then return pending "with sanitizers a library has others loaded" end
      local files, options = {}, {}
      for i = 1, 600 do
        files["f" .. i], options[i] = "x", "--file f" .. i
      end
      files["main.lua"] = [[
        local db = require("runnel.sqlite").open ":memory:"
        for line in io.lines "/proc/self/maps" do
          if line:find "libsqlite3" then return print(line:match "%s(/%S*)") end
        end
      ]]
      write(files)
      build("main.lua -o app --libraries " .. table.concat(options, " "))
      assert.matches("^/memfd:libsqlite3", run("./app").out)
    end)

    it("for threads, too, and luv drives both", function()
      if not has_luv then return pending "luv is not installed" end
      write { ["main.lua"] = [[
        local uv, rn = require "runnel.uv", require "runnel"
        local function size(path)
          local size = 0
          for bytes in require("runnel.uv").read(path) do size = size + #bytes end
          return size
        end
        print(size "main.lua", rn.thread(size, "main.lua"):take())
      ]] }
      assert.matches("%(luv%)", build())
      local result = run "./app"
      assert.equal("", result.err)
      assert.matches("^(%d+)\t%1\n$", result.out)
    end)

    it("also where /proc is not mounted, from the folder for temporary files, of which it leaves nothing", function()
      if not has_luv then return pending "luv is not installed" end
      if IS_INSTRUMENTED then return pending "a sanitizer needs /proc" end
      local function within(mounts)
        return ("unshare -rm sh -c 'mount -t tmpfs none /proc%s && \"$@\"' sh "):format(mounts)
      end
      local without_proc = within ""
      if run(without_proc .. "true").status ~= 0 then return pending "no mounts here" end
      write { ["main.lua"] = "print(type(require('luv').version()))" }
      build()
      run "rm -rf tmp; mkdir tmp"
      local result = run("TMPDIR=tmp " .. without_proc .. "./app")
      assert.same({ "", "number\n" }, { result.err, result.out })
      assert.equal("", run("ls -A tmp").out)
      local full = within " && mount -t tmpfs -o size=4k none tmp"
      for _, command in ipairs { "TMPDIR=none " .. without_proc .. "./app",
        "TMPDIR=tmp " .. full .. "sh -c './app && exit; status=$?; ls -A tmp; exit $status'" } do
        result = run(command)
        assert.same({ "", 1 }, { result.out, result.status })
        assert.matches("cannot load 'luv', which is in this program: "
          .. "it needs /proc, or a folder for temporary files %(TMPDIR%)\n", result.err)
      end
    end)

    it("once, if several are in the same file", function()
      if not pcall(require, "_cqueues.errno") then return pending "cqueues is not installed" end
      write { ["main.lua"] = [[
        require "_cqueues" require "_cqueues.errno"
        local seen, count = {}, 0
        for line in io.lines "/proc/self/maps" do
          local inode = line:match "(%d+) +/memfd:"
          if inode and not seen[inode] then seen[inode], count = true, count + 1 end
        end
        print(count)
      ]] }
      assert.matches("2 C modules", build())
      assert.equal("1\n", run("./app").out)
    end)

    it("whichever part of runnel may load them", function()
      local text = pages.read "lua/runnel/host/build_parts.lua"
      local names = 0
      for name in output_of([[grep -rhoE '(need\(|internal\.require )"[a-z.]+"' lua]]):gmatch '"([%l.]+)"' do
        assert.is_truthy(text:find(('"%s"'):format(name), 1, true), name .. " is not in LOADED_LATE")
        names = names + 1
      end
      assert.is_true(names >= 12)
    end)
  end)

  it("gives the program the options that it is built with, before its own arguments", function()
    write { ["main.lua"] = "print(...)" }
    build "main.lua -o app --trace --profile --version='main 1.2'"
    assert.equal("main 1.2\n", run("./app --version").out)
    assert.equal("a\t--trace=x\n", run("./app --trace=out.json --profile=out.html a --trace=x").out)
    assert.matches("traceEvents", dir:read "out.json")
    assert.matches("^<!DOCTYPE html>", dir:read "out.html")
    assert.equal("--monitor\n", run("./app --monitor").out)
    local wrong = run "./app --trace"
    assert.equal("./app: '--trace' needs the path of a file, as in --trace=out.json\n", wrong.err)
    assert.equal(2, wrong.status)
  end)

  it("writes the same bytes each time", function()
    write { ["main.lua"] = "require 'one' require 'two'", ["one.lua"] = "", ["two.lua"] = "" }
    run "mkdir -p many; touch many/c many/a many/b"
    local arguments = "main.lua --trace --monitor --profile --version 1 --file many -o "
    build(arguments .. "app")
    for i = 1, 4 do
      build(arguments .. i)
      assert.equal("", run("cmp app " .. i).out)
    end
  end)

  it("gives it the monitor", function()
    if not pcall(require, "runnel.http.core") then return pending "the monitor is not there" end
    write { ["main.lua"] = "print(...)" }
    assert.matches("runnel%.monitor%.core", build "main.lua -o app --monitor")
    local result = run "./app --monitor a"
    assert.matches("^monitor: http://127%.0%.0%.1:%d+/", result.err)
    assert.equal("a\n", result.out)
  end)

  it("lists what is in a program", function()
    write { ["main.lua"] = "require 'one'", ["one.lua"] = "", ["a.txt"] = "12345" }
    build "main.lua -o app --file a.txt --version 'main 1'"
    assert.matches("^script +main%.lua +13 bytes\nLua module +one +0 bytes\nfile +a%.txt +5 bytes\n"
      .. "option +%-%-version\nversion +main 1\n$", build "--list app")
  end)

  it("puts another runnel into a program that was built", function()
    write { ["main.lua"] = "print(require 'one', ...)", ["one.lua"] = "return 1" }
    build "main.lua -o app --trace"
    run "rm main.lua one.lua"
    assert.matches("^new: %d[^\n]*, with what is in app\n$", build "--relink app -o new")
    assert.equal("1\ta\n", run("./new --trace=out.json a").out)
    assert.equal("", run("cmp app new").out) -- it is the same runnel
    run "head -c -1 app >cut"
    for arguments, message in pairs {
      ["cut -o new"] = "cut: it is damaged",
      ["nope -o new"] = "nope: No such file",
      ["app"] = "which file is to be written%?",
      ["app main.lua -o new"] = "%-%-relink takes no script, and no option but %-o",
      ["app -o new --trace"] = "%-%-relink takes no script, and no option but %-o",
    } do
      assert.matches("^runnel build: " .. message, run(("%s build --relink %s"):format(runnel, arguments)).err)
    end
  end)

  describe("makes a program that finds damage when it starts:", function()
    local size
    before_each(function()
      write { ["main.lua"] = "print 'runs'" }
      build()
      size = tonumber(output_of(("stat -c %%s '%s/app'"):format(dir.path)))
    end)

    -- Each case has a shell command that makes the file damaged.
    for name, case in pairs {
      ["a changed byte"] = { "cp app damaged; printf '\\377' | dd of=damaged bs=1 seek=%d conv=notrunc",
        "another checksum" },
      ["a missing end"] = { "head -c %d app >damaged; chmod +x damaged", "its end is missing" },
    } do
      it(name, function()
        for before = 1, 100, 33 do
          run(case[1]:format(size - before))
          local result = run "./damaged"
          assert.equal("", result.out)
          assert.matches("^%./damaged: this program is damaged: .*" .. case[2], result.err)
          assert.equal(1, result.status)
        end
      end)
    end
  end)

  describe("in a root with nothing but the C library", function()
    local root

    -- Copies a file and the libraries that the executable itself needs, and runs it there.
    local function run_in_root(arguments)
      local copies = output_of(("ldd '%s/app'"):format(dir.path))
      run "rm -rf root; mkdir -p root/tmp; cp app root/"
      for path in copies:gmatch "/%S+" do
        run(("mkdir -p root$(dirname %s); cp -L %s root%s"):format(path, path, path))
      end
      return run(("env -u TMPDIR chroot '%s' /app %s"):format(root, arguments))
    end

    before_each(function() root = dir.path .. "/root" end)

    local reason = output_of "id -u" ~= "0" and "chroot needs root"
      or IS_INSTRUMENTED and "a sanitizer needs /proc"

    it("runs a program of channels and threads", function()
      if reason then return pending(reason) end
      write { ["main.lua"] = [[
        local rn = require "runnel"
        print(rn.thread(function(text) return text .. " from a thread" end, ...):take())
      ]] }
      build()
      local result = run_in_root "hello"
      assert.equal("", result.err)
      assert.equal("hello from a thread\n", result.out)
    end)

    it("runs examples/ingest.lua, with its shared libraries inside", function()
      if reason then return pending(reason) end
      if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
      run(("cp '%s/examples/ingest.lua' main.lua"):format(output_of "pwd"))
      build "main.lua -o app --libraries"
      run_in_root ""
      dir:write("root/day.csv", "rain,3\nwind,9\n")
      local result = run(("env -u TMPDIR chroot '%s' /app weather.db day.csv"):format(root))
      assert.equal("day.csv: 2 rows, 0 lines skipped\n", result.err)
      assert.matches("^rain +3\nwind +9\n$", result.out)
    end)

    it("says which shared library is missing", function()
      if reason then return pending(reason) end
      if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
      write { ["main.lua"] = "require 'runnel.sqlite'" }
      build()
      assert.matches("cannot load 'runnel%.sqlite%.core', which is in this program: libsqlite3%.so%.0: cannot open",
        run_in_root("").err)
    end)
  end)

  describe("refuses", function()
    for _, case in ipairs {
      { "no script", "", "which script?", 2 },
      { "two scripts", "main.lua a.lua", "one script only: main%.lua or a%.lua%?", 2 },
      { "an unknown option", "main.lua --static", "unrecognized option '%-%-static'", 2 },
      { "an option without its argument", "main.lua --include", "'%-%-include' needs an argument", 2 },
      { "a value for an option that has none", "main.lua --trace=x", "unrecognized option '%-%-trace=x'", 2 },
      { "a script that is not there", "nope.lua", "nope%.lua: No such file", 1 },
      { "a script with a mistake", "wrong.lua", "wrong%.lua:1: unexpected symbol", 1 },
      { "a module with a mistake", "needs.lua", "wrong%.lua:1: unexpected symbol", 1 },
      { "a module that is not there", "main.lua --include nope", "%-%-include: the module nope was not found", 1 },
      { "a file that is not there", "main.lua --file nope", "%-%-file: there is no nope", 1 },
      { "to write over the script", "script", "which file is to be written%?", 2 },
      { "to write over a script", "main.lua -o main.lua", "main%.lua would be written over", 2 },
      { "to write a folder", "main.lua -o .", "%. is no file", 2 },
      { "a folder that is not there", "main.lua -o nope/app", "nope/app cannot be written: .*No such file", 1 },
      { "to list another file", "--list main.lua", "main%.lua: it was not made by runnel build", 1 },
      { "to list runnel", "--list " .. runnel, ".*: it is runnel, without a program", 1 },
    } do
      it(case[1], function()
        write { ["main.lua"] = "", ["a.lua"] = "", ["script"] = "", ["wrong.lua"] = "= 1",
          ["needs.lua"] = "require 'wrong'" }
        run "rm -f app main"
        local result = run(("%s build %s"):format(runnel, case[2]))
        assert.equal("", result.out)
        assert.matches("^runnel build: " .. case[3] .. "[^\n]*\n", result.err)
        assert.equal(case[4], result.status)
        assert.equal("", run("ls -d app main *.new 2>/dev/null").out)
      end)
    end
  end)

  it("shows its options", function()
    assert.matches("^usage: runnel build SCRIPT %[OPTIONS%]\n", build "--help")
  end)
end)
