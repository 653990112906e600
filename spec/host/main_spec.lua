local lfs = require "lfs"
local process = require "spec.support.process"

local runnel = process.runnel

-- What follows the line that says which option is wrong.
local REST <const> = "\n%(%S+ %-%-help lists the options%)\n"

describe("runnel, the executable", function()
  local dir
  setup(function() dir = process.directory() end)
  teardown(function() dir:remove() end)

  -- Runs the executable in the directory.
  local function run(arguments, input) return process.run(dir.path, runnel .. " " .. arguments, input) end

  -- Runs a script.
  local function script(text, arguments, options)
    dir:write("script.lua", text)
    return run(("%s script.lua %s"):format(options or "", arguments or ""))
  end

  it("has its modules as bytecode, which debug describes as it does their sources", function()
    local binary <close> = assert(io.open(runnel:match "^[^ ]+$", "rb"))
    local image = binary:read "a"
    if not image:find("\27Lua", 1, true) then return pending "Lua is not linked into the executable" end
    assert.is_nil(image:find("---JSON (RFC 8259), strictly.", 1, true))
    local text = [[
      for _, name in ipairs { "json", "flow", "rn.pmap", "internal.check", "workers.workers", "core_async" } do
        for key, f in pairs(require("runnel." .. name)) do
          if type(f) == "function" and debug.getinfo(f, "S").what == "Lua" then
            local of, lines = debug.getinfo(f, "SL"), {}
            for line in pairs(of.activelines) do lines[#lines + 1] = line end
            table.sort(lines)
            print(name, key, of.linedefined, table.concat(lines, " "), debug.getlocal(f, 1), debug.getupvalue(f, 1))
          end
        end
      end
      print(select(2, pcall(require("runnel.json").encode, {}, { pretty = true })))
      print(select(2, xpcall(require("runnel.flow").new, debug.traceback, print)))]]
    local function described(program)
      dir:write("describe.lua", text)
      local lines = {}
      local out = process.run(dir.path, program .. " describe.lua").out
      for line in out:gsub("function: builtin: %w+", ""):gsub("0x%x+", ""):gmatch "[^\n]+" do
        if not line:find "^%s+%[C%]" then lines[#lines + 1] = line:gsub("[^ \t]*/lua/runnel/", "runnel/") end
      end
      table.sort(lines)
      return lines
    end
    local here = described(runnel)
    assert.is_true(#here > 20, #here)
    assert.same(described(os.getenv "LUA" or "lua5.4"), here)
  end)

  it("does not take a program called runnel.lua, or in a folder runnel, for a module of the library", function()
    local own <close> = process.directory()
    assert.is_true(lfs.mkdir(own.path .. "/runnel"))
    for _, name in ipairs { "runnel.lua", "runnel/job.lua" } do
      own:write(name, "local rn = require 'runnel'\nprint(pcall(function() rn.pmap(0) end))")
      assert.matches("^false\t" .. name .. ":2: pmap: n: ", process.run(own.path, runnel .. " " .. name).out)
    end
  end)

  describe("takes the arguments of lua5.4:", function()
    it("a script with its arguments, and the table arg", function()
      local result = script([[
        print(...)
        print(#arg, arg[0], arg[1], arg[2], arg[-1]:match "runnel$")
      ]], "one 'two words'")
      assert.equal("one\ttwo words\n2\tscript.lua\tone\ttwo words\trunnel\n", result.out)
      assert.equal("", result.err)
      assert.equal(0, result.status)
    end)

    it("any number of -e, also before a script", function()
      assert.equal("1\n2\n", run([[-e 'x = 1 print(x)' -e'print(x + 1)']]).out)
      dir:write("x.lua", "print(x, ...)")
      assert.equal("5\ta\n", run([[-e 'x = 5' x.lua a]]).out)
    end)

    it("-l mod and -l g=mod", function()
      dir:write("mod.lua", "return { name = ... }")
      assert.equal("mod\n", run([[-l mod -e 'print(mod.name)']]).out)
      assert.equal("mod\n", run([[-lg=mod -e 'print(g.name, mod)']]).out:gsub("\tnil", ""))
      assert.equal("runnel\n", run([[-l rn=runnel -e 'rn.go(function() print "runnel" end)']]).out)
    end)

    it("-v", function()
      local lua = _VERSION:gsub("%.", "%%.")
      assert.matches("^runnel %d+%.%d+%.%d+%S* on " .. lua .. "%.%d+  Copyright", run("-v").out)
    end)

    it("-i, where nothing reads or sets a global that is not declared", function()
      dir:write("strict.lua", [[
        setmetatable(_G, {
          __index = function(_, name) error("no global " .. name, 2) end,
          __newindex = function(t, name, value)
            if debug.getinfo(2, "S").what ~= "main" then error("no new global " .. name, 2) end
            rawset(t, name, value)
          end,
        })
      ]])
      for _, first in ipairs { "", "require 'strict'\n" } do
        local input = first .. "rn.chan(1)\nnope\nlocal n = 41\nn + 1\nfresh = 'new'\nfresh\n"
        local result = process.run(dir.path, runnel .. " -i " .. (first == "" and "strict.lua" or ""), input)
        assert.matches("> chan: #%d+ %(0/1%)\n", result.out)
        assert.matches("> 42\n", result.out)
        assert.matches('> "new"\n', result.out)
        assert.matches("^%[%d%]:1: no global nope\n", result.err)
        assert.equal(0, result.status)
      end
    end)

    it("-W", function()
      assert.equal("", run([[-e 'warn "beware"']]).err)
      assert.equal("Lua warning: beware\n", run([[-W -e 'warn "beware"']]).err)
    end)

    it("-E, and ignores the environment", function()
      local variables = "LUA_INIT='print \"init\"' LUA_PATH='/nowhere/?.lua' "
      local function path(option)
        return process.run(dir.path, variables .. runnel .. option .. " -e 'print(package.path)'").out
      end
      assert.equal("init\n/nowhere/?.lua\n", path "")
      assert.matches("^[^\n]*%./%?%.lua[^\n]*\n$", path " -E")
    end)

    it("LUA_INIT with a chunk or @file", function()
      dir:write("init.lua", "y = 7")
      local file = process.run(dir.path, "LUA_INIT=@init.lua " .. runnel .. " -e 'print(y)'")
      assert.equal("7\n", file.out)
      local bad = process.run(dir.path, "LUA_INIT='error \"no\"' " .. runnel .. " -e 'print(y)'")
      assert.matches("LUA_INIT:1: no\n", bad.err)
      assert.equal("", bad.out)
      assert.equal(1, bad.status)
    end)

    it("LUA_INIT_5_4 of Lua 5.4, rather than LUA_INIT", function()
      local name = "LUA_INIT_" .. _VERSION:match "%d.%d":gsub("%.", "_")
      local result = process.run(dir.path, ("LUA_INIT='print(1)' %s='print(2)' %s -e 'print(3)'"):format(name, runnel))
      assert.equal("2\n3\n", result.out)
      local bad = process.run(dir.path, ("%s=@nope.lua %s -e 'print(3)'"):format(name, runnel))
      assert.matches("cannot open nope.lua", bad.err)
      assert.equal(1, bad.status)
    end)

    it("-h and --help", function()
      assert.matches("^usage: [^\n]*runnel %[options%] %[script %[args%]%]\n", run("-h").out)
      assert.equal(run("-h").out, run("--help").out)
      assert.equal(0, run("--help").status)
    end)

    it("--version, and does nothing else", function()
      local result = run("--version -e 'print(1)' nope.lua")
      assert.matches("^runnel %d+%.%d+%.%d+ on Lua 5%.%d[^\n]*\n$", result.out)
      assert.equal("", result.err)
      assert.equal(0, result.status)
    end)

    it("-, and a pipe", function()
      assert.equal("a\n", run("- a", "print(...)").out)
      local result = run("", "print(1)\n1 + 1\n")
      assert.matches("stdin:2: ", result.err)
      assert.equal("", result.out) -- the whole input is compiled first
      assert.equal(1, result.status)
    end)

    it("--, which ends the options", function()
      dir:write("-e", "print 'a file'")
      assert.equal("a file\n", run("-- -e").out)
    end)
  end)

  describe("reports errors as lua5.4 does:", function()
    for _, case in ipairs {
      { "a script that does not exist", "nope.lua", "cannot open nope.lua: No such file or directory\n$" },
      { "a script whose name is like a command", "biuld x.lua",
        "cannot open biuld: No such file or directory; did you mean 'runnel build'%?\n$" },
      { "an option that is like another one", "--montior x.lua",
        "unrecognized option '%-%-montior'; did you mean '%-%-monitor'%?\n%(%S+ %-%-help lists the options%)\n$" },
      { "a misspelt module", "-e 'require \"runnel.htpp\"'",
        "[^\n]*'runnel.htpp' not found:.*did you mean runnel.http%?\nstack traceback:" },
      { "a module that is misspelt in its first word", "-e 'require \"runel.sqlite\"'",
        "[^\n]*'runel.sqlite' not found:.*did you mean runnel.sqlite%?\nstack traceback:" },
      { "a directory", "/", _VERSION == "Lua 5.4" and "cannot read /: Is a directory\n$" or "cannot read /\n$" },
      { "an option that there is not", "-x", "unrecognized option '%-x'" .. REST },
      { "another", "--simulate", "unrecognized option '%-%-simulate'" .. REST },
      { "letters too many", "-vi", "unrecognized option '%-vi'" .. REST },
      { "an option without its argument", "-e", "'%-e' needs argument" .. REST },
      { "a seed that is none", "--seed x", "'%-%-seed' needs an integer from %-2^63 to 2^63 %- 1" .. REST },
      { "a seed that is missing", "--seed", "'%-%-seed' needs an integer from %-2^63 to 2^63 %- 1" .. REST },
      { "a seed with more behind it", "--seed=3x", "'%-%-seed' needs an integer from %-2^63 to 2^63 %- 1" .. REST },
      { "a seed that is empty", "--seed=", "'%-%-seed' needs an integer from %-2^63 to 2^63 %- 1" .. REST },
      { "a seed of more than 64 bits", "--seed 9223372036854775808",
        "'%-%-seed' needs an integer from %-2^63 to 2^63 %- 1" .. REST },
      { "a negative seed of more than 64 bits", "--seed=-9223372036854775809",
        "'%-%-seed' needs an integer from %-2^63 to 2^63 %- 1" .. REST },
      { "no records", "--trace=out.json --trace-records=0",
        "'%-%-trace%-records' needs an integer from 256 to 16777216" .. REST },
      { "too few records", "--trace-records=255",
        "'%-%-trace%-records' needs an integer from 256 to 16777216" .. REST },
      { "too many records", "--trace-records 16777217",
        "'%-%-trace%-records' needs an integer from 256 to 16777216" .. REST },
      { "more records than 64 bits can say", "--trace-records=9223372036854775808",
        "'%-%-trace%-records' needs an integer from 256 to 16777216" .. REST },
      { "a trace without a file", "--trace script.lua", "'%-%-trace' needs the path of a file, as in [^\n]*" .. REST },
      { "a trace to a file without a name", "--trace=", "'%-%-trace' needs the path of a file, as in [^\n]*" .. REST },
      { "a trace that would replace a script", "--trace=script.lua",
        "'%-%-trace' does not write over a Lua file: [^\n]*" .. REST },
      { "a number of records that is missing", "--trace-records",
        "'%-%-trace%-records' needs an integer from 256 to 16777216" .. REST },
      { "a number of records that is none", "--trace-records=x",
        "'%-%-trace%-records' needs an integer from 256 to 16777216" .. REST },
      { "a number of records with more behind it", "--trace-records=5k",
        "'%-%-trace%-records' needs an integer from 256 to 16777216" .. REST },
      { "a mode of errors that is missing", "--errors", "'%-%-errors' needs one of error and warn" .. REST },
      { "records without a trace", "--trace-records=500 -e 'x = 1'",
        "'%-%-trace%-records' needs %-%-trace, as in %-%-trace=out.json" .. REST },
      { "one file for two things", "--trace=out.json --profile=out.json -e 'x = 1'",
        "'%-%-profile' needs another file than %-%-trace" .. REST },
      { "what is done about a deadlock that is not looked for", "--deadlock=error --no-drain -e 'x = 1'",
        "'%-%-deadlock' has no effect with %-%-no%-drain, nor with test: they do not wait for go blocks" .. REST },
      { "a simulated prompt", "--sim -i", "'%-%-sim' needs a script: the prompt runs in real time" .. REST },
      { "a mode that is missing", "--deadlock", "'%-%-deadlock' needs one of error, warn and ignore" .. REST },
      { "a port that is empty", "--monitor=", "'%-%-monitor' needs a port from 0 to 65535, as in [^\n]*" .. REST },
      { "a port with more behind it", "--monitor=80x", "'%-%-monitor' needs a port from 0 to 65535, [^\n]*" .. REST },
      { "a port below 0", "--monitor=-1", "'%-%-monitor' needs a port from 0 to 65535, as in [^\n]*" .. REST },
      { "a port above 65535", "--monitor=65536", "'%-%-monitor' needs a port from 0 to 65535, [^\n]*" .. REST },
      { "a port that is a word of its own", "--monitor 8080 x.lua",
        "'%-%-monitor' takes its port after a '=', as in %-%-monitor=8080" .. REST },
      { "no arguments for a script", "-e 'arg = nil' - </dev/null", "'arg' is not a table\n" },
      { "a __tostring that gives no string", [[-e 'error(setmetatable({}, { __tostring = function() return 1 end }))']],
        "%(error object is a table value%)\nstack traceback:" },
      { "an error that is a table", "-e 'error { message = \"no host\", code = 7 }'",
        "no host %(code = 7%)\nstack traceback:" },
      { "an error that is a table in a simulation", "--sim -e 'error { code = 7 }'", "{ code = 7 }\nstack traceback:" },
      { "an error in a simulation", [[--sim --seed 3 --no-drain -e 'error "oops"']], "%(command line%):1: oops\n" },
      { "a library that raises", "-l g=nope.lua", "module 'nope.lua' not found:" },
      { "a mode of errors that is none", "--errors=ignore", "'%-%-errors' needs one of error and warn" .. REST },
      { "a mode that is none", "--deadlock=maybe", "'%-%-deadlock' needs one of error, warn and ignore" .. REST },
      { "a module that does not exist", "-l nope", "module 'nope' not found:" },
      { "a C module beside the executable that is none", ([[-v >/dev/null && mkdir bin runnel && cp %s bin &&
        echo none >runnel/odd.so && LUA_CPATH='/none/?.so' bin/runnel -e 'require "runnel.odd"']]):format(runnel),
        "error loading module 'runnel.odd' from file '[^']*/bin/../runnel/odd.so':\n" },
      { "a chunk that does not compile", "-e 1+1", "%(command line%):1: unexpected symbol near '1'\n$" },
      { "an error", "-e 'error \"oops\"'", "%(command line%):1: oops\nstack traceback:\n\t%[C%]: in %l+ 'error'" },
      { "the error nil", "-e 'error()'", "%(error object is a nil value%)\nstack traceback:" },
      { "a table as an error", "-e 'error {}'", "%(error object is a table value%)\nstack traceback:" },
      { "an error with __tostring",
        [[-e 'error(setmetatable({}, { __tostring = function() return "mine" end }))']], "mine\n$" },
      { "standard input that is closed", "- <&-", "cannot read stdin" },
      { "the same without -", "<&-", "cannot read stdin" },
    } do
      it(case[1], function()
        local result = run(case[2])
        assert.matches("^[^\n]*runnel: " .. case[3], result.err)
        assert.equal("", result.out)
        assert.equal(case[3]:find("%-%-help lists", 1, true) and 2 or 1, result.status)
      end)
    end

    it("a script that does not compile", function()
      local result = script "x = = 1"
      assert.matches("runnel: script.lua:1: unexpected symbol near '='\n$", result.err)
      assert.equal(1, result.status)
    end)

    it("the exit status that a script chooses", function()
      assert.equal(3, run([[-e 'os.exit(3)']]).status)
      assert.equal(0, run([[-e 'os.exit(true)']]).status)
      assert.equal(1, run([[-e 'os.exit(false)']]).status)
    end)
  end)

  it("runs a script that begins with #!", function()
    dir:write("tool", ("#!%s\nprint(arg[0]:match '[^/]*$', ...)\n"):format(runnel))
    assert.equal("tool\tx\n", process.run(dir.path, "chmod +x tool && ./tool x").out)
  end)

  it("is one file that needs no Lua module and no path", function()
    local result = process.run(dir.path, ("cp %s moved && cd / && env -i %s/moved -e '%s'"):format(runnel, dir.path,
      [[local rn = require "runnel"
        print(rn.go(function() return require("runnel.core_async").chan and rn.xf.map and "here" end):take())]]))
    assert.equal("", result.err)
    assert.equal("here\n", result.out)
  end)

  it("continues after the end of the script until nothing is ready and no timer or event can come", function()
    local text = [[
      local rn = require "runnel"
      rn.go(function() rn.sleep(20) print "late" end)
      print "end"
    ]]
    assert.same({ out = "end\nlate\n", err = "", status = 0 }, script(text))
    assert.same({ out = "end\n", err = "", status = 0 }, script(text, "", "--no-drain"))
  end)

  it("ends at rn.exit, with its status", function()
    local text = [[
      local rn = require "runnel"
      setmetatable({}, { __gc = function() print "finalized" end })
      rn.go(function() rn.exit(7) end)
      rn.sleep(1000)
      print "never"
    ]]
    assert.same({ out = "finalized\n", err = "", status = 7 }, script(text))
    assert.equal(0, script("require('runnel').exit()").status)
    assert.equal(1, script("require('runnel').exit(false)").status)
    assert.matches("script.lua:1: exit: an integer or a boolean expected, got x\n",
      script("require('runnel').exit('x')").err)
  end)

  it("continues after an error in a go block", function()
    local result = script [[
      local rn = require "runnel"
      rn.go(function() error "oops" end)
      rn.go(function() print "fine" end)
    ]]
    assert.equal("fine\n", result.out)
    assert.matches("^runnel: error in script.lua:2: script.lua:2: oops\nstack traceback:", result.err)
    assert.equal(1, result.status)
  end)

  it("finds the C modules beside it, also in threads", function()
    dir:write("script.lua", [[
      local function probe() return select(2, pcall(require, "runnel.probe")) end
      print(probe())
      print(require "runnel".thread(probe):take())
    ]])
    local result = process.run(dir.path, ([[
      mkdir -p tree/bin tree/runnel && cp %s tree/bin && echo none >tree/runnel/probe.so
      LUA_CPATH='/none/?.so' tree/bin/runnel script.lua]]):format(runnel))
    assert.same({ "", 0 }, { result.err, result.status })
    local found = "error loading module 'runnel.probe' from file '[^']*/tree/bin/../runnel/probe.so':\n[^\n]*\n"
    assert.matches("^" .. found .. found .. "$", result.out)
  end)

  it("shows the traceback of a thread with an error that has come from a pool", function()
    local result = script [[
      local pool <close> = require "runnel".threads(1, function(v)
        error(v)
      end)
      pool "oops"
    ]]
    assert.equal(1, result.status)
    assert.matches("script.lua:2: oops\nstack traceback:\n.*\tscript.lua:4: in main chunk\n.*\n"
      .. "in threads script.lua:1, stack traceback:\n\t%[C%]: in %l+ 'error'\n\tscript.lua:2: in ", result.err)
  end)

  it("shows the error of a thread once, and its traceback", function()
    local result = script [[
      require "runnel".thread(function() error "oops" end)
    ]]
    assert.equal(1, result.status)
    assert.matches("^runnel: error in thread script.lua:1: script.lua:1: oops\nstack traceback:\n", result.err)
  end)

  it("waits no longer for a key than it is to, although a go block runs for longer than that", function()
    dir:write("script.lua", [[
      local rn = require "runnel"
      rn.go(function()
        local before = rn.now()
        repeat until rn.now() - before > 50
      end)
      print(require "runnel.host.terminal".key(10))
    ]])
    local result = process.run(dir.path, ("mkfifo in && exec 3<>in && %s script.lua <&3"):format(runnel))
    assert.same({ out = "nil\n", err = "", status = 0 }, result)
  end)

  describe("with an unhandled error", function()
    local text = [[
      local rn = require "runnel"
      local result = rn.go(error, "lost")
      rn.yield()
    ]]

    it("fails, unless with --errors=warn", function()
      assert.equal(1, script(text).status)
      assert.equal(1, script(text, "", "--errors=error").status)
      local result = script(text, "", "--errors=warn")
      assert.equal(0, result.status)
      assert.matches("^runnel: error in [^\n]*: lost\n", result.err)
    end)

    it("fails in virtual time, without draining, and with rn.exit", function()
      assert.equal(1, script(text, "", "--sim").status)
      assert.equal(1, script(text, "", "--no-drain").status)
      assert.equal(1, script(text .. "rn.exit()").status)
      assert.equal(0, script(text .. "rn.exit()", "", "--errors warn").status)
    end)

    it("reports it even if it ends by os.exit, whose status stands", function()
      for _, how in ipairs { "os.exit(3)", "os.exit(3, true)", "rn.exit(3)" } do
        local result = script(text .. how)
        assert.equal(3, result.status)
        assert.matches("^runnel: error in [^\n]*: lost\n", result.err)
        result = script(("%s require('runnel.sim').run(function() %s end)"):format(text, how))
        assert.equal(3, result.status)
        assert.matches("^runnel: error in [^\n]*: lost\n", result.err)
      end
    end)

    it("makes os.exit without a status exit with 1", function()
      for _, how in ipairs { "os.exit()", "os.exit(nil, true)" } do
        assert.equal(1, script(text .. how).status)
        assert.equal(0, script(text .. how, "", "--errors=warn").status)
        assert.equal(0, script(how).status)
      end
      assert.equal(1, script [[
        local rn = require "runnel"
        rn.thread(function() require "runnel".go(error, "lost") return 1 end):take()
        os.exit()
      ]].status)
      assert.equal(0, script(text .. "os.exit(true)").status)
    end)

    it("succeeds if the script has a handler, or takes the error", function()
      assert.same({ out = "lost\n", err = "", status = 0 }, script(text .. "rn.on_error(function(err) "
        .. "print(err) end)"))
      assert.same({ out = "nil\tlost\n", err = "", status = 0 }, script(text .. "print(result:take())"))
    end)

    it("reports it before it says why the script failed", function()
      local result = script(text .. "error 'script'")
      assert.matches("^runnel: error in [^\n]*: lost\n.*script.lua:4: script", result.err)
      assert.equal(1, result.status)
    end)
  end)

  describe("with go blocks that are parked for ever", function()
    local text = [[
      local rn = require "runnel"
      local jobs = rn.chan():name "jobs"
      for _ = 1, 7 do
        rn.go(function() rn.rename "worker" jobs:take() end)
      end
    ]]

    it("warns", function()
      local result = script(text)
      assert.matches("^[^\n]*runnel: the script has ended, and 7 go blocks are parked for ever:\n"
        .. "  #%d+ %(worker%): take on chan: jobs at script.lua:4\n", result.err)
      assert.matches("\n  and 2 more\n$", result.err)
      assert.equal(0, result.status)
    end)

    it("is silent if only the library's are left, which nothing can reach any more", function()
      local result = script [[
        local rn = require "runnel"
        local t <close> = rn.rate(rn.to_chan(function() return true end), 10, 100)
        print(t:take())
        rn.mult(rn.chan()):tap(rn.chan())
        local ch = rn.to_chan(function() return 1 end)
        ch:take()
        rn.yield()
        ch:close()
      ]]
      assert.same({ out = "true\n", err = "", status = 0 }, result)
    end)

    it("but warns of what can still be reached, and of results that nobody has ever taken", function()
      local result = script [[
        local rn = require "runnel"
        events = rn.chan():name "events"
        rn.mult(events):tap(rn.chan())
        rn.pmap(1, function(v) return v end, { 1 })
      ]]
      assert.matches("ended, and 3 go blocks are parked for ever:\n[^\n]*mult[^\n]*take on chan: events", result.err)
      assert.matches("%(pmap at [^\n]*: put on chan: ", result.err)
    end)

    it("and of all, where the program has started one of them", function()
      local result = script [[
        local rn = require "runnel"
        local ch = rn.chan()
        rn.pipe(rn.chan(), ch)
        rn.go(function() rn.rename "reader" ch:take() end)
      ]]
      assert.matches("ended, and 2 go blocks are parked for ever:\n[^\n]*pipe[^\n]*\n[^\n]*reader", result.err)
    end)

    it("is silent about pools of threads without calls, and names the thread of a call that is left", function()
      local result = script([[
        local rn = require "runnel"
        local function same(v) return v end
        POOL = rn.threads(2, same)
        print(POOL(1))
        do rn.threads(1, same)(1) end
        print(pcall(rn.threads, 1, "not.there"))
        for v in rn.pmap(4, rn.threads(2, same), { 2, 3 }) do print(v) end
      ]], "", "--deadlock=error")
      assert.equal("", result.err)
      assert.matches("^1\nfalse\t[^\n]*threads: [^\0]*\n2\n3\n$", result.out)
      assert.equal(0, result.status)

      result = script [[
        local rn = require "runnel"
        local idle, pool = rn.threads(1, function() end), rn.threads(1, function(ch) return ch:take() end)
        local ch = rn.shared_chan()
        rn.go(function() pool(ch) end)
      ]]
      assert.matches("#%d+ %(threads script.lua:2%): waiting for [^\n]*take on chan: #%d+ at script.lua:2\n",
        result.err)
      assert.equal(1, select(2, result.err:gsub("threads script.lua:2%)", "")))
    end)

    it("fails with --deadlock=error, and is silent with --deadlock=ignore", function()
      local result = script(text, "", "--deadlock=error")
      assert.matches("7 go blocks are parked for ever", result.err)
      assert.equal(1, result.status)
      assert.same({ out = "", err = "", status = 0 }, script(text, "", "--deadlock ignore"))
    end)
  end)

  it("reports where the main thread would wait for ever", function()
    local result = script "require('runnel').chan():take()"
    assert.matches("runnel: script.lua:1: deadlock: take on chan: #%d+ would wait for ever", result.err)
    assert.equal(1, result.status)
  end)

  describe("when interrupted", function()
    -- The script's process gets the signal once it has said that it is ready, and, unless it computes, waits.
    local function interrupted(text, computes)
      dir:write("script.lua", text)
      return process.run(dir.path, ([[
        mkfifo ready
        %s script.lua >ready &
        pid=$!
        read line <ready
        %s
        kill -INT $pid
        wait $pid
        status=$?
        rm ready
        exit $status]]):format(runnel, process[computes and "until_it_computes" or "until_it_sleeps"] "$pid"))
    end

    it("reports where the main thread was, and the go blocks", function()
      local result = interrupted [[
        local rn = require "runnel"
        rn.go(function() rn.rename "worker" rn.chan():name "jobs":take() end)
        rn.go(function() rn.sleep(3600000) end)
        print "ready" io.stdout:flush()
        rn.chan():take()
      ]]
      assert.matches("^[^\n]*runnel: interrupted!\nstack traceback:\n\t%[C%]: in method 'take'\n\tscript.lua:5: "
        .. "in main chunk\n\t%[C%]: in %?\ngo blocks:\n  #%d+ %(worker%): take on chan: jobs at script.lua:2\n",
        result.err)
      assert.equal(130, result.status)
    end)

    it("ends at once also in a block with a pool of threads, whose jobs would take long", function()
      for _, job in ipairs { "require('runnel').sleep(3600000)", "repeat until false" } do
        local result = interrupted(([[
          local rn = require "runnel"
          local told = rn.shared_chan(1)
          local pool <close> = rn.threads(1, function(told) told:put(true) %s end)
          local results = rn.pmap(2, pool, { told, told })
          told:take()
          print "ready" io.stdout:flush()
          for _ in results do end
        ]]):format(job), job:find "repeat")
        assert.matches("^[^\n]*runnel: interrupted!\nstack traceback:\n[^\n]*\n\tscript.lua:7: in main chunk\n",
          result.err)
        assert.not_matches("error in", result.err)
        assert.equal(130, result.status)
      end
    end)

    it("says why there is no deadlock", function()
      local result = interrupted [[
        local rn = require "runnel"
        rn.go(function() rn.sleep(3600000) end)
        print "ready" io.stdout:flush()
        rn.chan():take()
      ]]
      assert.matches("\nno deadlock: a timer is due in [%d hmins]+\n$", result.err)
    end)

    it("names what keeps luv's loop running, and the lines that have made it", function()
      if not pcall(require, "luv") then return pending "luv is not installed" end
      local result = interrupted [[
        local rn = require "runnel"
        local uv = require "runnel.uv"
        local changes = rn.debounce(uv.watch "script.lua", 200) -- not ".", in which the pipe changes
        local conns, port = uv.listen("127.0.0.1", 0)
        local conn = uv.connect("127.0.0.1", port)
        local other = conns:take()
        local input, theirs = conn:read(), other:read()
        local lines = uv.follow "script.lua"
        local sleeps = uv.spawn { "sleep", "100", stdin = false, stderr = false }
        local typed = uv.lines(0)
        local signals = uv.signal "usr1"
        rn.go(function() for _ in lines do end end)
        rn.go(function() signals:take() end)
        rn.go(function() typed:take() end)
        rn.go(function() result = uv.run { "sleep", "100", stdin = "", timeout = 100000 } end)
        require "luv".new_timer():start(100000, 0, print)
        rn.sleep(200)
        io.stderr:write("port ", port, "\n")
        print "ready" io.stdout:flush()
        rn.chan():take()
      ]]
      local port = result.err:match "port (%d+)"
      local listed = {}
      for line in result.err:match "\nno deadlock: .*the driver may still have events:(\n.*)$":gmatch "\n  ([^\n]*)" do
        listed[line:gsub(" %(%d handles%)$", "")] = true
      end
      assert.same({
        ['uv.watch "script.lua" (made at script.lua:3)'] = true,
        [('uv.listen "127.0.0.1:%s" (made at script.lua:4)'):format(port)] = true,
        [('uv.connect "127.0.0.1:%s" (made at script.lua:5)'):format(port)] = true,
        [('a connection to uv.listen "127.0.0.1:%s" (made at script.lua:4)'):format(port)] = true,
        ['uv.follow "script.lua" (made at script.lua:8)'] = true,
        ['uv.spawn "sleep" (made at script.lua:9)'] = true,
        ['uv.signal "usr1" (made at script.lua:11)'] = true,
        ['uv.spawn "sleep" (made at script.lua:15)'] = true,
        ["a handle of luv: timer"] = true,
      }, listed)
    end)

    it("names a watch that alone keeps a script running after its end", function()
      if not pcall(require, "luv") then return pending "luv is not installed" end
      local result = interrupted [[
        local uv = require "runnel.uv"
        changes = uv.watch "."
        print "ready" io.stdout:flush()
      ]]
      assert.matches('\nno deadlock: the driver may still have events:\n  uv.watch "." %(made at script.lua:2%)\n$',
        result.err)
      assert.equal(130, result.status)
    end)

    it("ends a loop that never waits", function()
      local result = interrupted([[print "ready" io.stdout:flush() while true do end]], "computes")
      assert.matches("runnel: interrupted!\nstack traceback:\n\tscript.lua:1: in main chunk", result.err)
      assert.equal(130, result.status)
    end)

    it("ends a pipe from a channel to itself", function()
      local result = interrupted([[
        local rn = require "runnel"
        local ch = rn.chan(1)
        ch:put(1)
        rn.pipe(ch, ch)
        rn.go(function() print "ready" io.stdout:flush() end)
      ]], "computes")
      assert.matches("runnel: interrupted!\nstack traceback:\n.*\ngo blocks:\n.*ready at ", result.err)
      assert.equal(130, result.status)
    end)

    it("ends a go block that never parks", function()
      local result = interrupted([[
        local rn = require "runnel"
        rn.go(function()
          print "ready" io.stdout:flush()
          while true do end
        end)
        rn.chan():take()
      ]], "computes")
      assert.matches("^runnel: error in script.lua:2: interrupted!\nstack traceback:\n\tscript.lua:4:", result.err)
      assert.matches("\n[^\n]*runnel: interrupted!\nstack traceback:\n\t%[C%]: in method 'take'\n\tscript.lua:6:",
        result.err)
      assert.equal(130, result.status)
    end)

    it("ends while it runs the remaining go blocks", function()
      local result = interrupted [[
        local rn = require "runnel"
        rn.go(function() print "ready" io.stdout:flush() rn.sleep(1e6) end)
      ]]
      assert.matches("runnel: interrupted!\n", result.err)
      assert.equal(130, result.status)
    end)

    it("twice in long-running C code ends at once", function()
      dir:write("script.lua", [[
        print "ready" io.stdout:flush()
        local text = ("a"):rep(1e5)
        text:find(("a-"):rep(30) .. "b") -- for years
      ]])
      local result = process.run(dir.path, ([[
        mkfifo ready
        %s script.lua >ready &
        pid=$!
        read line <ready
        while kill -INT $pid 2>/dev/null; do sleep 0.05; done
        wait $pid
        status=$?
        rm ready
        exit $status]]):format(runnel))
      assert.equal(130, result.status)
    end)

    it("continues if the script catches the error", function()
      local result = interrupted [[
        local rn = require "runnel"
        print "ready" io.stdout:flush()
        local ok, err = pcall(rn.sleep, 1e6)
        io.stderr:write(tostring(ok), " ", err, "\n")
      ]]
      assert.equal("false interrupted!\n", result.err)
      assert.equal(0, result.status)
    end)

    it("again ends a script that goes on after the first time", function()
      for work, is_computing in pairs {
        ["while true do end"] = true,
        ["rn.sleep(1e6)"] = false,
        ["local c <close> = setmetatable({}, { __close = function() print 'on' rn.sleep(1e6) end }) rn.sleep(1e6)"]
          = false,
      } do
        dir:write("script.lua", ([[
          local rn = require "runnel"
          rn.go(function() rn.rename "worker" rn.sleep(1e6) end)
          rn.yield()
          io.stdout:setvbuf "line"
          print "ready"
          for _ = 1, 3 do print(pcall(function() %s end)) end
        ]]):format(work))
        local result = process.run(dir.path, ([[
          mkfifo ready
          %s script.lua >ready &
          pid=$!
          { read line; %s; kill -INT $pid; read line; kill -INT $pid; cat >/dev/null; } <ready
          wait $pid
          status=$?
          rm ready
          exit $status]]):format(runnel, process[is_computing and "until_it_computes" or "until_it_sleeps"] "$pid"))
        assert.matches("^interrupted again!\nthe main thread:\nstack traceback:\n.*\tscript.lua:6: in main chunk\n"
          .. ".*\ngo blocks:\n  #%d+ %(worker%): sleeping at script.lua:2\n", result.err)
        assert.equal(130, result.status)
      end
    end)
  end)

  describe("--sim", function()
    it("runs the script in virtual time", function()
      local result = script([[
        local rn = require "runnel"
        rn.go(function() rn.sleep(2 * 3600e3) print("two hours", rn.now()) end)
        rn.sleep(3600e3)
        print(..., rn.now())
      ]], "arg", "--sim")
      assert.same({ out = "arg\t3600000\ntwo hours\t7200000\n", err = "", status = 0 }, result)
    end)

    it("reports an error", function()
      local result = script("local function f() error 'oops' end\nf()", "", "--sim")
      assert.matches("runnel: script.lua:1: oops\nstack traceback:\n.*\tscript.lua:2: in main chunk\n", result.err)
      assert.equal(1, result.status)
      assert.matches("runnel: %(error object is a nil value%)\n", script("error()", "", "--sim").err)
    end)

    it("reports go blocks that are parked for ever", function()
      local text = "local rn = require 'runnel' rn.go(function() rn.sleep(1e6) rn.chan():name 'jobs':take() end)"
      local result = script(text, "", "--sim")
      assert.matches("^[^\n]*runnel: the script has ended, and a go block is parked for ever:\n"
        .. "  #%d+ %(script.lua:1%): take on chan: jobs at script.lua:1\n$", result.err)
      assert.equal(0, result.status)
      assert.equal(1, script(text, "", "--sim --deadlock=error").status)
      assert.same({ out = "", err = "", status = 0 }, script(text, "", "--sim --no-drain"))
    end)

    it("reports a deadlock of the script", function()
      local result = script("require('runnel').chan():take()", "", "--sim")
      assert.matches("runnel: deadlock: sim.run would wait for ever", result.err)
      assert.matches("#%d+ %(the script%): take on chan: #%d+ at script.lua:1", result.err)
      assert.equal(1, result.status)
    end)
  end)

  it("--sim test continues after a spec that would wait for ever", function()
    dir:write("some_spec.lua", [[
      local rn = require "runnel"
      describe("specs", function()
        after_each(function() rn.sleep(1000) end)
        it("hang", function() rn.chan():name("jobs"):take() end)
        it("hang in a go block", function() rn.go(function() rn.chan():take() end):take() end)
        it("pass", function() rn.sleep(3600e3) assert.is_true(rn.now() >= 3600e3) end)
      end)
    ]])
    local result = run "--sim test --output=plainTerminal some_spec.lua"
    assert.matches("1 success / 0 failures / 2 errors / 0 pending", result.out)
    assert.matches("some_spec.lua:4: deadlock: .*take on chan: jobs at some_spec.lua:4", result.out)
    assert.equal(1, result.status)
  end)

  it("--seed makes random numbers the same each time", function()
    local text = [[
      local rn = require "runnel"
      local a, b, picks = rn.promise_chan(), rn.promise_chan(), {}
      a:put "a" b:put "b"
      for i = 1, 64 do picks[i] = rn.alts { a, b } end
      print(table.concat(picks), math.random(1 << 40))
    ]]
    local first = script(text, "", "--seed 42").out
    assert.matches("^[ab]+\t%d+\n$", first)
    assert.matches("a", first)
    assert.matches("b", first)
    assert.equal(first, script(text, "", "--seed=42").out)
    assert.not_equal(first, script(text, "", "--seed=43").out)
    assert.not_equal(script(text).out, script(text).out)
    assert.equal(first, script(text, "", "--sim --seed 42").out)
  end)

  it("--time prints elapsed time, CPU time and peak memory", function()
    local result = script("print 'x'", "", "--time")
    assert.equal("x\n", result.out)
    assert.matches("runnel: %d+%.%d%d%d s elapsed, %d+%.%d%d%d s CPU, %d+%.%d MB peak memory\n$", result.err)
  end)

  it("test runs specs with busted", function()
    dir:write("some_spec.lua", [[
      local rn = require "runnel"
      describe("a spec", function()
        it("waits", function()
          local ch = rn.chan()
          rn.go(function() rn.sleep(1) ch:put(4) end)
          assert.equal(4, ch:take())
        end)
        it("fails", function() assert.equal(1, 2) end)
      end)
    ]])
    local result = run "test --output=plainTerminal some_spec.lua"
    assert.matches("1 success / 1 failure / 0 errors / 0 pending", result.out)
    assert.equal(1, result.status)
  end)

  it("test fails specs with an unhandled error of a go block", function()
    dir:write("lost_spec.lua", [[
      local rn = require "runnel"
      describe("a spec", function()
        it("loses an error", function()
          rn.go(error, { message = "lost", code = 7 })
          rn.yield()
        end)
        it("loses a string", function()
          rn.go(function() error "oops" end)
          rn.yield()
        end)
        it("takes it", function() rn.go(error, "lost"):take() end)
        it("has a handler", function()
          rn.on_error(function() end)
          rn.go(error, "heard")
          rn.yield()
        end)
        it("still has it", function()
          rn.go(error, "heard")
          rn.yield()
        end)
      end)
    ]])
    local result = run "test --output=plainTerminal lost_spec.lua"
    assert.matches("3 successes / 0 failures / 2 errors / 0 pending", result.out)
    assert.matches("which nobody took: lost %(code = 7%)\n", result.out)
    assert.matches("error in lost_spec.lua:8, which nobody took: lost_spec.lua:8: oops\nstack traceback:", result.out)
    assert.equal(1, result.status)
  end)

  describe("with --trace", function()
    -- The script's process gets the signal once it has said that it is ready, and computes, if it is to do that.
    local function ended_by(signal, text, computes)
      dir:write("script.lua", text)
      return process.run(dir.path, ([[
        mkfifo ready
        %s --trace=out.json script.lua >ready &
        pid=$!
        read line <ready
        %s
        for signal in %s; do kill -$signal $pid; done
        wait $pid
        status=$?
        rm -f ready
        cat out.json
        exit $status]]):format(runnel, computes and process.until_it_computes "$pid" or "", signal))
    end

    local sleeps = [[
      local rn = require "runnel"
      local ch = rn.chan():name "letters"
      rn.go(function() ch:put "a" end)
      rn.go(function()
        ch:take()
        print "ready" io.stdout:flush()
        %s
      end)
      while true do pcall(rn.sleep, 3600000) end
    ]]

    it("writes the file before SIGTERM, SIGHUP or Ctrl-C ends the script, which cannot catch the first two", function()
      for signal, status in pairs { TERM = 128 + 15, HUP = 128 + 1 } do
        for _, what in ipairs { "", "while true do end" } do
          local result = ended_by(signal, sleeps:format(what))
          assert.equal(status, result.status)
          assert.matches("letters.*%]", result.out)
        end
      end
      local result = ended_by("INT", 'print "ready" io.stdout:flush() require("runnel").sleep(3600000)')
      assert.equal(128 + 2, result.status)
      assert.matches("main.*%]", result.out)
    end)

    it("ends at SIGTERM although it computes in a coroutine of its own, without the file #ci", function()
      local result = ended_by("TERM", [[
        print "ready" io.stdout:flush()
        coroutine.wrap(function() while true do end end)()
      ]], "computes")
      assert.equal(128 + 15, result.status)
      assert.equal("", result.out)
      -- The second signal ends the program, also if both are pending.
      for _, signals in ipairs { "HUP TERM", "STOP HUP TERM CONT" } do
        local by_second = ended_by(signals, [[
          print "ready" io.stdout:flush()
          coroutine.wrap(function() while true do end end)()
        ]], "computes")
        assert.equal(128 + 15, by_second.status)
      end
    end)
  end)

  describe("after SIGQUIT", function()
    -- The script's process gets SIGQUIT once it has said that it is ready, and, unless it computes, waits. After the
    -- report, a script that computes finds the file `done`; one that waits gets SIGINT.
    local function asked(text, computes)
      dir:write("script.lua", text)
      local asleep = process.until_it_sleeps "$pid"
      return process.run(dir.path, ([[
        mkfifo ready
        %s script.lua >ready &
        pid=$!
        {
          read line
          %s
          kill -QUIT $pid
          while kill -0 $pid && ! grep -q 'go blocks' .stderr; do sleep 0.01; done
          %s
          cat
        } <ready
        wait $pid
        status=$?
        rm -f ready done
        exit $status]]):format(runnel, computes and process.until_it_computes "$pid" or asleep,
        computes and "touch done" or asleep .. "\nkill -INT $pid"))
    end

    it("writes the go blocks and channels, and the script continues", function()
      local result = asked [[
        local rn = require "runnel"
        local jobs = rn.chan(3):name "jobs"
        rn.go(function() jobs:take() end)
        rn.go(function() rn.sleep(3600000) end)
        print "ready" io.stdout:flush()
        print(pcall(function() rn.chan():name "orders":take() end))
        rn.exit(7)
      ]]
      assert.matches("^SIGQUIT:\nthe main thread:\nstack traceback:\n.*script.lua:6: in main chunk\n", result.err)
      assert.matches("\nthe main program waits: take on chan: orders\ngo blocks:\n", result.err)
      assert.matches("\n  #%d+ %(script.lua:3%): take on chan: jobs at script.lua:3\n", result.err)
      assert.matches("\nchannels on which operations wait:\n  chan: orders %(1 take waiting%)\n  chan: jobs %(0/3, 1 ",
        result.err)
      assert.matches("\nno deadlock: a timer is due in [%d hmins]+\n$", result.err)
      assert.equal("false\tinterrupted!\n", result.out)
      assert.equal(7, result.status)
    end)

    it("says what the main program waits for, if it waits", function()
      for waits, expected in pairs {
        ["a:put(1)"] = "\nthe main program waits: put on chan: a\ngo blocks:\n",
        ["rn.alts { a, { b, 1 } }"] = "\nthe main program waits: alts on chan: a, chan: b\ngo blocks:\n",
        ["rn.sleep(3600000)"] = "in main chunk\n[^\n]*\ngo blocks:\n",
      } do
        local result = asked(([[
          local rn = require "runnel"
          local a, b = rn.chan():name "a", rn.chan():name "b"
          rn.go(function() rn.sleep(3600000) end)
          print "ready" io.stdout:flush()
          print(pcall(function()
            %s
            print(b)
          end))
          rn.exit(7)
        ]]):format(waits))
        assert.matches(expected, result.err)
        assert.equal("false\tinterrupted!\n", result.out)
        assert.equal(7, result.status)
      end
      -- without runnel
      local result = asked('print "ready" io.stdout:flush() repeat until io.open "done"', "computes")
      assert.matches("^SIGQUIT:\nthe main thread:\n.*\nthere are no go blocks\n$", result.err)
      assert.equal(0, result.status)
    end)

    it("writes what threads do #ci", function()
      local result = asked [[
        local rn = require "runnel"
        local jobs = rn.shared_chan():name "jobs"
        local started = rn.shared_chan()
        rn.thread(function(jobs) jobs:take() end, jobs)
        rn.thread(function(started) started:put(true) while true do end end, started)
        started:take()
        repeat rn.sleep(1) until jobs:stats().takes_waiting == 1
        rn.go(function() rn.sleep(3600000) end)
        print "ready" io.stdout:flush()
        rn.shared_chan():name "nothing"
        pcall(function() jobs:done():take() end)
        rn.exit(7)
      ]]
      assert.matches("\n  #%d+ %(thread script.lua:4%): waiting for [%d.]+ m?s: take on chan: jobs at script.lua:4\n",
        result.err)
      assert.matches("\n  #%d+ %(thread script.lua:5%): computing for [%d.]+ m?s at script.lua:5\n", result.err)
      assert.matches("\nchannels on which operations wait:\n.*\n  chan: jobs %(1 take waiting%)\n", result.err)
      assert.matches("\nno deadlock: a timer is due in [%d hmins]+; another state has a channel on which an operation "
        .. "waits\n", result.err)
      assert.matches("\nrunnel: a thread is still running, and left: thread script.lua:5\n$", result.err)
      assert.equal(7, result.status)
    end)

    it("does so in a go block that computes, and in the main program", function()
      for _, start in ipairs { "rn.run(compute)", "compute()" } do
        local result = asked([[
          local rn = require "runnel"
          local function compute()
            print "ready" io.stdout:flush()
            while not io.open "done" do end
            print "computed"
          end
        ]] .. start, "computes")
        -- Line 3, if the signal comes as soon as "ready" has been written.
        assert.matches("^SIGQUIT:\nthe [^\n]*:\nstack traceback:\n.*script.lua:[34]: in ", result.err)
        assert.matches("computed\n", result.out)
        assert.equal(0, result.status)
      end
    end)
  end)

  describe("with luv", function()
    -- Not loaded here: busted forgets modules from one file to the next, and luv must not be loaded twice.
    local found = package.searchpath("luv", package.cpath)
    local function it_with_luv(name, f)
      if found then it(name, f) else pending(name .. " (luv is missing)") end
    end

    it_with_luv("makes it the driver when it is required", function()
      local result = script [[
        local rn, uv = require "runnel", require "luv"
        local ch = rn.chan(1)
        local timer = uv.new_timer()
        timer:start(10, 0, function() ch:put_async "from luv" timer:close() end)
        rn.go(function() print(ch:take()) end)
      ]]
      assert.same({ out = "from luv\n", err = "", status = 0 }, result)
    end)

    it_with_luv("ends when only go blocks are left that wait for signals, and does not list them", function()
      local result = script([[
        local rn, uv = require "runnel", require "runnel.uv"
        rn.go(function()
          for name in uv.signal("int", "term") do print(name) end
        end)
        rn.go(function()
          rn.sleep(5)
          rn.go(function() uv.signal "hup":take() end)
          print "worked"
        end)
      ]], "", "--deadlock=error")
      assert.same({ out = "worked\n", err = "", status = 0 }, result)
    end)

    it_with_luv("gets signals in go blocks while others work, and waits for one if the script does", function()
      local result = script [[
        local rn, uv, luv = require "runnel", require "runnel.uv", require "luv"
        local function usr1() luv.kill(luv.os_getpid(), "sigusr1") end
        local once = luv.new_timer()
        once:unref() -- does not count as an event either
        once:start(50, 0, usr1)
        print(uv.signal("usr1"):take())
        rn.go(function()
          for name in uv.signal "usr1" do print("a go block", name) end
        end)
        rn.go(function()
          rn.sleep(5)
          usr1()
          rn.sleep(5)
        end)
      ]]
      assert.same({ out = "usr1\na go block\tusr1\n", err = "", status = 0 }, result)
    end)

    it_with_luv("makes it so in a go block, too", function()
      local result = script [[
        local rn = require "runnel"
        rn.go(function()
          local uv = require "luv"
          local ch = rn.chan(1)
          local timer = uv.new_timer()
          timer:start(10, 0, function() ch:put_async "from luv" timer:close() end)
          print(ch:take())
        end)
      ]]
      assert.same({ out = "from luv\n", err = "", status = 0 }, result)
    end)

    it_with_luv("gives it to threads, also where the library is only inside the executable", function()
      dir:write("script.lua", [[
        local rn = require "runnel"
        require "runnel.uv"
        local pool <close> = rn.threads(2, function(word)
          return require "runnel.uv".run { "echo", word }.stdout
        end)
        io.write(rn.thread(function() return require "runnel.uv".run({ "echo", "one" }).stdout end):take())
        io.write(pool "two", pool "three")
      ]])
      local result = process.run(dir.path, "LUA_PATH='/nowhere/?.lua' " .. runnel .. " script.lua")
      assert.same({ out = "one\ntwo\nthree\n", err = "", status = 0 }, result)
    end)

    it("gives threads no loader that needs something of its state", function()
      local result = script [[
        package.preload.exit = os.exit -- here a C function that keeps another one
        print(require "runnel".thread(function() return select(2, pcall(require, "exit")) end):take())
      ]]
      assert.matches("^module 'exit' not found:", result.out)
    end)

    it_with_luv("lets a program run luv's loop itself", function()
      local result = script [[
        local uv = require "luv"
        uv.new_timer():start(5, 0, function() print "a timer" end)
        print(uv.run())
      ]]
      assert.same({ out = "a timer\nfalse\n", err = "", status = 0 }, result)
    end)

    it_with_luv("lets a program's loop run go blocks with rn.step, and waits for others again after it", function()
      local result = script [[
        local rn, uv = require "runnel", require "luv"
        local before, alarm, idle = uv.new_prepare(), uv.new_timer(), uv.new_idle()
        before:start(function()
          local ms = rn.step(10)
          alarm:stop()
          idle:stop()
          if ms == 0 then idle:start(function() end) end
          if ms and ms > 0 and ms < math.huge then alarm:start(math.ceil(ms), 0, function() end) end
        end)
        before:unref()
        local ch = rn.chan()
        rn.go(function()
          for i = 1, 3 do
            rn.sleep(1)
            ch:put(i)
          end
          ch:close()
        end)
        local timer = uv.new_timer()
        timer:start(60 * 1000, 0, function() end) -- keeps uv.run running
        rn.go(function()
          for i in ch do print(i) end
          timer:start(1, 0, function() timer:close() print(pcall(rn.sleep, 5)) end)
        end)
        uv.run()
        uv.new_timer():start(5, 0, function() ch = nil end)
        rn.sleep(20)
        print(ch)
      ]]
      assert.equal("", result.err)
      assert.matches("^1\n2\n3\nfalse\t[^\n]*the program is running luv's loop %(uv.run%), and a callback of it "
        .. "cannot wait: use put_async[^\n]*\nnil\n$", result.out)
      assert.equal(0, result.status)
    end)

    it_with_luv("runs examples/guest.lua", function()
      local pipe = io.popen "pwd"
      local guest = pipe:read "l" .. "/examples/guest.lua 50"
      pipe:close()
      local result = run(guest)
      assert.equal("", result.err)
      assert.matches("^%d+ turns of a busy go block, %d+ sleeps of 1 ms, %d+ ticks of luv's 1 ms timer\n$", result.out)
      assert.equal(0, result.status)
    end)

    it_with_luv("has one driver over it, whichever is required first", function()
      local result = script [[
        local rn = require "runnel"
        local driver = require "runnel.driver.luv"
        print(rn.driver(nil) == driver, require "runnel.driver.luv" == driver, require "luv" ~= nil)
      ]]
      assert.same({ out = "true\ttrue\ttrue\n", err = "", status = 0 }, result)
      result = script [[
        local uv = require "runnel.uv"
        for line in uv.lines(arg[0]) do
          print(line)
          break
        end
      ]]
      assert.same({ out = '        local uv = require "runnel.uv"\n', err = "", status = 0 }, result)
    end)

    it("names the package to install if luv is missing", function()
      local without = "LUA_CPATH='/nowhere/?.so' " .. runnel
      local result = process.run(dir.path, without .. [[ -e 'require "runnel.driver.luv"']])
      assert.matches("luv", result.err)
      assert.matches("lua%-luv", result.err)
      assert.equal(1, result.status)
      result = process.run(dir.path, without .. [[ -e 'require "luv"']])
      assert.matches("module 'luv' not found", result.err)
    end)

    it_with_luv("leaves a driver alone that is there", function()
      local result = script [[
        local rn = require "runnel"
        local mine = { wait = function() end, alive = function() return false end }
        rn.driver(mine)
        require "luv"
        print(rn.driver(nil) == mine)
      ]]
      assert.same({ out = "true\n", err = "", status = 0 }, result)
    end)
  end)
end)
