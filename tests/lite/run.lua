-- LUA tests/lite/run.lua [OPTION...] [FILE...]: runs the specs of spec/core and spec/rn on runnel.lite, with any Lua
-- that has luassert. tests/lite/skipped.lua lists what lite skips, by name, with a reason: such a test must exist, and
-- must fail with an error of that reason. A test that needs what an older Lua lacks (tests/lite/older.lua: <close>; a
-- wait in pcall) is skipped there, too.
-- --skipped prints the names of those that are skipped, with the reasons; --all what fails, whether it is skipped or
-- not; --slow what takes more than half a second.

local load = loadstring or load -- luacheck: ignore 113
package.path = "./?.lua;./lua/?.lua;" .. package.path
local older = require "tests.lite.older"
older.prepare()

local rn = require "runnel.lite"
older.prepare_tests()
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
local is_running = false

local function add_group(group, name, f)
  local inner = { name = group and group.name .. " " .. name or name, outer = group, before = {}, after = {} }
  local outer_env = add_group
  local env = setmetatable({}, { __index = _G })
  function env.describe(text, g) return add_group(inner, text, g) end
  env.insulate = env.describe
  function env.pending(text)
    if is_running then error("pending", 0) end
    env.it(text or "", function() error("pending", 0) end)
  end
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
_G.pending = function() error("pending", 0) end

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
local lists, files = {}, {}
for _, word in ipairs(arg) do
  if word:find "^%-%-" then lists[word] = true else files[#files + 1] = word end
end
if not files[1] then files = skipped.files end

local passed, left_out, lacking, wrong = 0, 0, 0, {}
local function is_wrong(name, what) wrong[#wrong + 1] = ("%s: %s: %s"):format(path, name, what) end
local function run_and_count(test, reason)
  older.lacking = nil
  local began, ok, err = os.clock(), nil, nil
  if not (reason and reason.is_not_run) then ok, err = run_test(test) end
  if lists["--slow"] and os.clock() - began > 0.5 then print("slow", path, test.name, os.clock() - began) end
  if lists["--all"] and not ok then print(path, test.name, (err or reason.why):gsub("%s+", " "):sub(1, 420)) end
  if older.lacking then
    lacking = lacking + 1
    reason = { why = "this Lua has no " .. older.lacking }
  elseif err == "pending" then
    left_out, reason = left_out + 1, { why = "pending" }
  elseif not reason then
    if ok then passed = passed + 1 else is_wrong(test.name, err) end
  elseif ok then
    is_wrong(test.name, "passes, but is in the list")
  elseif err and not skipped.fits(reason, err) then
    is_wrong(test.name, ("is in the list because %s, but fails with: %s"):format(reason.why, err))
  else
    left_out = left_out + 1
  end
  if lists["--skipped"] and reason then print(path, test.name, reason.why) end
end

for _, file in ipairs(files) do
  path, tests = file, {}
  local handle = io.open(path) or error("no file " .. path)
  local text = handle:read "*a"
  handle:close()
  local f, err = load(older.translate(text), "@" .. path)
  local ok = f and true
  if f then ok, err = pcall(add_group, nil, "", f) end
  if not ok then wrong[#wrong + 1] = path .. ": " .. tostring(err) end
  local reasons, seen = skipped.of(path, name_of_lua), {}
  for _, test in ipairs(tests) do
    test.name = test.name:gsub("^%s+", "")
    seen[test.name] = true
    run_and_count(test, reasons[test.name])
  end
  for name in pairs(reasons) do
    if not seen[name] then is_wrong(name, "is in the list, and there is no such test") end
  end
end
print(("%s: %d tests of %d files pass; skipped: %d in the list, %d that need what this Lua lacks"):format(
  name_of_lua == "luajit" and "LuaJIT" or "Lua " .. version, passed, #files, left_out, lacking))
if wrong[1] and not lists["--all"] then
  print(table.concat(wrong, "\n"))
  os.exit(1)
end
