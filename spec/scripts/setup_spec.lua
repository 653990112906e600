-- scripts/setup, with an apt-get and an apt-cache that install nothing.

local process = require "spec.support.process"

describe("scripts/setup", function()
  -- Runs it on a system that has only these commands, and apt-get and apt-cache as given; `before`: shell code.
  local function setup(set, apt_get, apt_cache, before)
    local dir <close> = process.directory()
    dir:write("apt-get", "#!/bin/sh\n" .. apt_get)
    dir:write("apt-cache", "#!/bin/sh\n" .. apt_cache)
    local result = process.run(dir.path, [[
      chmod +x apt-get apt-cache
      mkdir scripts
      cp "$OLDPWD/scripts/setup" scripts
      for command in awk cat cc chmod env grep mkdir mktemp rm sed sh sleep sort tr; do
        ln -s "$(command -v $command)" .
      done
      ln -s "$(command -v "${LUA:-lua5.4}")" lua
      printf '#!/bin/sh\nexec "$@"\n' >sudo
      printf '#!/bin/sh\necho 0\n' >id
      chmod +x sudo id
      here=$PWD
      ]] .. (before or "") .. "\n" .. [[
      PATH=$here CC=cc LUA=lua sh scripts/setup ]] .. set .. [[ 2>errors

      status=$?
      cat errors >&2
      ls build/without 2>/dev/null
      exit $status]])
    return result
  end

  -- What apt-get says while another process has the lock, and its status.
  local LOCKED = "echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)'; exit 100"
  -- An apt-get whose update runs this, and which installs spin and debootstrap as empty commands.
  local function apt_get(update)
    return ([[
      case " $* " in
      *" update "*) %s ;;
      *) for command in spin debootstrap; do : >$command; chmod +x $command; done ;;
      esac]]):format(update)
  end

  it("waits while another process updates the lists of packages #ci", function()
    local once = ("[ -e tried ] || { : >tried; %s; }"):format(LOCKED)
    assert.same({ out = "", err = "setup: installing spin\n", status = 0 }, setup("spin", apt_get(once), ""))
    assert.same({ out = "", err = "setup: installing debootstrap\n", status = 0 },
      setup("fresh", apt_get(once), ""))
  end)

  it("says what is wrong if the lists cannot be updated #ci", function()
    local update = "echo 'E: no network'; exit 100"
    local result = setup("spin", apt_get(update), "")
    assert.same({ 1, "" }, { result.status, result.out })
    assert.matches("E: no network\nsetup: the installation failed", result.err, 1, true)
    result = setup("fresh", apt_get(update), "")
    assert.same({ 0, "debootstrap\n" }, { result.status, result.out })
    assert.matches("E: no network\nsetup: continuing without debootstrap: apt-get cannot update its list", result.err,
      1, true)
  end)

  it("tells meanwhile how far it is", function()
    -- An apt-get that goes on when what it has said is told.
    local install = [[
      say() { echo "$1"; i=0; until grep -qF "$2" errors || [ $i = 2000 ]; do sleep 0.01; i=$((i + 1)); done; }
      case " $* " in
      *" update "*) say "Hit:1 http://mirror.example bookworm" "setup: ... Hit:1 http" ;;
      *)
        echo "0 upgraded, 2 newly installed, 0 to remove and 7 not upgraded."
        echo "Need to get 12.3 MB/15.0 MB of archives."
        say "Get:1 http://mirror.example spin" "setup: ... 1 of 2 packages are fetched (12.3 MB in all)"
        say "Unpacking spin (1.0) ..." "setup: ... 1 of 2 packages are unpacked"
        echo "Setting up libspin (1.0) ..."
        say "Setting up spin (1.0) ..." "setup: ... 2 of 2 packages are installed"
        : >spin; chmod +x spin ;;
      esac]]
    local result = setup("spin", install, "", "export SETUP_TELLS=0.01")
    assert.same({ 0, "" }, { result.status, result.out })
    -- check-fresh takes any other line for one that says that something is missing.
    for line in result.err:gmatch "[^\n]+" do
      assert.is_truthy(line == "setup: installing spin" or line:find("setup: ... ", 1, true) == 1, line)
    end
    assert.matches("^setup: installing spin\nsetup: %.%.%. Hit:1 .*\n.*setup: %.%.%. 1 of 2 packages are fetched "
      .. ".*1 of 2 packages are unpacked\n.*setup: %.%.%. 2 of 2 packages are installed\n$", result.err)
  end)

  it("skips an optional thing that the system has no package of", function()
    local result = setup("fresh", apt_get "", "exit 100")
    assert.same({ 0, "debootstrap\n" }, { result.status, result.out })
    assert.matches("this system has no package of debootstrap", result.err, 1, true)
  end)

  -- As Debian 13 says of luajit2, which another package mentions: nothing, and no failure.
  it("takes the second name of a package if nothing is known of the first one #ci", function()
    local install = "for command in tmux pgrep; do : >$command; chmod +x $command; done"
    local result = setup("test", install, 'for name; do :; done; [ "$name" = luajit2 ] || echo "Package: $name"')
    local lists = {}
    for list in result.err:gmatch "setup: installing([^\n]*)" do lists[#lists + 1] = list .. " " end
    local wished = assert(lists[2], result.err)
    assert.is_truthy(wished:find(" luajit ", 1, true), wished)
    assert.is_nil(wished:find(" luajit2 ", 1, true), wished)
    assert.is_truthy(wished:find(" libluajit2-5.1-dev ", 1, true), wished)
  end)

  it("lists the sets if there is none of that name", function()
    for _, set in ipairs { "nosuch", "" } do
      local result = setup(set, "", "")
      assert.equal(2, result.status)
      assert.matches("usage: scripts/setup SET, as in scripts/setup test%. The sets: run demo .* queues", result.err)
      assert.equal(set ~= "", result.err:find("there is no set nosuch", 1, true) ~= nil)
    end
  end)

  it("prints the names of the packages if it may not install them", function()
    local nobody = [[rm sudo; printf '#!/bin/sh\necho 1000\n' >id; chmod +x id]]
    local result = setup("spin", "exit 100", "", nobody)
    assert.equal(1, result.status)
    assert.matches("only root can install, and there is no sudo%. Please install:\n  %- spin\n"
      .. "As root: apt%-get install spin \n", result.err)
  end)

  -- What a minimal system lacks for `make deb`, in a repository or an unpacked archive.
  it("installs what building Debian's packages needs #ci", function()
    local function installed(environment)
      local result = setup("deb", "exit 100", "", environment)
      assert.equal(1, result.status)
      return result.err:match "setup: installing([^\n]*)" .. " "
    end
    for name in ("debhelper build-essential pkg-config"):gmatch "%S+" do
      assert.is_truthy(installed(""):find(" " .. name .. " ", 1, true), name)
    end
    assert.is_nil(installed(""):find(" git ", 1, true))
    assert.is_truthy(installed("mkdir .git"):find(" git ", 1, true))
    assert.is_truthy(installed("export DEB_BUILD_PROFILES=pkg.runnel.lua5.5"):find(" liblua5.5-dev ", 1, true))
  end)
end)
