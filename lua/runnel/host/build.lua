---`runnel build SCRIPT`: writes an executable that runs the script on a machine without Lua and runnel.

local builder = require "runnel.host.builder"
local bundle = require "runnel.host.build_bundle"
local decimal = require "runnel.internal.decimal"
local elf = require "runnel.host.build_elf"
local parts = require "runnel.host.build_parts"

local USAGE = [[
usage: runnel build SCRIPT [OPTIONS]
       runnel build --list PROGRAM
       runnel build --relink PROGRAM -o FILE
Writes one executable with the script, the modules that it requires, and Lua and runnel. Options:
  -o FILE              the executable; without it the script's name without .lua, in this folder
  --include MODULE...  put further modules inside: those whose names are computed
  --exclude MODULE...  leave modules out
  --file PATH...       put files inside, and all files of folders, hidden ones too, for rn.file; a PATH may be a
                       pattern, as in 'www/*'
  --libraries          put inside the shared libraries that C modules need; then the program needs only the C library
  --version TEXT       what the program's option --version prints
  --monitor            the program takes the option --monitor[=PORT] of runnel, before its own arguments
  --trace              the program takes the options --trace=FILE and --trace-records=N of runnel
  --profile            the program takes the option --profile=FILE of runnel
  --list PROGRAM       list what is in an executable that runnel build has written
  --relink PROGRAM     write such an executable with this runnel, in place of the runnel that is in it
  -h, --help           show this
]]

-- Ends the program with a message.
local function fail(message, ...)
  io.stderr:write("runnel build: ", message:format(...), "\n")
  os.exit(1, true)
end

local function wrong_usage(message, ...)
  io.stderr:write("runnel build: ", message:format(...), "\n(runnel build --help lists the options)\n")
  os.exit(2, true)
end

-- ---- the command line ----

local LISTS = { ["--include"] = "include", ["--exclude"] = "exclude", ["--file"] = "files" } -- several words each
local VALUES = { ["-o"] = "output", ["--version"] = "version", ["--list"] = "list",
  ["--relink"] = "relink" } -- one word each
local FLAGS = { ["--libraries"] = "libraries", ["--monitor"] = "monitor", ["--trace"] = "trace",
  ["--profile"] = "profile", ["--help"] = "help", ["-h"] = "help" }

-- The options of runnel that a program takes, each behind the option of build that gives it these.
local PROGRAM_OPTIONS = { { "monitor", "monitor" }, { "trace", "trace", "trace-records" }, { "profile", "profile" } }

local function is_option(word) return word:find "^%-." ~= nil end

---@param words string[]
---@return table options
local function read_options(words)
  local o, i = { include = {}, exclude = {}, files = {} }, 1
  while words[i] do
    local word = words[i]
    local name, given = word:match "^(%-%-[%w-]+)=(.*)$"
    name = name or word
    i = i + 1
    if not is_option(word) then
      if o.script then wrong_usage("one script only: %s or %s? Options come after it", o.script, word) end
      o.script = word
    elseif LISTS[name] then
      local list = o[LISTS[name]]
      local count = #list
      if given then list[count + 1] = given
      else
        while words[i] and not is_option(words[i]) do
          list[#list + 1] = words[i]
          i = i + 1
        end
      end
      if #list == count then wrong_usage("'%s' needs an argument", name) end
    elseif VALUES[name] then
      local value = given or words[i]
      if not value or value == "" then wrong_usage("'%s' needs an argument", name) end
      if not given then i = i + 1 end
      o[VALUES[name]] = value
    elseif FLAGS[name] and not given then o[FLAGS[name]] = true
    else wrong_usage("unrecognized option '%s'", word) end
  end
  return o
end

-- The file to write.
local function output_of(o)
  local name = o.output or o.script:match "([^/]+)%.lua$"
  if not name then wrong_usage("which file is to be written? Give it as -o FILE") end
  local kind = builder.kind(name)
  if kind and kind ~= "file" then wrong_usage("%s is no file; give another one as -o FILE", name) end
  if name:find "%.lua$" then
    wrong_usage("%s would be written over, or is the name of a script; give another one as -o FILE", name)
  end
  if builder.is_same(name, "/proc/self/exe") then
    wrong_usage("%s is this runnel, and would be written over; give another one as -o FILE", name)
  end
  return name
end

-- The file to write must not replace something that goes into it, by whatever path that was named; but for an older
-- program, which is in a folder of files.
local function check_output(name, collected)
  for _, part in ipairs(collected.parts) do
    if part.path and builder.is_same(part.path, name) and not bundle.bytes(part.data) then
      wrong_usage("%s goes into the program, and would be written over; give another one as -o FILE", name)
    end
  end
end

-- ---- what is printed ----

local function size_of(bytes)
  if bytes < 1e6 then return ("%.0f KB"):format(bytes / 1e3) end
  return decimal.format("%.1f", bytes / 1e6) .. " MB"
end

local ORDER = { "script", "module", "c_module", "library", "file" }
local WORDS = { script = "script", module = "Lua module", c_module = "C module", library = "shared library",
  file = "file" }
local PLURALS = { module = "Lua modules", c_module = "C modules", library = "shared libraries", file = "files" }

-- As in "2 C modules (runnel.sqlite.core, luv)".
local function summary(list)
  local texts = {}
  for _, kind in ipairs(ORDER) do
    local names = {}
    for _, part in ipairs(list) do
      if part.kind == kind then names[#names + 1] = part.name end
    end
    local word = (#names == 1 and WORDS or PLURALS)[kind]
    local shown = table.concat(names, ", ", 1, math.min(#names, 8)) .. (#names > 8 and ", ..." or "")
    if kind == "script" then texts[1] = names[1]
    elseif #names > 0 then texts[#texts + 1] = ("%d %s (%s)"):format(#names, word, shown) end
  end
  return table.concat(texts, ", ")
end

local function report(name, size, collected, needed, has_libraries)
  print(("%s: %s, with %s"):format(name, size_of(size), summary(collected.parts)))
  print(("must be on the other machine: %s%s"):format(
    #needed.c_library > 0 and table.concat(needed.c_library, ", ") or "nothing",
    needed.glibc and (" (glibc %s or newer)"):format(needed.glibc) or ""))
  local libraries, can_be_inside = {}, false
  for library in pairs(needed.libraries) do libraries[#libraries + 1] = library end
  table.sort(libraries)
  for _, library in ipairs(libraries) do
    local users = needed.libraries[library]
    print(("must be on the other machine: %s, for %s"):format(library, table.concat(users, ", ")))
    can_be_inside = can_be_inside or users[1] ~= "runnel"
  end
  if can_be_inside and not has_libraries then print "(--libraries puts the shared libraries inside)" end
  for _, note in ipairs(collected.notes) do print("not inside: " .. note) end
end

-- The bytes of an executable that runnel build has written, and of its bundle.
local function read_program(path)
  local file <close>, missing = io.open(path, "rb")
  if not file then fail("%s", missing) end
  local program = file:read "a" or ""
  local bytes, why = bundle.bytes(program)
  if not bytes then fail("%s: %s", path, why) end
  return program, bytes
end

local function list(path)
  local _, bytes = read_program(path)
  for _, part in ipairs(bundle.unpack(bytes)) do
    local text = part.name
    if part.kind == "option" then text = "--" .. text end
    if WORDS[part.kind] then text = ("%-40s %8d bytes"):format(text, #part.data) end
    print(("%-15s %s"):format(WORDS[part.kind] or part.kind, text))
  end
end

-- ---- building ----

-- The executable that runs.
local function own_executable()
  local executable, none = bundle.executable()
  if not executable then fail("%s", none) end
  return executable
end

local function relink(o)
  for name, value in pairs(o) do
    local is_given = type(value) ~= "table" or #value > 0
    if is_given and name ~= "relink" and name ~= "output" then
      wrong_usage "--relink takes no script, and no option but -o"
    end
  end
  if not o.output then wrong_usage "which file is to be written? Give it as -o FILE" end
  local executable, program, bytes = own_executable(), read_program(o.relink)
  local was_static, is_static = elf.is_static(program), elf.is_static(executable)
  if was_static ~= is_static then
    fail("%s is %s static executable, and this runnel is %s: C modules of the program could not be loaded", o.relink,
      was_static and "a" or "no", is_static and "one" or "none")
  end
  local size, why = bundle.write(output_of(o), executable, bytes)
  if not size then fail("%s cannot be written: %s", o.output, why) end
  print(("%s: %s, with what is in %s"):format(o.output, size_of(size), o.relink))
end

local function build(o)
  local output = output_of(o)
  if o.monitor then table.insert(o.include, "runnel.monitor") end
  local executable = own_executable()
  local ok, collected = pcall(parts.collect, o.script, o.include, o.exclude, o.files, executable)
  if not ok then fail("%s", tostring(collected)) end
  check_output(output, collected)
  for _, names in ipairs(PROGRAM_OPTIONS) do
    if o[names[1]] then
      for i = 2, #names do collected:add { kind = "option", name = names[i] } end
    end
  end
  if o.version then
    collected:add { kind = "option", name = "version" }
    collected:add { kind = "version", name = o.version }
  end
  if o.libraries then
    local well, why = pcall(parts.add_libraries, collected)
    if not well then fail("%s", tostring(why)) end
  end
  local size, why = bundle.write(output, executable, bundle.pack(collected.parts))
  if not size then fail("%s cannot be written: %s", output, why) end
  report(output, size, collected, parts.needed(executable, collected), o.libraries)
end

---@param ... string the command line
return function(...)
  local o = read_options { ... }
  if o.help then return io.write(USAGE) end
  if o.list then return list(o.list) end
  if o.relink then return relink(o) end
  if not o.script then wrong_usage("which script?") end
  build(o)
end
