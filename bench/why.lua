-- lua5.4 bench/why.lua: the table of docs/why.md: lines, time and memory of the programs in examples/why. Needs GNU
-- time, Go, node, python3, and runnel (RUNNEL, or build/bin/runnel).

local DIR <const> = "examples/why"
local RUNS <const>, TIMES <const> = 5, 10 -- so often in one measurement
local PROGRAMS <const> = {
  "limit", "first", "timeout", "retry", "stages", "merge", "failing", "batch", "topics", "commands",
}

local binary = os.tmpname()
assert(os.execute(("cd %s && GO111MODULE=off go build -o %s *.go"):format(DIR, binary)))

-- What python3 is behind a script that chooses one.
local function python()
  local pipe <close> = assert(io.popen "python3 -c 'import sys; print(sys.executable)'")
  return pipe:read "l"
end

local runnel = os.getenv "RUNNEL" or "build/bin/runnel"
local LANGUAGES <const> = {
  { ending = "lua", comment = "^%s*%-%-", command = runnel .. " " .. DIR .. "/%s.lua" },
  { ending = "py", comment = "^%s*#", command = python() .. " " .. DIR .. "/%s.py" },
  { ending = "go", comment = "^%s*//", command = binary .. " %s" },
  { ending = "js", comment = "^%s*//", command = "node " .. DIR .. "/%s.js" },
}

-- Lines that are neither empty nor a comment.
local function count(program, language)
  local n = 0
  for line in io.lines(("%s/%s.%s"):format(DIR, program, language.ending)) do
    if line:find "%S" and not line:find(language.comment) then n = n + 1 end
  end
  return n
end

-- The CPU time in ms, and the memory in MB: of the run that took least.
local function measure(command)
  local best_cpu, best_memory = math.huge, math.huge
  for _ = 1, RUNS do
    local loop = ("i=0; while [ $i -lt %d ]; do %s; i=$((i + 1)); done"):format(TIMES, command)
    local pipe = assert(io.popen(("/usr/bin/time -f '%%U %%S %%M' sh -c '%s' 2>&1 >/dev/null"):format(loop)))
    local user, system, memory = pipe:read "a":match "([%d.]+) ([%d.]+) (%d+)\n$"
    pipe:close()
    best_cpu = math.min(best_cpu, (user + system) * 1000 / TIMES)
    best_memory = math.min(best_memory, memory / 1024)
  end
  return best_cpu, best_memory
end

for _, program in ipairs(PROGRAMS) do
  local lines, cpus, memories = {}, {}, {}
  for i, language in ipairs(LANGUAGES) do
    local cpu, memory = measure(language.command:format(program))
    lines[i], cpus[i], memories[i] = count(program, language), ("%.0f"):format(cpu), ("%.0f"):format(memory)
  end
  print(("| %s | %s | %s | %s |"):format(program, table.concat(lines, ", "), table.concat(cpus, ", "),
    table.concat(memories, ", ")))
end
os.remove(binary)
