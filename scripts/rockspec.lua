-- The rockspecs, from packaging/rockspec.in, packaging/rocks.lua and packaging/project.
-- As a script, lua scripts/rockspec.lua VERSION FOLDER: writes those of a version, for `luarocks upload`; their source
-- is the archive at the address SOURCES. As a module: the texts of those of the source tree, by their paths.
package.path = "./?.lua;" .. package.path

local rocks = require "packaging.rocks"

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

local function text_of(rock, version, source, first)
  local values = { NAME = rock.name, VERSION = version, SOURCE = source, FIRST = first, SUMMARY = rock.summary,
    SPECS = rock.specs,
    DETAILED = rock.detailed:find "\n" and "[[\n" .. rock.detailed .. "]]" or ("%q"):format(rock.detailed),
    DEPENDENCIES = '"lua >= 5.4, < 5.6"' .. (rock.name == "runnel" and "" or (', "runnel == %s"'):format(version)) }
  for name, value in read "packaging/project":gmatch "\n([%u_]+)=([^\n]+)" do values[name] = value end
  return (read "packaging/rockspec.in":gsub("@(%u+)@", function(name) return assert(values[name], name) end))
end

if arg and arg[0] and arg[0]:find "rockspec%.lua$" and arg[2] then
  local version, folder = arg[1], arg[2]
  local sources = assert(read "packaging/project":match "\nSOURCES=([^\n]+)")
  local source = ('url = "%s/v%s/runnel-%s.tar.gz", dir = "runnel-%s"'):format(sources, version, version, version)
  for _, rock in ipairs(rocks) do
    local file <close> = assert(io.open(("%s/%s-%s-1.rockspec"):format(folder, rock.name, version), "w"))
    file:write(text_of(rock, version .. "-1", source, "Made by scripts/rockspec.lua."))
  end
  return
end

local texts = {}
for _, rock in ipairs(rocks) do
  local path = rock.name == "runnel" and "runnel-scm-1.rockspec" or ("rockspecs/%s-scm-1.rockspec"):format(rock.name)
  local first = rock.name == "runnel"
    and "Builds from the directory that it is in: luarocks --lua-version 5.4 make. Made by `make project`."
    or ("From the directory above: luarocks --lua-version 5.4 make %s. Made by `make project`."):format(path)
  texts[path] = text_of(rock, "scm-1", 'url = "."', first)
end
return texts
