-- The rockspecs, from packaging/rockspec.in, packaging/rocks.lua and packaging/project. What is in a C module, and with
-- what it is linked, they have from the Makefile.
-- As a script, lua scripts/rockspec.lua VERSION FOLDER: writes those of a version, for `luarocks upload`; their source
-- is the archive at the address SOURCES. As a module: the texts of those of the source tree, by their paths.
package.path = "./?.lua;" .. package.path

local rocks = require "packaging.rocks"

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

-- The files that match these patterns of the shell, sorted.
local function files(patterns)
  local pipe <close> = assert(io.popen(("LC_ALL=C ls -d %s"):format(patterns)))
  local list = {}
  for path in pipe:lines() do list[#list + 1] = path end
  return list
end

-- ---- what the Makefile says ----

local makefile = read "Makefile":gsub("\\\n%s*", " ")

local function variable(name) return assert(makefile:match("\n" .. name .. "%s*=%s*([^\n]*)"), name) end

-- The C modules: the patterns of their sources, and their libraries. KIT is what each but the core has besides.
local KIT <const> = "csrc/base/*.c csrc/kit/*.c"
local c_modules = { ["core.so"] = { sources = variable "MODULE_FOLDERS":gsub("%S+", "csrc/%0/*.c"), libraries = {} } }
for call in makefile:gmatch "%$%(eval %$%(call c_module,([^\n]+)%)%)\n" do
  local _, file, sources, _, linked = call:match "^(.-),(.-),([^,]+),?([^,]*),?([^,]*)"
  local libraries = {}
  for name in linked:gmatch "%-l(%w+)" do libraries[#libraries + 1] = name end
  c_modules[file] = { sources = KIT .. " " .. sources, libraries = libraries }
end

-- ---- parts of a rockspec ----

-- The names, each in this form.
local function each(names, form, between)
  local list = {}
  for i, name in ipairs(names) do list[i] = form:format(name) end
  return table.concat(list, between)
end

local function braced(names) return ("{ %s }"):format(each(names, "%q", ", ")) end

local function sorted_keys(map)
  local list = {}
  for key in pairs(map or {}) do list[#list + 1] = key end
  table.sort(list)
  return list
end

local function module_of(file) return "runnel." .. file:gsub("%.so$", ""):gsub("/", ".") end

-- A C module. _POSIX_C_SOURCE is as in the Makefile. A file of a list has a line of its own, so that changes of two
-- people can be merged.
local function c_module(rock, file)
  local from, folders, libraries = c_modules[file], { rock.root .. "csrc" }, { "pthread" }
  table.move(from.libraries, 1, #from.libraries, 2, libraries)
  local found = {}
  for i, name in ipairs(sorted_keys(rock.external)) do
    folders[i + 1], found[i] = ("$(%s_INCDIR)"):format(name), ("$(%s_LIBDIR)"):format(name)
  end
  return ([[
    [%q] = {
      sources = {
%s
      },
      defines = { "_POSIX_C_SOURCE=200809L" },
      incdirs = %s,
      libdirs = %s,
      libraries = %s,
    },
]]):format(module_of(file), each(files(from.sources), ('        "%s%%s",'):format(rock.root), "\n"),
    braced(folders), braced(found), braced(libraries))
end

local function builtin(rock)
  local out = {}
  for _, file in ipairs(rock.c or {}) do out[#out + 1] = c_module(rock, file) end
  for _, path in ipairs(rock.lua and files(rock.lua) or {}) do
    local name = path:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/", ".")
    out[#out + 1] = ("    [%q] = %q,\n"):format(name, rock.root .. path)
  end
  -- Before version 2.34 of glibc, dlopen was in a library of its own.
  local others = rock.name == "runnel" and '  platforms = { linux = { modules = { ["runnel.core"] = { '
    .. 'libraries = { "pthread", "dl" } } } } },\n' or ""
  return ('{\n  type = "builtin",\n  modules = {\n%s  },\n%s}'):format(table.concat(out), others)
end

local MAKE <const> = [[
{
  type = "command",
  build_command = "make -C ../.. rock CC='$(CC)' CFLAGS='$(CFLAGS)' LUA='$(LUA)' LUA_CFLAGS='-I$(LUA_INCDIR)'",
  install_command = "make -C ../.. install-rock LIBDIR='$(LIBDIR)' LUA='$(LUA)'",
}]]

-- What must be there besides LuaRocks, before the build.
local function further(rock)
  local lines = {}
  for _, name in ipairs(sorted_keys(rock.external)) do
    for how, what in pairs(rock.external[name]) do
      lines[#lines + 1] = ("  %s = { %s = %q },\n"):format(name, how, what)
    end
  end
  return (rock.c and 'supported_platforms = { "unix" }\n' or "")
    .. (lines[1] and ("external_dependencies = {\n%s}\n"):format(table.concat(lines)) or "")
end

-- Where a rock is built. LuaRocks copies the folder `lua` that it finds there into the rock, whatever the rockspec
-- says: so the rock `runnel` has all Lua modules, and the others are built where there is no such folder.
local BUILT_IN <const> = "packaging/rockspecs"
for _, rock in ipairs(rocks) do rock.root = rock.name == "runnel" and "" or "../../" end

local function text_of(rock, version, source, first)
  local values = { NAME = rock.name, VERSION = version, SOURCE = source, FIRST = first, SUMMARY = rock.summary,
    TEST = ("make %stest SPEC=%s"):format(rock.root == "" and "" or "-C ../.. ", rock.specs),
    FURTHER = further(rock), BUILD = rock.make and MAKE or builtin(rock),
    DETAILED = rock.detailed:find "\n" and "[[\n" .. rock.detailed .. "]]" or ("%q"):format(rock.detailed),
    DEPENDENCIES = ("%q"):format(rock.dependencies or "lua >= 5.4, < 5.6")
      .. ((rock.name == "runnel" or rock.lua) and "" or (', "runnel == %s"'):format(version)) }
  for name, value in read "packaging/project":gmatch "\n([%u_]+)=([^\n]+)" do values[name] = value end
  return (read "packaging/rockspec.in":gsub("@(%u+)@", function(name) return assert(values[name], name) end))
end

if arg and arg[0] and arg[0]:find "rockspec%.lua$" and arg[2] then
  local version, folder = arg[1], arg[2]
  local sources = assert(read "packaging/project":match "\nSOURCES=([^\n]+)")
  local source = ('url = "%s/v%s/runnel-%s.tar.gz", dir = "runnel-%s'):format(sources, version, version, version)
  for _, rock in ipairs(rocks) do
    local file <close> = assert(io.open(("%s/%s-%s-1.rockspec"):format(folder, rock.name, version), "w"))
    file:write(text_of(rock, version .. "-1", source .. (rock.root == "" and '"' or "/" .. BUILT_IN .. '"'),
      "Made by scripts/rockspec.lua."))
  end
  return
end

local texts = {}
for _, rock in ipairs(rocks) do
  local name = rock.name .. "-scm-1.rockspec"
  texts[rock.root == "" and name or BUILT_IN .. "/" .. name] = text_of(rock, "scm-1", 'url = "."',
    ("In this folder: luarocks --lua-version 5.4 make %s. Made by `make project`."):format(name))
end
return texts
