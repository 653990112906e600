-- Plants faults in csrc/channels, csrc/blocks and csrc/base, one at a time, and says what finds each. Run by
-- `make mutants`:
--
--   lua5.4 tests/mutants/mutants.lua run BUILD COUNT SEED [J OF]
--       COUNT of the faults of faults.lua (0: all), spread over the sources; process J of so many. Goes on with what
--       BUILD/done does not list. With FILES=pattern and AGAIN=1 in the environment: only those files; those again that
--       neither prove nor the model has found
--   lua5.4 tests/mutants/mutants.lua tell BUILD COUNT SEED
--       the table, and the faults that neither prove nor the model has found; fails if there is one that equivalent.lua
--       does not explain
--   lua5.4 tests/mutants/mutants.lua list BUILD COUNT SEED
--
-- BUILD is a folder in which make has built the core without faults, with -O1, and has written how: flags, libs, parts.

local equivalent = require "tests.mutants.equivalent"
local faults = require "tests.mutants.faults"

local FOLDERS = { "csrc/base", "csrc/blocks", "csrc/channels" }

local CC, LUA = os.getenv "CC" or "gcc", os.getenv "LUA" or "lua5.4"

local mode, build, count, seed, j, of = table.unpack(arg)
count, seed, j, of = tonumber(count), tonumber(seed), tonumber(j or 1), tonumber(of or 1)

-- What finds faults, in this order: a name, a command, its limits of CPU time and of time in seconds. `O` is the folder
-- of the fault. The specs are run with the whole core, so these link the executable, too.
local LIMIT = tonumber(os.getenv "LIMIT" or 30)
local FINDERS = {
  { "prove", "O/structures 1", 5 },
  { "prove", "LUA tests/prove/prove.lua first 1", 14 },
  { "prove", "LUA tests/prove/prove.lua sample 1 1500", LIMIT },
  { "model", "O/runner tests/model.lua seeds 1 1500", LIMIT },
  os.getenv "SPECS" ~= "no" and { "specs", "LUA scripts/specs.lua spec/core -- --exclude-tags=long", 300 } or nil,
}

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

local function write(path, text)
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
end

-- Runs a command. Returns its status, and what it has written.
local function shell(command)
  local pipe = assert(io.popen("{ " .. command .. "\n} 2>&1"))
  local said = pipe:read "a"
  local _, how, code = pipe:close()
  return how == "signal" and 128 + code or code, said
end

-- All faults, and those that are chosen.
local function choose()
  local all = {}
  for _, folder in ipairs(FOLDERS) do
    local _, names = shell(("ls %s/*.[ch]"):format(folder))
    for path in names:gmatch "%S+" do
      if path:find(os.getenv "FILES" or "") and not equivalent.files[path] then
        for _, fault in ipairs(faults.of(path)) do all[#all + 1] = fault end
      end
    end
  end
  return all, count > 0 and faults.choose(all, count, seed) or all
end

-- ---- one fault ----

-- The functions and macros of headers, by name, with their texts: those that a fault in a header reaches are those that
-- use it, or use one that does.
local in_headers
local function read_headers()
  in_headers = {}
  local _, names = shell "find csrc -name '*.h'"
  for path in names:gmatch "%S+" do
    local name
    for line in io.lines(path) do
      local macro = line:match "^#define ([%w_]+)"
      if macro then name = macro
      elseif line:find "^[%a_].*%(" then name = line:match "([%w_]+)%(" end
      if name then in_headers[name] = (in_headers[name] or "") .. line .. "\n" end
      if line:find "^}" or not line:find "\\$" and macro then name = nil end
    end
  end
end

-- The names of all that a header's function reaches, itself included.
local function reach(name)
  if not in_headers then read_headers() end
  local list, is_in = { name }, { [name] = true }
  for _, used in ipairs(list) do
    for other, text in pairs(in_headers) do
      if not is_in[other] and text:find("%f[%w_]" .. used .. "%f[^%w_]") then
        is_in[other], list[#list + 1] = true, other
      end
    end
  end
  return list
end

-- The objects that a fault changes, from the lists that the compiler has written: those made from its file, or from one
-- that includes it and uses what it reaches.
local function objects_of(fault)
  local list, found = {}, fault.file:find "%.h$" and reach(fault.where)
  local _, names = shell(("grep -lwF '%s' $(find %s/obj %s/tests -name '*.d')"):format(fault.file, build, build))
  for name in names:gmatch "%S+" do
    local object = name:gsub("^" .. build .. "/(.*)%.d$", "%1")
    local is_user = not found
    local text = found and read((object:gsub("^obj/", "csrc/")) .. ".c")
    for _, used in ipairs(found or {}) do is_user = is_user or text:find("%f[%w_]" .. used .. "%f[^%w_]") ~= nil end
    if is_user then list[#list + 1] = object end
  end
  return list
end

local flags, libs
local function compile(folder, fault, object)
  local source = object:find "^obj/" and "csrc/" .. object:sub(5) .. ".c" or object .. ".c"
  if source == fault.file then source = folder .. "/" .. source end
  local exceptions = object == "obj/capi/api" and "-fexceptions" or ""
  return shell(("mkdir -p %s/new/$(dirname %s) && %s -iquote %s/csrc %s %s -w -c -o %s/new/%s.o %s"):format(folder,
    object, CC, folder, flags, exceptions, folder, object, source)) == 0
end

-- The programs: what links them besides the compiler's own options, and their objects.
local core = read(build .. "/parts"):gsub("%S+/(obj/)", "%1"):gsub("%s+", " ")
local PROGRAMS = {
  ["runnel/core.so"] = { "-shared", core },
  structures = { "", "tests/prove/structures.o obj/base/clock.o obj/base/heap.o obj/base/map.o obj/base/windows.o" },
  runner = { "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc",
    "tests/runner.o tests/memory.o tests/invariants.o " .. core },
}

-- Links a program, with new objects in place of those that they replace.
local function link(folder, program)
  local options, objects = table.unpack(PROGRAMS[program])
  local _, names = shell(("cd %s/new && find . -name '*.o'"):format(folder))
  local new = {}
  for name in names:gmatch "%./(%S+)" do new[name] = true end
  local list = objects:gsub("%S+", function(name) return (new[name] and folder .. "/new/" or build .. "/") .. name end)
  local status, said = shell(("mkdir -p %s/runnel && %s -O1 %s -o %s/%s %s %s"):format(folder, CC, options, folder,
    program, list, libs))
  if status ~= 0 then error(said) end
end

-- Runs a command, and ends it when it has not been switched to or from for 15 seconds: then it waits for something that
-- never comes. On a busy machine time says nothing. (The specs run in processes of their own, for which theirs waits.)
local UNLESS_IT_WAITS = [[
"$@" & pid=$!; idle=0; last=
while now=$(grep -e State -e ctxt /proc/$pid/status 2>/dev/null) && [ "${now#*zombie}" = "$now" ]; do
  if [ "$now" = "$last" ]; then idle=$((idle + 1)); else idle=0; fi
  last=$now
  if [ $idle -gt 30 ]; then kill -9 $pid; fi
  sleep 0.5
done
wait $pid
]]

-- Runs what may find the fault, with the programs of a folder. Returns how it has: difference, crash or hang; or nil.
local function finds(folder, command, seconds)
  command = command:gsub("^O/", folder .. "/"):gsub("^LUA ", LUA .. " ")
  if not command:find "specs" then command = ("sh -c '%s' sh %s"):format(UNLESS_IT_WAITS, command) end
  -- An absolute path, since some specs change the folder.
  local status, said = shell(('ulimit -t %d; export LUA_CPATH="$PWD/%s/?.so;;"; exec timeout -k 2 %d %s'):format(
    seconds, folder, seconds * 40, command))
  if status == 0 then return end
  if status == 124 or status == 137 or status == 152 then return "hang", said end
  return status > 128 and "crash" or "difference", said
end

-- Returns what finds a fault, and how; "not counted" and why, if it is none.
local function try(folder, fault)
  shell(("cd %s && rm -rf new csrc && mkdir -p new $(dirname %s)"):format(folder, fault.file))
  write(folder .. "/" .. fault.file, faults.plant(fault))
  local is_new, is_in = false, {} -- which programs have new objects
  for _, object in ipairs(objects_of(fault)) do
    if not compile(folder, fault, object) then return "not counted", "does not compile" end
    local same = shell(("cmp -s %s/%s.o %s/new/%s.o"):format(build, object, folder, object)) == 0
    if same then os.remove(("%s/new/%s.o"):format(folder, object)) else is_new = true end
    for program, parts in pairs(PROGRAMS) do
      local has_it = not same and (" " .. parts[2] .. " "):find(" " .. object .. ".o ", 1, true) ~= nil
      is_in[program] = is_in[program] or has_it
    end
  end
  if not is_new then return "not counted", "the same code" end
  link(folder, "runnel/core.so")
  for _, finder in ipairs(FINDERS) do
    local name, command, seconds = table.unpack(finder)
    local program = command:match "^O/(%w+)" or "runnel/core.so"
    local how, said
    if is_in[program] then
      if program ~= "runnel/core.so" then link(folder, program) end
      how, said = finds(folder, command, seconds)
    end
    if how then return name, how, said end
  end
  return "none", "-"
end

-- ---- the list of what was done ----

-- What is done: by key, what has found it, and how.
local function done()
  local list = {}
  local file = io.open(build .. "/done")
  if not file then return list end
  for line in file:lines() do
    local key, name, how = line:match "^(.-)\t(.-)\t(.-)\t"
    if key then list[key] = { name = name, how = how } end
  end
  file:close()
  return list
end

local modes = {}

-- What finds faults must find none in the core without them.
local function check_finders()
  for _, finder in ipairs(FINDERS) do
    local _, command, seconds = table.unpack(finder)
    local how, said = finds(build, command, seconds)
    if how then error(("there is a fault already: %s, %s\n%s"):format(command, how, said), 0) end
  end
end

function modes.run()
  shell(("mkdir -p %s/fault%d"):format(build, j))
  local _, chosen = choose()
  local known, folder, is_checked = done(), ("%s/fault%d"):format(build, j), j > 1
  flags, libs = read(build .. "/flags"):gsub("\n", " "), read(build .. "/libs")
  for i = (j - 1) % of + 1, #chosen, of do
    local fault = chosen[i]
    local key = faults.key(fault)
    local before = known[key]
    local again = os.getenv "AGAIN" and before and (before.name == "none" or before.name == "specs")
    local only = os.getenv "ONLY" -- runs the faults whose keys contain this, also again
    if only then before, again = not key:find(only, 1, true), true end
    if only and not before or not only and (not before or again) then
      if not is_checked then check_finders() end
      is_checked = true
      local began = os.time()
      local name, how, said = try(folder, fault)
      known[key] = { name = name, how = how }
      local file <close> = assert(io.open(build .. "/done", "a"))
      file:write(("%s\t%s\t%s\t%d s\n"):format(key, name, how, os.time() - began))
      print(("%d of %d: %s, %s (%d s): %s:%d %s"):format(i, #chosen, name, how, os.time() - began, fault.file,
        fault.line, key))
      if os.getenv "SHOW" and said then print(said:sub(1, 1500)) end
      io.stdout:flush()
    end
  end
end

function modes.list()
  local _, chosen = choose()
  for _, fault in ipairs(chosen) do print(("%s:%d: %s"):format(fault.file, fault.line, faults.key(fault))) end
end

function modes.tell()
  local all, chosen = choose()
  local known, by_key = done(), {}
  for _, fault in ipairs(all) do by_key[faults.key(fault)] = fault end
  for key in pairs(equivalent.faults) do
    if not by_key[key] then error("tests/mutants/equivalent.lua explains a fault that there is not: " .. key, 0) end
  end
  local NAMES = { "prove", "model", "equivalent", "specs", "none" }
  local files, sums, ways, missing, unexplained = {}, {}, {}, 0, {}
  for _, fault in ipairs(chosen) do
    local key = faults.key(fault)
    local found = known[key]
    if not found then
      missing = missing + 1
    elseif found.name ~= "not counted" then
      local name = found.name
      local is_late = name == "specs" or name == "none"
      if is_late and equivalent.faults[key] then name = "equivalent" elseif is_late then
        unexplained[#unexplained + 1] = { fault, name }
      end
      local counts = files[fault.file]
      if not counts then
        counts = { name = fault.file }
        files[#files + 1], files[fault.file] = counts, counts
      end
      counts[name], sums[name] = (counts[name] or 0) + 1, (sums[name] or 0) + 1
      sums.all = (sums.all or 0) + 1
      if name ~= "equivalent" and name ~= "none" then ways[found.how] = (ways[found.how] or 0) + 1 end
    end
  end
  local function row(name, counts)
    local cells = {}
    for i, column in ipairs(NAMES) do cells[i] = ("%10d"):format(counts[column] or 0) end
    print(("%-32s%s"):format(name, table.concat(cells)))
  end
  print(("%-32s%10s%10s%10s%10s%10s"):format("faults found by", table.unpack(NAMES)))
  for _, counts in ipairs(files) do row(counts.name, counts) end
  row("all", sums)
  local found, counted = (sums.prove or 0) + (sums.model or 0), (sums.all or 0) - (sums.equivalent or 0)
  print(("\nprove and model find %d of %d faults, %.1f %%: by a difference %d, a crash %d, a hang %d"):format(found,
    counted, 100 * found / math.max(counted, 1), ways.difference or 0, ways.crash or 0, ways.hang or 0))
  for _, pair in ipairs(unexplained) do
    local fault, name = table.unpack(pair)
    print(("\n%s:%d, %s, found by %s:\n-%s\n+%s\n%s"):format(fault.file, fault.line, fault.where, name,
      fault.before:gsub("\n", "\n-"), fault.after:gsub("\n", "\n+"), faults.key(fault)))
  end
  if missing > 0 then print(("%d faults have not been tried"):format(missing)) end
  if missing > 0 or found < 0.98 * counted or (sums.none or 0) > 0 then os.exit(false) end
end

modes[mode]()
