-- The keys of store:once: two are the same exactly if they are equal in Lua; and the names of functions.

local long = require "spec.support.long"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local rn = require "runnel"

describe("keys of store:once", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"
  local dir, store

  before_each(function()
    dir = process.directory()
    store = stores.open(dir.path .. "/work.db", { synchronous = "off" })
  end)
  after_each(function()
    store:close()
    dir:remove()
  end)

  local function restart()
    store:close()
    store = stores.open(dir.path .. "/work.db", { synchronous = "off" })
  end

  -- Whether two keys are equal in Lua: lists if their elements are.
  local function are_equal(a, b)
    if type(a) ~= "table" or type(b) ~= "table" then return a == b end
    if #a ~= #b then return false end
    for i = 1, #a do
      if not are_equal(a[i], b[i]) then return false end
    end
    return true
  end

  local TABLE <const> = {
    1, 1.0, 2, 0, 0.0, -0.0, -1, 0.1, 0.3, 0.1 + 0.2, 1e100, 1e15, 1e16, 123456789012345680.0, 1 / 3, 5e-324, 1 / 0,
    -1 / 0,
    math.maxinteger, math.mininteger, math.maxinteger - 1, 2 ^ 63, -2 ^ 63, 2 ^ 63 + 2048, 2 ^ 53, (1 << 53) + 1,
    1764298800.1234561, 1764298800.1234567,
    "", " ", "1", "1.0", "true", "nil", "nan", "inf", "[1]", '["1"]', '"', "'", "\\", "{", "a{b}", "\0", "a\0b", "a",
    "ä",
    "\255", "\255\254", "x'ff'", "a\nb", "a] > b[1", "[", "]", ("x"):rep(1000),
    { 1 }, { 1.0 }, { "1" }, { 1, 2 }, { { 1 }, 2 }, { { 1, 2 } }, { { 1 }, { 2 } }, { "1,2" }, { "[1]" }, { "" },
    { "", "" },
    { "{" }, { "a{b}" }, { "\255" }, { "x'ff'" }, { "\0" }, { 0.3 }, { 0.1 + 0.2 }, { 1 / 0 }, { -1 / 0 },
    { "inf" }, { -0.0 }, { 0 },
    { 2 ^ 63 }, { math.maxinteger }, { math.mininteger }, { -2 ^ 63 }, { '"' }, { '","' }, { "a", "b" }, { 'a","b' },
  }

  -- A random key.
  local function random(depth)
    local kind = math.random(depth < 3 and 5 or 4)
    if kind == 1 then return math.random(-2, 2) + (math.random(2) == 1 and 0 or 0.0) end
    if kind == 2 then return math.random(3) / 10 + math.random(2) / 10 end
    if kind == 3 then return math.random(0) / (math.random(2) == 1 and 1 or 3) end
    if kind == 4 then
      local bytes = {}
      for i = 1, math.random(0, 3) do bytes[i] = ("\0\"'[]{},x1\255\\\n"):sub(math.random(13)):sub(1, 1) end
      return table.concat(bytes)
    end
    local list = {}
    for i = 1, math.random(2) do list[i] = random(depth + 1) end
    return list
  end

  -- Checks that calls with equal keys have one result, and others each their own: in memory, in the file, as the scope
  -- of steps, and for `forget`.
  local function check(keys)
    local calls, steps = 0, 0
    local function make()
      local step = store:once("step", function() steps = steps + 1 return steps end)
      return store:once("f", function() calls = calls + 1 return calls end),
        store:once("outer", function() step "same" error("no result", 0) end)
    end
    local f, outer = make()
    local results, distinct = {}, 0
    for i, key in ipairs(keys) do
      local before
      for j = 1, i - 1 do
        if are_equal(keys[j], key) then before = results[j] break end
      end
      results[i] = f(key)
      pcall(outer, key)
      if before then
        assert.equal(before, results[i], ("key %d"):format(i))
      else
        distinct = distinct + 1
        assert.equal(distinct, results[i], ("key %d"):format(i))
      end
      assert.equal(distinct, steps, ("the steps of key %d"):format(i))
    end
    restart()
    f, outer = make()
    for i, key in ipairs(keys) do
      assert.equal(results[i], f(key), ("key %d in the file"):format(i))
      pcall(outer, key)
    end
    assert.same({ distinct, distinct }, { calls, steps })
    for i, key in ipairs(keys) do
      local is_first = true
      for j = 1, i - 1 do is_first = is_first and not are_equal(keys[j], key) end
      assert.equal(is_first and 1 or 0, store:forget("f", key), ("key %d"):format(i))
    end
    assert.equal(0, store:forget "f")
  end

  it("are the same exactly if they are equal in Lua: a table of them", function() check(TABLE) end)

  it("are the same exactly if they are equal in Lua: random ones #ci", function()
    for _ = 1, long.times(2, 50) do
      local keys = {}
      for i = 1, 200 do keys[i] = random(1) end
      check(keys)
      store:forget "outer"
      store:forget "step"
    end
  end)

  it("are one of their own for a call without arguments, and nil is none", function()
    local f = store:once("f", function(...) return select("#", ...) end)
    assert.equal(0, f())
    assert.equal(1, f "")
    assert.equal(0, f())
    assert.equal(1, f "")
    local missing = {}
    raises("^once f: the key is a string, a number, or a list of these, got nil; set the option key$", function()
      f(missing.name)
    end)
    raises("got nil", function() store:forget("f", missing.name) end)
    raises("got nil", function() store:once("g", f, { key = function(order) return order.name end })(missing) end)
    assert.equal(1, store:forget("f", ""))
    assert.equal(0, f())
    assert.equal(1, f(""))
    assert.equal(2, store:forget "f")
  end)

  it("are nothing but strings, numbers and lists; the message says what it got", function()
    local f = store:once("f", tostring)
    for what, key in pairs {
      ["a boolean"] = true, nan = 0 / 0, ["an empty list"] = {}, ["a table that is no list"] = { a = 1 },
      ["a function"] = print, ["a list with nan"] = { 1, 0 / 0 }, ["a list with a boolean"] = { "a", { false } },
      ["a list with an empty list"] = { {} }, ["a list with a table that is no list"] = { { "a", nil, "c" } },
      ["a channel"] = rn.chan(),
    } do
      raises("got " .. what .. "; set the option key$", function() f(key) end)
    end
    local cycle = {}
    cycle[1] = cycle
    raises("got a list with too many nested lists; set the option key$", function() f(cycle) end)
  end)

  it("that an earlier version has written go on", function()
    local function put(key, value)
      store.db:exec("insert into runnel_once(scope, name, key, failed, form, value, made) "
        .. "values ('', 'f', ?, 0, 'json', ?, 0)", key, value)
    end
    local blob = require("runnel.sqlite").blob
    local old = { { "word", "word" }, { 17, 17 }, { 0.3, 0.3 }, { blob '["a",1,0.5,["b"]]', { "a", 1, 0.5, { "b" } } } }
    for i, one in ipairs(old) do put(one[1], tostring(i)) end
    put("", "0")
    local f = store:once("f", function() return "new" end)
    for i, one in ipairs(old) do assert.equal(i, f(one[2])) end
    assert.equal(0, f()) -- which is what was the key nil
  end)

  describe("and names:", function()
    it("two functions with one name are an error at the second one's line, until the results are forgotten", function()
      local add = store:once("calc", function(v) return v + 1 end)
      raises('^once: another function of this program has the name "calc", .*store:forget%("calc"%)', function()
        store:once("calc", function(v) return v * 10 end)
      end)
      raises("another function", function() store:once("calc", tostring) end)
      assert.equal(6, add(5))
      store:forget "calc"
      assert.equal(50, store:once("calc", function(v) return v * 10 end)(5))
    end)

    it("so are two functions for keys", function()
      local function f(v) return v end
      store:once("calc", f, { key = function(v) return v end })
      raises("another function", function() store:once("calc", f, { key = function(v) return -v end }) end)
      raises("another function", function() store:once("calc", f) end)
    end)

    it("the same function may be given again, and one that the same lines have made again", function()
      local function make(log)
        return store:once("calc", function(v)
          log[#log + 1] = v
          return v
        end)
      end
      local first, second = {}, {}
      make(first)(1)
      make(second)(1)
      make(second)(2)
      assert.same({ { 1 }, { 2 } }, { first, second })
      store:once("text", tostring)
      store:once("text", tostring)
    end)
  end)
end)
