-- `runnel new`: the project that it writes runs, and its own checks pass.

local process = require "spec.support.process"

local function has(command) return os.execute(("command -v %s >/dev/null 2>&1"):format(command)) == true end

describe("runnel new", function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  local function run(command, folder)
    return process.run(dir.path .. (folder or ""), (command:gsub("^runnel", process.runnel)))
  end

  -- The commands of the file for CI that run in the project.
  local function commands_of_ci(folder)
    local file <close> = assert(io.open(dir.path .. folder .. "/.github/workflows/ci.yml"))
    local list, is_after = {}, false
    for line in file:lines() do
      local command = line:match "^ +%- run: (.*)$"
      if is_after then list[#list + 1] = command end
      is_after = is_after or line:find "actions/checkout" ~= nil
    end
    return list
  end

  it("writes a project whose program, specs and checks run", function()
    local made = run "runnel new my-words"
    assert.same({ 0, "" }, { made.status, made.err })
    local commands = commands_of_ci "/my-words"
    assert.same({ "make check" }, commands)
    local check = has "luacheck" and "make check" or "make test run build"
    local result = run(check .. " RUNNEL='" .. process.runnel .. "'", "/my-words")
    assert.equal(0, result.status, result.out .. result.err)
    assert.matches("3 successes / 0 failures / 0 errors", result.out)
    assert.matches("\n +%d+ [%l]+\n", result.out)
  end)

  it("writes what one executable and its image are built of", function()
    run "runnel new my-words"
    dir:write("text", "b a\nA\n")
    local made = run("make build RUNNEL='" .. process.runnel .. "'", "/my-words")
    assert.equal(0, made.status, made.out .. made.err)
    local result = run "cd / && env -i \"$OLDPWD/my-words/build/my-words\" \"$OLDPWD/text\""
    assert.same({ 0, "     2 a\n     1 b\n", "" }, { result.status, result.out, result.err })
    assert.matches("podman build %-%-tag my%-words %-%-file Containerfile build\n",
      run("make -n image CONTAINER=podman", "/my-words").out)
    local copied = run("grep '^COPY' Containerfile", "/my-words").out:match "COPY (%S+)"
    assert.equal(0, run("test -x build/" .. copied, "/my-words").status)
  end)

  it("names the folder so that a shell understands it #ci", function()
    for _, path in ipairs { "plain-1/p", "x y/p", "it's/p", "$HOME/p", "-d/p", "-d e/p", "a;b/p/", "ü/p" } do
      dir:write("path", path)
      local made = run "runnel new \"$(cat path)\""
      assert.same({ 0, "" }, { made.status, made.err })
      local cd = made.out:match "\n    (cd [^\n]*)\n"
      assert.matches("/p/?\n$", run(cd .. " && pwd && test -f main.lua").out, path)
      if path == "plain-1/p" then assert.equal("cd plain-1/p", cd) end
    end
  end)

  it("writes a program that runs from any directory, and fails with the reason", function()
    run "runnel new sub/words2"
    dir:write("text", "b a\nA\n")
    local result = run "runnel sub/words2/main.lua text"
    assert.same({ 0, "     2 a\n     1 b\n", "" }, { result.status, result.out, result.err })
    result = run "runnel sub/words2/main.lua none"
    assert.equal(1, result.status)
    assert.matches("none.*No such file or directory", result.err)
  end)

  it("writes a rockspec that LuaRocks accepts, with all its files #ci", function()
    if not has "luarocks" then return pending "luarocks is not installed" end
    run "runnel new words"
    local result = run("luarocks lint words-scm-1.rockspec", "/words")
    assert.equal(0, result.status, result.out .. result.err)
    local made = run("luarocks --lua-version 5.4 --tree ../tree make --deps-mode none words-scm-1.rockspec", "/words")
    assert.equal(0, made.status, made.out .. made.err)
    assert.equal(0, run("test -f tree/share/lua/5.4/words/words.lua && test -f tree/bin/words").status)
  end)

  it("refuses names that are none, and folders that exist", function()
    for command, problem in pairs {
      ["runnel new Words"] = "Words: a name of small letters", ["runnel new 1a"] = "1a: a name of small letters",
      ["runnel new 'a b'"] = "a b: a name of small letters", ["runnel new /"] = "/: a name of small letters",
      ["runnel new runnel"] = "runnel: the project needs another name",
      ["runnel new a/build"] = "build: the project needs another name",
      ["runnel new there"] = "there exists already",
    } do
      dir:write("there", "")
      local result = run(command)
      assert.equal(1, result.status, command)
      assert.matches("^runnel new: " .. problem, result.err)
    end
    assert.equal(2, run("runnel new").status)
    assert.matches("^usage: runnel new NAME", run("runnel new a b").err)
    assert.matches("^usage: runnel new NAME", run("runnel new help").out)
  end)
end)
