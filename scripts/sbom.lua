-- lua scripts/sbom.lua VERSION COMMIT DATE [--program FILE] LIBRARY...: prints, as JSON of SPDX 2.3, what an executable
-- is made of: runnel, the files of others in its source tree, and the libraries that are linked into it. A LIBRARY is
-- an archive (.a), whose code is in the executable, or a shared library (.so) or -lNAME, which the system must have.
-- With --program: of a program that `runnel build` has written, whose script, modules and libraries are listed, too.
-- The same arguments give the same text.

local version, commit, date = arg[1], arg[2], arg[3]
assert(date, "usage: sbom.lua VERSION COMMIT DATE [--program FILE] LIBRARY...")

-- The names, licences and homes of libraries, by the names of their files without the version.
local GLIBC <const> = { "glibc", "LGPL-2.1-or-later", "https://www.gnu.org/software/libc/" }
local OPENSSL <const> = { "OpenSSL", "Apache-2.0", "https://www.openssl.org/" }
local GNU <const> = "LGPL-3.0-or-later OR GPL-2.0-or-later"
local KNOWN <const> = {
  lua = { "Lua", "MIT", "https://www.lua.org/" },
  edit = { "libedit", "BSD-3-Clause", "https://thrysoee.dk/editline/" },
  bsd = { "libbsd", "BSD-3-Clause AND ISC AND MIT", "https://libbsd.freedesktop.org/" },
  md = { "libmd", "BSD-3-Clause AND ISC", "https://www.hadrons.org/software/libmd/" },
  tinfo = { "ncurses", "X11", "https://invisible-island.net/ncurses/" },
  curl = { "curl", "curl", "https://curl.se/" },
  ssl = OPENSSL, crypto = OPENSSL,
  z = { "zlib", "Zlib", "https://zlib.net/" },
  nats = { "nats.c", "Apache-2.0", "https://github.com/nats-io/nats.c" },
  sqlite3 = { "SQLite", "blessing", "https://sqlite.org/" },
  nghttp2 = { "nghttp2", "MIT", "https://nghttp2.org/" },
  psl = { "libpsl", "MIT", "https://github.com/rockdaboot/libpsl" },
  idn2 = { "libidn2", GNU, "https://www.gnu.org/software/libidn/" },
  unistring = { "libunistring", GNU, "https://www.gnu.org/software/libunistring/" },
  uv = { "libuv", "MIT", "https://libuv.org/" },
  gcc_s = { "libgcc", "GPL-3.0-only WITH GCC-exception-3.1", "https://gcc.gnu.org/" },
  c = GLIBC, m = GLIBC, pthread = GLIBC, dl = GLIBC,
}

-- The files of others in the source tree, with the names of their versions in scripts/vendor.
local VENDORED <const> = {
  { "uPlot", "UPLOT", "MIT", "https://github.com/leeoniya/uPlot" },
  { "dagre", "DAGRE", "MIT", "https://github.com/dagrejs/dagre" },
  { "preact", "PREACT", "MIT", "https://preactjs.com/" },
  { "htm", "HTM", "Apache-2.0", "https://github.com/developit/htm" },
}

-- The first line that a command prints; nil if it fails.
local function first_line(command)
  local pipe <close> = assert(io.popen(command .. " 2>/dev/null"))
  local line = pipe:read "l"
  return line ~= "" and line or nil
end

local function quoted(text) return "'" .. text:gsub("'", [['\'']]) .. "'" end

-- The version of a library: what the system's packages say, or pkg-config.
local function version_of(file, name, is_glibc)
  if is_glibc then return (first_line "getconf GNU_LIBC_VERSION" or ""):match "%S+$" end
  local path = file:find "/" and first_line("realpath " .. quoted(file))
  local package = path and (first_line("dpkg-query -S " .. quoted(path)) or ""):match "^([^:]+:?%w*): "
  local found = package and first_line("dpkg-query -W -f '${Version}' " .. quoted(package))
  return found or first_line("pkg-config --modversion " .. quoted(name))
    or first_line("pkg-config --modversion " .. quoted("lib" .. name))
end

local packages, relations, seen = {}, {}, {}

local function add(name, found, licence, home, relation)
  local id = "SPDXRef-" .. name:gsub("[^%w.-]", "-")
  if seen[id] then return end
  seen[id] = true
  packages[#packages + 1] = { SPDXID = id, name = name, versionInfo = found or "NOASSERTION", filesAnalyzed = false,
    downloadLocation = home or "NOASSERTION", licenseConcluded = licence or "NOASSERTION",
    licenseDeclared = licence or "NOASSERTION", copyrightText = "NOASSERTION" }
  if relation then
    relations[#relations + 1] = { spdxElementId = "SPDXRef-runnel", relationshipType = relation,
      relatedSpdxElement = id }
  end
end

local function add_library(file)
  local name = file:match "^%-l(.+)$" or file:match "lib([%w_.+-]+)%.a$" or file:match "lib([%w_+-]+[%d.]*)%.so"
  if not name then return end
  local known = KNOWN[name] or name:find "^lua%d" and KNOWN.lua or { name }
  add(known[1], version_of(file, name, known == GLIBC), known[2], known[3],
    file:find "%.a$" and "STATIC_LINK" or "DYNAMIC_LINK")
end

-- The script, the modules and the libraries that a program of runnel build carries.
local function add_program(path)
  local runnel = os.getenv "RUNNEL" or "build/bin/runnel"
  local pipe <close> = assert(io.popen(("%s build --list %s"):format(quoted(runnel), quoted(path))))
  for line in pipe:lines() do
    local kind, what = line:match "^(%u?%l*%s?%l+)%s%s+(%S+)"
    if kind == "shared library" then
      add_library(what)
    elseif kind then
      add(kind .. " " .. what, nil, nil, nil, "CONTAINS")
    end
  end
end

local project = {}
for line in io.lines "packaging/project" do
  local name, value = line:match "^([%u_]+)=(.*)$"
  if name then project[name] = value end
end

add("runnel", version, "MIT", project.HOMEPAGE)
local vendor <close> = assert(io.open "scripts/vendor")
local versions = vendor:read "a"
for _, one in ipairs(VENDORED) do
  add(one[1], assert(versions:match("%f[%w]" .. one[2] .. "=([%d.]+)"), one[2]), one[3], one[4], "CONTAINS")
end
local at = 4
while arg[at] do
  if arg[at] == "--program" then
    at = at + 1
    add_program(arg[at])
  else
    add_library(arg[at])
  end
  at = at + 1
end

-- A value as JSON, with the fields in order.
local function encoded(value, indent)
  if type(value) == "table" then
    local inner, texts = indent .. "  ", {}
    if value[1] then
      for i, element in ipairs(value) do texts[i] = inner .. encoded(element, inner) end
      return ("[\n%s\n%s]"):format(table.concat(texts, ",\n"), indent)
    end
    for key, field in pairs(value) do texts[#texts + 1] = ('%s"%s": %s'):format(inner, key, encoded(field, inner)) end
    table.sort(texts)
    return ("{\n%s\n%s}"):format(table.concat(texts, ",\n"), indent)
  elseif type(value) == "string" then
    return '"' .. value:gsub('[%c"\\]', function(c) return ("\\u%04x"):format(c:byte()) end) .. '"'
  end
  return tostring(value)
end

print(encoded({
  spdxVersion = "SPDX-2.3", dataLicense = "CC0-1.0", SPDXID = "SPDXRef-DOCUMENT", name = "runnel-" .. version,
  documentNamespace = ("%s/spdx/runnel-%s-%s"):format(project.HOMEPAGE, version, commit),
  creationInfo = { created = date, creators = { "Tool: runnel-sbom", "Organization: the runnel authors" } },
  packages = packages, relationships = { { spdxElementId = "SPDXRef-DOCUMENT",
    relationshipType = "DESCRIBES", relatedSpdxElement = "SPDXRef-runnel" }, table.unpack(relations) },
}, ""))
