-- What the Makefile would do, as `make -n` prints it.

local process = require "spec.support.process"

describe("the Makefile #heavy", function()
  -- The commands for some files, none of which exists, with these variables and targets of make.
  local function commands(files, variables)
    local names = files:gsub("%S+", "build/nothing/%0")
    local pipe <close> = assert(io.popen(("env -u MAKEFLAGS -u MAKELEVEL -u LUA_LIBS -u LUA_CFLAGS -u HOST_LUA_LIBS "
      .. "make -n BUILD=build/nothing %s %s 2>&1"):format(variables, names)))
    return pipe:read "a"
  end

  it("links all parts with the Lua that LUA_LIBS names, and with no other one", function()
    local printed = commands("bin/runnel runnel.pc", "LUA_LIBS=/chosen/liblua.a library")
    local links = 0
    for line in printed:gmatch "[^\n]+" do
      local is_link = line:find "%-o build/nothing/bin/runnel " or line:find "%-o build/nothing/librunnel%.so"
      if is_link then
        links = links + 1
        assert.matches(" /chosen/liblua%.a", line)
      end
    end
    assert.equal(2, links, printed)
    assert.is_nil(printed:find "%-llua" or printed:find "liblua5%.%d%.a" or printed:find "Requires: lua")
  end)

  it("links the executable with the system's Lua otherwise", function()
    local links = 0
    for line in commands("bin/runnel", ""):gmatch "[^\n]+" do
      if line:find("-o build/nothing/bin/runnel ", 1, true) then
        links = links + 1
        assert.is_truthy(line:find "/liblua5%.%d%.a" or line:find "%-llua")
      end
    end
    assert.equal(1, links)
  end)

  it("builds the core before the script of the site that needs it", function()
    local printed = commands("", "SITE_WORK=build/nothing/site run-site")
    local core = printed:find("-o build/nothing/runnel/core.so", 1, true)
    local script = printed:find("scripts/docs/llms.lua", 1, true)
    assert.is_true(core < script, printed)
  end)

  it("prints the variables for this tree: make -s env", function()
    local pipe <close> = assert(io.popen "env -u MAKEFLAGS -u MAKELEVEL make -s env BUILD=build/nothing")
    local printed = pipe:read "a"
    for name, value in pairs { LUA_PATH = "/lua/%?%.lua;.*", LUA_CPATH = "/build/nothing/%?%.so;.*",
      RUNNEL = "/build/nothing/bin/runnel" } do
      assert.matches(("export %s='/[^\n]*%s'\n"):format(name, value), printed)
    end
    assert.matches("export PATH='/[^\n]*/build/nothing/bin':\"$PATH\"\n", printed)
  end)

  -- CC=true finds every header, CC=false none.
  local LIBRARIES = { "libssl%-dev", "libnats%-dev", "libcurl4%-openssl%-dev zlib1g%-dev",
    "zlib1g%-dev", "libsqlite3%-dev" }
  for _, case in ipairs {
    { "all", { "core", "tls/core", "nats/core", "http/curl", "http/core", "sqlite/core", "monitor/core",
      "websocket/core" }, LIBRARIES },
    { "rock", { "monitor/core" }, {} },
  } do
    local target, modules, libraries = table.unpack(case)
    it(("builds C modules whose headers are there: make %s"):format(target), function()
      local printed = commands("", "FOUND=yes CC=true " .. target)
      for _, module in ipairs(modules) do assert.matches("%-o build/%w+/runnel/" .. module .. "%.so ", printed) end
      assert.equal(#modules, select(2, printed:gsub("%-o build/%w+/runnel/", "")))
      assert.is_nil(printed:find "left out")
    end)

    it(("leaves out the others, and says what to install: make %s"):format(target), function()
      local printed = commands("", "FOUND=yes CC=false " .. target)
      assert.matches("%-o build/%w+/runnel/monitor/core%.so ", printed)
      local plain = { core = true, ["http/core"] = true, ["monitor/core"] = true } -- those that need no library
      for module in printed:gmatch "%-o build/%w+/runnel/(%S+)%.so " do assert.is_true(plain[module], module) end
      for _, package in ipairs(libraries) do
        assert.matches("left out: [^\n]* %(Debian: " .. package .. "%)", printed)
      end
    end)
  end

  it("links into a static executable what there are archives of, but not the system's libcurl", function()
    local system <close> = process.directory()
    local own <close> = process.directory()
    local function linked()
      local parts = {}
      local printed = commands("static/linked.o",
        ("FOUND=yes CC=true STATIC_FOLDER=%s LIBRARY_PATHS=%s"):format(own.path, system.path))
      for part in printed:gmatch "%-DRUNNEL_LINKED_(%u+)" do parts[#parts + 1] = part end
      table.sort(parts)
      return table.concat(parts, " ")
    end
    assert.equal("HTTPD MONITOR", linked()) -- these need no library
    for _, name in ipairs { "curl", "psl", "idn2", "unistring", "nghttp2", "ssl", "crypto", "z" } do
      system:write("lib" .. name .. ".a", "")
    end
    own:write("libnats.a", "")
    assert.equal("HTTPD MONITOR NATS TLS WEBSOCKET", linked())
    own:write("libcurl.a", "")
    assert.equal("HTTP HTTPD MONITOR NATS TLS WEBSOCKET", linked())
  end)

  it("says what the specs with sanitizers would do, although their interpreter is not built", function()
    local printed = commands("", "BUILD=build/nothing run-san-gcc")
    assert.matches("%-o build/nothing/lua ", printed)
    assert.matches("LUA=%S*/build/nothing/lua", printed)
    assert.matches("%-o build/nothing/bin/runnel ", printed)
    assert.matches("scripts/specs%.lua", printed)
  end)

  it("stops at once without Lua or its headers", function()
    local dir <close> = process.directory()
    local pipe <close> = assert(io.popen(("env -u MAKEFLAGS -u MAKELEVEL make LUA=no-lua BUILD='%s' "
      .. "'%s/obj/base/heap.o' 2>&1"):format(dir.path, dir.path)))
    local printed = pipe:read "a"
    assert.matches("The build needs a C compiler", printed)
  end)
end)
