-- lua scripts/project.lua [--check | --placeholders | --list]: writes the files that name the project's addresses, with
-- the values of packaging/project: those of packaging/templates, and the rockspecs. With --check it writes nothing, and
-- fails if a file is not as it would be written. With --placeholders it fails if an address is still a placeholder.
-- --list prints the paths of these files.
package.path = "./?.lua;" .. package.path

local TARGETS <const> = {
  ["packaging/templates/SECURITY.md"] = "SECURITY.md",
  ["packaging/templates/issue_config.yml"] = ".github/ISSUE_TEMPLATE/config.yml",
}
local PLACEHOLDER <const> = "example.invalid"

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

local function values()
  local found, names = {}, {}
  for name, value in read "packaging/project":gmatch "\n([%u_]+)=([^\n]+)" do
    found[name] = value
    names[#names + 1] = name
  end
  return found, names
end

local addresses, names = values()

local function filled(text)
  return (text:gsub("@([%u_]+)@", function(name) return assert(addresses[name], name) end))
end

-- What each file should be, by its path.
local function files()
  local wanted = {}
  for template, target in pairs(TARGETS) do wanted[target] = filled(read(template)) end
  for path, text in pairs(require "scripts.rockspec") do wanted[path] = text end
  return wanted
end

local function fail(...)
  io.stderr:write(...)
  os.exit(1)
end

if arg[1] == "--list" then
  for path in pairs(files()) do print(path) end
elseif arg[1] == "--placeholders" then
  local left = {}
  for _, name in ipairs(names) do
    if addresses[name]:find(PLACEHOLDER, 1, true) then left[#left + 1] = ("%s=%s"):format(name, addresses[name]) end
  end
  if #left > 0 then
    fail("packaging/project still has placeholders:\n  ", table.concat(left, "\n  "),
      "\nSet them, run `make project`, and commit what it has written\n")
  end
else
  for path, text in pairs(files()) do
    local file <close> = io.open(path)
    local is_same = file ~= nil and file:read "a" == text
    if not is_same and arg[1] == "--check" then fail(path, " is not what `make project` writes\n") end
    if not is_same then
      local out <close> = assert(io.open(path, "w"))
      out:write(text)
      print("written: " .. path)
    end
  end
end
