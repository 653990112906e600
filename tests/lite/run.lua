-- LUA tests/lite/run.lua [--all] [FILE...]: runs the specs of spec/core and spec/rn on runnel.lite, with any Lua that
-- has luassert. tests/lite/skipped.lua lists what lite skips, by name, with a reason: such a test must fail, and must
-- exist. What this Lua cannot parse, and waits that it refuses (Lua 5.1: in pcall, in iterators), are counted.
-- --all lists what fails, whether it is skipped or not.

local load, unpack = loadstring or load, table.unpack or unpack -- luacheck: ignore 113 143
package.path = "./?.lua;./lua/?.lua;" .. package.path
table.unpack = unpack -- luacheck: ignore 122
table.pack = table.pack or function(...) return { n = select("#", ...), ... } end -- luacheck: ignore 122
table.move = table.move or function(from, first, last, at, to) -- luacheck: ignore 122
  local copy = {}
  for i = first, last do copy[i] = from[i] end
  for i = first, last do (to or from)[at + i - first] = copy[i] end
  return to or from
end
math.tointeger = math.tointeger or function(x) return x == math.floor(x) and x or nil end -- luacheck: ignore 122

local rn = require "runnel.lite"
local slept = 0
rn.on_error(function() end) -- as in the specs, where errors are expected
rn.host { now = function() return os.clock() * 1000 + slept end, sleep = function(ms) slept = slept + ms end }
local version = _VERSION:match "%d.%d"
local name_of_lua = rawget(_G, "jit") and "luajit" or version

-- What a test requires of runnel is lite. Modules that lite does not have raise an error where they are used.
local function missing(name)
  return setmetatable({}, { __index = function(_, key)
    return function() error("runnel.lite has no " .. name .. "." .. tostring(key), 2) end
  end })
end
package.loaded["runnel"], package.loaded["runnel.sim"] = rn, rn.sim
local internal = missing "core.internal"
rawset(internal, "report_unhandled", function() -- a deadlock reports them
  pcall(function() rn.chan():take() end)
end)
package.loaded["runnel.core"] = setmetatable({ internal = internal }, { __index = rn })
package.loaded["spec.support.stage"] = require "tests.lite.stage"
for _, name in ipairs { "process", "patience", "finalizers", "gc", "goker", "shell" } do
  package.loaded["spec.support." .. name] = missing("spec.support." .. name)
end
package.loaded["spec.support.long"] = { times = function(n) return n end, is_long = false }

-- ---- the tests of a file ----

local assert = require "luassert"
local tests, path

local function add_group(group, name, f)
  local inner = { name = group and group.name .. " " .. name or name, outer = group, before = {}, after = {} }
  local outer_env = add_group
  local env = setmetatable({}, { __index = _G })
  function env.describe(text, g) return add_group(inner, text, g) end
  env.insulate = env.describe
  function env.it(text, g)
    tests[#tests + 1] = { name = inner.name .. " " .. text:gsub(" #%w+", ""), f = g, group = inner, tags = text }
  end
  function env.before_each(g) inner.before[#inner.before + 1] = g end
  function env.after_each(g) inner.after[#inner.after + 1] = g end
  function env.setup(g) inner.setup = g end
  function env.teardown() end
  local outer = {}
  for key, value in pairs(env) do
    outer[key], _G[key] = _G[key] or false, value
  end
  f()
  for key, value in pairs(outer) do _G[key] = value or nil end
  return outer_env
end

local finals
_G.assert = setmetatable({}, { __index = assert, __call = function(_, ...) return assert(...) end })
_G.finally = function(f) finals[#finals + 1] = f end
local is_running = false
_G.pending = function()
  if is_running then error("pending", 0) end
end

-- Blanks the tests that this Lua cannot parse. Returns the text, and how many there are.
local function parsable(text)
  local lines, cannot = {}, 0
  for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  while true do
    local f, err = load(table.concat(lines, "\n"), "@" .. path)
    if f then return f, cannot end
    local at = tonumber(err:match ":(%d+):")
    local first, indent = at, nil
    while first and first > 0 do
      indent = lines[first]:match "^(%s+)it%("
      if indent then break end
      first = first - 1
    end
    local last = first
    while last and last > 0 and last <= #lines and lines[last] ~= indent .. "end)" do last = last + 1 end
    if not indent or last > #lines or last < at then return nil, err end
    for i = first, last do lines[i] = "" end
    cannot = cannot + 1
  end
end

local function run_test(test)
  finals = {}
  local groups, group = {}, test.group
  while group do
    table.insert(groups, 1, group)
    group = group.outer
  end
  local steps = 0
  debug.sethook(function() -- also in simulations that do not end
    steps = steps + 1
    if steps > 1000 then error("the test does not end", 0) end
  end, "", 100000)
  local ok, err = true, nil
  local function call(f)
    local is_right, problem = pcall(f)
    if ok and not is_right then ok, err = false, problem end
  end
  for _, g in ipairs(groups) do
    if g.setup then call(g.setup) end
    g.setup = nil
    for _, f in ipairs(g.before) do call(f) end
  end
  is_running = true
  if ok then call(test.f) end
  is_running = false
  for i = #finals, 1, -1 do call(finals[i]) end
  for i = #groups, 1, -1 do
    for _, f in ipairs(groups[i].after) do call(f) end
  end
  debug.sethook()
  if type(err) == "table" then err = err.message or tostring(err) end
  return ok, tostring(err)
end

-- ---- all files ----

local skipped = require "tests.lite.skipped"
local lists_all, files = false, {}
for _, word in ipairs(arg) do
  if word == "--all" then lists_all = true else files[#files + 1] = word end
end
if not files[1] then files = skipped.files end

local passed, refused, unparsed, left_out, wrong = 0, 0, 0, 0, {}
for _, file in ipairs(files) do
  path, tests = file, {}
  local handle = io.open(path) or error("no file " .. path)
  local text = handle:read "*a"
  handle:close()
  local f, cannot = parsable(text)
  if f then
    unparsed = unparsed + cannot
    local ok, err = pcall(add_group, nil, "", f)
    if not ok then wrong[#wrong + 1] = path .. ": " .. tostring(err) end
  else
    unparsed = unparsed + select(2, text:gsub("%f[%w]it%(", ""))
  end
  local reasons, seen = skipped.of(path, name_of_lua), {}
  for _, test in ipairs(tests) do
    test.name = test.name:gsub("^%s+", "")
    local reason = reasons[test.name]
    local ok, err, began = false, nil, os.clock()
    if reason ~= skipped.endless then ok, err = run_test(test) end
    if lists_all and os.clock() - began > 0.7 then print("SLOW", path, test.name, os.clock() - began) end
    seen[test.name] = true
    if not ok and lists_all then print(path, test.name, (err or reason):gsub("%s+", " "):sub(1, 420)) end
    if ok and reason then wrong[#wrong + 1] = ("%s: %s: passes, but is in the list"):format(path, test.name)
    elseif ok then passed = passed + 1
    elseif reason or err == "pending" then left_out = left_out + 1
    elseif err:find("attempt to yield across", 1, true) and not coroutine.isyieldable then refused = refused + 1
    else wrong[#wrong + 1] = ("%s: %s: %s"):format(path, test.name, err) end
  end
  for name in pairs(reasons) do
    if f and cannot == 0 and not seen[name] then
      wrong[#wrong + 1] = ("%s: %s: is in the list, and there is no such test"):format(path, name)
    end
  end
end
print(("%s: %d tests of %d files pass; skipped: %d in the list, %d that this Lua cannot parse, %d that wait where it "
  .. "refuses to"):format(name_of_lua == "luajit" and "LuaJIT" or "Lua " .. version, passed, #files, left_out, unparsed,
  refused))
if wrong[1] and not lists_all then
  print(table.concat(wrong, "\n"))
  os.exit(1)
end
