-- Where the instructions go: counts those of each operation, by the part of Lua or runnel that executes them.
--
--     lua5.4 bench/instructions.lua [LUA] [NAME...]        from the repository's root, after `make all`; NAMEs as below
--
-- LUA is an interpreter with debugging information, by which Lua's parts can be distinguished, for example one that is
-- compiled with -O2 -g and linked with -Wl,-E. Without it, all of Lua is one sum. Needs valgrind.
--
-- Each workload runs under callgrind for n operations and for 2 n: the difference is the cost of n operations, without
-- the start and the end of the process. Instructions are not time, but they are the same on every run.

local RUNNEL, FLOOR = "bench/peers/runnel/main.lua", "bench/peers/floor/main.lua"

-- The program, its workload, n, and how many operations each of the n is. `less`: the workload without these
-- operations, the cost of which is subtracted. Those with a 0 are without buffers; the same with a 16 have buffers of
-- 16.
local WORKLOADS = {
  { name = "switch", what = "resume + yield (floor)", program = FLOOR, n = 20000 },
  { name = "call", what = "a C call (floor)", program = FLOOR, n = 100000 },
  { name = "coroutine", what = "a coroutine's life (floor)", program = FLOOR, n = 20000 },
  { name = "chan0", what = "chan(0), a message", n = 20000 },
  { name = "chan1", what = "chan(1), a message", n = 20000 },
  { name = "chan100", what = "chan(100), a message", n = 20000 },
  { name = "pingpong", what = "ping-pong, a round trip", n = 10000 },
  { name = "ring", what = "ring of 1000, a hop", n = 20, per = 1000 },
  { name = "select4", what = "select of 4", n = 10000 },
  { name = "select64", what = "select of 64", n = 2000 },
  { name = "spawn", what = "spawn + take", n = 20000 },
  { name = "skynet", what = "skynet, a go block", n = 1, per = 111111 },
  { name = "pipeline", what = "pipeline of 8, a job", n = 5000 },
  { name = "jobs", what = "the same with jobs that close their channels", n = 5000 },
  { name = "pipeline_async", what = "the same with pipeline_async", n = 5000 },
  { name = "pipeline_async_unordered", what = "the same with pipeline_async_unordered", n = 5000 },
  { name = "pmap", what = "the same with pmap", n = 5000 },
  { name = "workers", what = "the same unordered: 8 workers", n = 5000 },
  { name = "pmap_unordered", what = "the same with pmap_unordered", n = 5000 },
  { name = "fanout4", what = "copies to 4, a message", n = 5000 },
  { name = "mult", what = "the same with mult", n = 5000 },
  { name = "merge2", what = "merge of 2, a message", n = 5000 },
  { name = "merge1000", what = "merge of 1,000, a message", n = 2000 },
  { name = "mix2", what = "mix of 2, a message", n = 5000 },
  { name = "mix1000", what = "mix of 1,000, a message", n = 2000 },
  { name = "pub10000", what = "pub with 10,000 topics, a message", n = 20000 },
  { name = "hand0", what = "a stage by hand, a message", n = 1000, per = 8, less = "hand_none0" },
  { name = "stage0", what = "the same on the engine of workers", n = 1000, per = 8, less = "hand_none0" },
  { name = "stage_paused0", what = "the same, after a pause", n = 1000, per = 8, less = "hand_none0" },
  { name = "hand_step0", what = "a stage with a step by hand", n = 1000, per = 8, less = "hand_none0" },
  { name = "stage_step0", what = "the same on the engine", n = 1000, per = 8, less = "hand_none0" },
  { name = "stage_step_paused0", what = "the same, after a pause", n = 1000, per = 8, less = "hand_none0" },
  { name = "stage_pmap0", what = "pmap of 4 as a stage", n = 1000, per = 8, less = "hand_none0" },
  { name = "stage_pmap_unordered0", what = "pmap_unordered of 4 as a stage", n = 1000, per = 8, less = "hand_none0" },
  { name = "timers", what = "timeouts, none shared, each", n = 100000 },
  { name = "after", what = "rn.after and stop, each", n = 50000 },
  { name = "cancel", what = "go block started, parked, cancelled", n = 10000 },
  { name = "json_decode", what = "decoding a line of JSON of 80 bytes", n = 2000 },
  { name = "json_encode", what = "encoding it again", n = 2000 },
}

for i = 1, #WORKLOADS do
  local one = WORKLOADS[i]
  if one.less then
    table.insert(WORKLOADS, {
      name = (one.name:gsub("0$", "16")), what = one.what .. ", buffers of 16", n = one.n, per = one.per,
      less = (one.less:gsub("0$", "16")),
    })
  end
end

local PARTS = { "bytecode", "C calls", "resume, yield", "API", "collector", "rest of Lua", "C library", "runnel" }

-- ---- to which part an instruction belongs ----

local RESUME = {}
for name in ("lua_resume lua_yieldk resume unroll finishCcall finishpcallk precover luaD_rawrunprotected luaD_throw "
  .. "lua_xmove auxwrap auxresume luaB_yield luaE_extendCI luaE_freeCI"):gmatch "%S+" do
  RESUME[name] = true
end

local FILES = { ["lvm.c"] = "bytecode", ["ldo.c"] = "C calls", ["lapi.c"] = "API", ["lgc.c"] = "collector",
  ["lmem.c"] = "collector" }

local function part_of(object, file, name)
  if object:find "core%.so$" then return "runnel" end
  if name:find "jmp" or name:find "sigprocmask" then return "resume, yield" end
  if object:find "libc%.so" or object:find "libm%.so" or object:find "/ld%-" then return "C library" end
  if RESUME[name:gsub("'.*", "")] then return "resume, yield" end
  return FILES[file:match "[^/]*$"] or "rest of Lua"
end

-- ---- callgrind ----

-- The instructions of one run, by part.
local function run(lua, workload, n)
  local out = os.tmpname()
  local command = ("valgrind --tool=callgrind --callgrind-out-file=%s '%s' %s --times=%d %s >/dev/null 2>&1"):format(
    out, lua, workload.program or RUNNEL, n, workload.name)
  assert(os.execute(command), "this failed: " .. command)
  local sums, names = {}, { fl = {}, fn = {}, ob = {} }
  for _, part in ipairs(PARTS) do sums[part] = 0 end
  local kinds = {
    fl = "fl", fi = "fl", fe = "fl", fn = "fn", ob = "ob", cfi = "fl", cfl = "fl", cfn = "fn", cob = "ob",
  }
  local now, of_call = { fl = "", fn = "", ob = "" }, false
  for line in io.lines(out) do
    local key, id, name = line:match "^(%a+)=(%(%d+%)) ?(.*)$"
    if key and kinds[key] then
      local known = names[kinds[key]]
      if name ~= "" then known[id] = name end
      if #key == 2 then now[kinds[key]] = known[id] or "" end
    elseif line:find "^calls=" then
      of_call = true -- the next line has the cost of the called function, which is counted under its own name
    else
      local cost = line:match "^[+%-*%d]%d* (%d+)$"
      if cost and not of_call then
        local part = part_of(now.ob, now.fl, now.fn)
        sums[part] = sums[part] + tonumber(cost)
      end
      of_call = false
    end
  end
  os.remove(out)
  return sums
end

-- ---- the table ----

local by_name, chosen, lua = {}, {}, os.getenv "LUA" or "lua5.4"
for _, workload in ipairs(WORKLOADS) do by_name[workload.name] = workload end
for _, word in ipairs(arg) do
  if by_name[word] then
    chosen[#chosen + 1] = by_name[word]
  elseif io.open(word) then
    lua = word
  else
    io.stderr:write "usage: lua5.4 bench/instructions.lua [LUA] [NAME...]\nnames:"
    for _, workload in ipairs(WORKLOADS) do io.stderr:write(" ", workload.name) end
    io.stderr:write "\n"
    os.exit(2)
  end
end
if #chosen == 0 then chosen = WORKLOADS end

local function row(first, cells) print("| " .. first .. " | " .. table.concat(cells, " | ") .. " |") end
row("", { table.concat(PARTS, " | "), "all" })
row("---", { ("---: | "):rep(#PARTS) .. "---:" })
local function added(workload)
  local once, twice = run(lua, workload, workload.n), run(lua, workload, 2 * workload.n)
  for _, part in ipairs(PARTS) do twice[part] = twice[part] - once[part] end
  return twice
end

for _, workload in ipairs(chosen) do
  local sums = added(workload)
  if workload.less then
    local less = added { name = workload.less, n = workload.n }
    for _, part in ipairs(PARTS) do sums[part] = sums[part] - less[part] end
  end
  local cells, all = {}, 0
  for i, part in ipairs(PARTS) do
    local each = sums[part] / (workload.n * (workload.per or 1))
    cells[i] = ("%d"):format(math.floor(each + 0.5))
    all = all + each
  end
  cells[#cells + 1] = ("%d"):format(math.floor(all + 0.5))
  row(workload.what, cells)
end
