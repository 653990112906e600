-- The rockspecs: what they install, from which files, and what they ask for.

local LUA <const> = os.getenv "LUA" or "lua5.4"

local function lines_of(command)
  local list, pipe <close> = {}, assert(io.popen(command))
  for line in pipe:lines() do list[#list + 1] = line end
  return list
end

-- The rockspecs of the source tree, by the names of their rocks.
local function rockspecs()
  local found = {}
  for _, path in ipairs(lines_of "ls runnel-scm-1.rockspec packaging/rockspecs/*.rockspec") do
    local rock = {}
    assert(loadfile(path, "t", rock))()
    found[rock.package] = rock
  end
  return found
end

local rocks = rockspecs()

local function sorted(list)
  table.sort(list)
  return list
end

describe("the rocks", function()
  it("have each C module of make install once; the Lua modules are in the folder that LuaRocks copies", function()
    local wanted, found = {}, {}
    for _, line in ipairs(lines_of "make -s -n modules FOUND=yes CC=true BUILD=build/nothing 2>&1") do
      local file = line:match "%-o build/nothing/(runnel/%S+)%.so "
      if file then wanted[#wanted + 1] = file:gsub("/", ".") end
    end
    for name, rock in pairs(rocks) do
      if name == "runnel-monitor" then found[#found + 1] = "runnel.monitor.core" end
      for module in pairs(name ~= "runnel-lite" and rock.build.modules or {}) do found[#found + 1] = module end
    end
    assert.same(sorted(wanted), sorted(found))
    assert.equal("lua/runnel.lua", lines_of("ls lua/runnel.lua")[1])
    for _, folder in ipairs { "lua", "src", "lib" } do -- else the others would have them, too
      assert.same({}, lines_of(("ls -d packaging/rockspecs/%s 2>/dev/null"):format(folder)))
    end
  end)

  it("have C modules of the same files and libraries as make has #ci", function()
    local count = 0
    for _, line in ipairs(lines_of "make -s -n V=1 modules FOUND=yes CC=true BUILD=build/nothing 2>&1") do
      local file, rest = line:match "%-o build/nothing/(runnel/%S+)%.so (.*)"
      local module = file and file:gsub("/", ".")
      for _, rock in pairs(rocks) do
        local built = module and rock.build.type == "builtin" and rock.build.modules[module]
        if built then
          count = count + 1
          local sources, libraries = {}, { "pthread" }
          for path in rest:gmatch "build/nothing/obj/(%S+)%.o" do sources[#sources + 1] = path end
          for name in rest:gmatch "%-l(%S+)" do libraries[#libraries + 1] = name ~= "dl" and name or nil end
          local files = {}
          for i, path in ipairs(built.sources) do files[i] = path:gsub("^[./]*csrc/", ""):gsub("%.c$", "") end
          assert.same(sorted(sources), sorted(files), module)
          assert.same(libraries, built.libraries, module)
        end
      end
    end
    assert.equal(7, count)
  end)

  it("are built without make, but for the one whose page is made into a file of C", function()
    for name, rock in pairs(rocks) do
      assert.equal(name == "runnel-monitor" and "command" or "builtin", rock.build.type, name)
      assert.equal("3.0", rock.rockspec_format, name)
      assert.is_string(rock.description.homepage, name)
      assert.is_string(rock.description.issues_url, name)
      assert.same({ "concurrency" }, rock.description.labels, name)
      local specs = rock.test.command:match "^make [%-C ./]*test SPEC=(%S+)$"
      assert.equal(specs, lines_of("ls -d " .. specs)[1])
    end
  end)

  it("of a version take the archive of that version, and need rocks of the same version", function()
    local dir = os.tmpname()
    os.remove(dir)
    assert(os.execute(("mkdir '%s' && '%s' scripts/rockspec.lua 1.2.3 '%s'"):format(dir, LUA, dir)))
    local count = 0
    for _, path in ipairs(lines_of(("ls '%s'/*.rockspec"):format(dir))) do
      local rock = {}
      assert(loadfile(path, "t", rock))()
      count = count + 1
      assert.equal("1.2.3-1", rock.version)
      assert.matches("/v1.2.3/runnel%-1.2.3.tar.gz$", rock.source.url)
      assert.equal("runnel-1.2.3" .. (rock.package == "runnel" and "" or "/packaging/rockspecs"), rock.source.dir)
      local is_whole = rock.package == "runnel" or rock.package == "runnel-lite"
      assert.equal(not is_whole and "runnel == 1.2.3-1" or nil, rock.dependencies[2], rock.package)
      assert.same(rocks[rock.package].build, rock.build)
    end
    assert(os.execute(("rm -r '%s'"):format(dir)))
    assert.equal(8, count)
  end)
end)
