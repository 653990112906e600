-- The checker of histories (spec/support/history): small histories whose answer is known, random ones that a plain
-- implementation has made, and faults that are planted in those.

local linearizable = require "spec.support.history.linearizable"
local long = require "spec.support.long"
local models = require "spec.support.history.models"
local process = require "spec.support.process"
local recorder = require "spec.support.history.recorder"
local rn = require "runnel"
local stream = require "spec.support.history.stream"
local watch = require "spec.support.history.watch"

-- An operation from a list: process, call, return (false: unknown), what, fields.
local function operations_of(rows)
  local operations = {}
  for i, row in ipairs(rows) do
    local operation = { process = row[1], call = row[2], back = row[3] or nil, what = row[4] }
    for name, value in pairs(row[5] or {}) do operation[name] = value end
    operations[i] = operation
  end
  return operations
end

local function check_kv(operations) return linearizable(operations, models.kv(operations)) end
local function check_message(operations) return linearizable(operations, models.message()) end
local function check_once(operations) return linearizable(operations, models.once()) end

local function put(v, new) return "put", { value = v, new_revision = new } end
local function got(v, seen) return "get", { value = v, seen_revision = seen } end

-- Adds `what` and its fields to the row of a process, a call and a return.
local function row(name, call, back, ...) return { name, call, back, ... } end

describe("a history of a key is", function()
  local function check(expected, rows)
    local ok, why = check_kv(operations_of(rows))
    assert.equal(expected, ok, why)
    return why
  end

  for name, rows in pairs {
    ["without operations"] = {},
    ["of a get that runs beside a put, and sees it or not"] = {
      row("a", 1, 6, put(1, 1)), row("b", 2, 3, got()), row("b", 4, 5, got(1, 1)),
    },
    ["of a put that was killed, and is seen later"] = { row("a", 1, false, put(1)), row("b", 8, 9, got(1, 1)) },
    ["of a put that was killed, and is never seen"] = { row("a", 1, false, put(1)), row("b", 8, 9, got()) },
    ["of a put that was killed, and comes after a later one"] = {
      row("a", 1, false, put(1)), row("b", 2, 3, put(2, 1)), row("b", 4, 5, got(2, 1)), row("b", 8, 9, got(1, 2)),
    },
    ["of two updates, of which the second fails"] = {
      row("a", 1, 2, put(1, 1)), row("a", 3, 6, "update", { value = 2, revision = 1, new_revision = 2 }),
      row("b", 4, 5, "update", { value = 3, revision = 1, failed = true }),
    },
    ["of a create that fails beside the put of another process"] = {
      row("a", 1, 4, put(1, 1)), row("b", 2, 3, "create", { value = 2, failed = true }),
    },
    ["of a delete, after which it can be created"] = {
      row("a", 1, 2, put(1, 1)), row("a", 3, 4, "delete", { new_revision = 2 }), row("b", 5, 6, got()),
      row("b", 7, 8, "create", { value = 2, new_revision = 3 }),
    },
    ["of a refused put, which is not seen"] = {
      row("a", 1, 2, "put", { value = 1, refused = true }), row("a", 3, 4, got()),
    },
    ["of calls and returns at the same moment"] = { row("a", 1, 2, put(1, 1)), row("b", 2, 3, got()) },
  } do
    it("linearizable: " .. name, function() check(true, rows) end)
  end

  for name, rows in pairs {
    ["of a put that is lost"] = { row("a", 1, 2, put(1, 1)), row("b", 3, 4, got()) },
    ["of a get before the put"] = { row("b", 1, 2, got(1, 1)), row("a", 3, 4, put(1, 1)) },
    ["of a get that sees an older value than the one before"] = {
      row("a", 1, 2, put(1, 1)), row("a", 3, false, put(2)), row("b", 4, 5, got(2, 2)), row("c", 6, 7, got(1, 1)),
    },
    ["of a put that happens twice"] = {
      row("a", 1, 9, put(1, 1)), row("b", 2, 3, got(1, 1)), row("b", 4, 5, put(2, 2)), row("b", 6, 7, got(2, 2)),
      row("b", 7.5, 8, got(1, 3)),
    },
    ["of two updates of one revision"] = {
      row("a", 1, 2, put(1, 1)), row("a", 3, 6, "update", { value = 2, revision = 1, new_revision = 2 }),
      row("b", 4, 5, "update", { value = 3, revision = 1, new_revision = 3 }),
    },
    ["of an update that fails, although nobody has written"] = {
      row("a", 1, 2, put(1, 1)), row("b", 4, 5, "update", { value = 3, revision = 1, failed = true }),
    },
    ["of an update that fails, and is seen"] = {
      row("a", 1, 2, put(1, 1)), row("a", 3, 4, put(2, 2)),
      row("b", 3, 5, "update", { value = 3, revision = 1, failed = true }), row("b", 6, 7, got(3, 3)),
    },
    ["of a create that fails, although it has no value"] = {
      row("a", 1, 2, put(1, 1)), row("a", 3, 4, "delete", { new_revision = 2 }),
      row("b", 5, 6, "create", { value = 2, failed = true }),
    },
    ["of a revision that is not greater"] = { row("a", 1, 2, put(1, 7)), row("a", 3, 4, put(2, 7)) },
    ["of a refused put, which is seen"] = {
      row("a", 1, 2, "put", { value = 1, refused = true }), row("a", 3, 4, got(1, 1)),
    },
    ["of a value that nobody has put"] = { row("a", 1, 2, put(1, 1)), row("a", 3, 4, got(2, 2)) },
  } do
    it("not linearizable: " .. name, function()
      assert.matches("in no order .* one of these must come next:\n  ", check(false, rows))
    end)
  end
end)

describe("a history of a message is", function()
  local function stored(is_duplicate) return "put", { is_duplicate = is_duplicate } end
  for name, case in pairs {
    ["right if it was stored, taken and acknowledged"] = { true,
      { "a", 1, 2, stored(false) }, { "b", 3, 3, "take" }, { "b", 4, 5, "ack" }, { "end", 6, 6, "gone" } },
    ["right if it is taken again when its process was killed"] = { true, { "a", 1, 2, stored(false) },
      { "b", 3, 3, "take" }, { "b", 3, false, "left" }, { "c", 4, 4, "take" }, { "c", 5, 6, "ack" },
      { "end", 7, 7, "gone" } },
    ["right if its process was killed while it acknowledged it"] = { true, { "a", 1, 2, stored(false) },
      { "b", 3, 3, "take" }, { "b", 4, false, "left", { was_acked = true } }, { "end", 7, 7, "gone" } },
    ["wrong if it is taken after its acknowledgement"] = { false, { "a", 1, 2, stored(false) },
      { "b", 3, 3, "take" }, { "b", 4, 5, "ack" }, { "c", 6, 6, "take" } },
    ["wrong if two processes have it"] = { false, { "a", 1, 2, stored(false) },
      { "b", 3, 3, "take" }, { "c", 3, 3, "take" }, { "b", 4, 5, "ack" } },
    ["wrong if it is taken before it is put"] = { false, { "b", 1, 1, "take" }, { "a", 2, 3, stored(false) } },
    ["wrong if it is lost"] = { false, { "a", 1, 2, stored(false) }, { "end", 3, 3, "gone" } },
    ["wrong if its process had not acknowledged it, and it is gone"] = { false, { "a", 1, 2, stored(false) },
      { "b", 3, 3, "take" }, { "b", 3, false, "left" }, { "end", 7, 7, "gone" } },
    ["wrong if it is new twice"] = { false, { "a", 1, 2, stored(false) }, { "b", 3, 4, stored(false) } },
    ["right if the second put says that it is there"] = { true,
      { "a", 1, false, stored(false) }, { "b", 3, 4, stored(true) } },
  } do
    it(name, function()
      local ok, why = check_message(operations_of(table.move(case, 2, #case, 1, {})))
      assert.equal(case[1], ok, why)
    end)
  end
end)

describe("a history of once is", function()
  local function call(value, computed) return "call", { value = value, computed = computed } end
  for name, case in pairs {
    ["right if all have the result of the one that has computed it"] = { true,
      { "a", 1, 5, call(1, 1) }, { "a", 2, 2, "begin" }, { "b", 3, 6, call(1) }, { "c", 7, 8, call(1) } },
    ["right if another one computes it when the first was killed"] = { true,
      { "a", 1, false, call(nil, 1) }, { "a", 2, 2, "begin" }, { "b", 1, 6, call(2, 2) }, { "b", 5, 5, "begin" } },
    ["right if the result of a killed one is there"] = { true,
      { "a", 1, false, call(nil, 1) }, { "a", 2, 2, "begin" }, { "b", 3, 6, call(1) } },
    ["right if one that could not store its result has computed in vain"] = { true,
      { "a", 1, 4, "call", { refused = true, computed = 1 } }, { "a", 2, 2, "begin" },
      { "b", 1, 6, call(2, 2) }, { "b", 5, 5, "begin" } },
    ["wrong if two have different results"] = { false,
      { "a", 1, 5, call(1, 1) }, { "a", 2, 2, "begin" }, { "b", 6, 9, call(2, 2) }, { "b", 7, 7, "begin" } },
    ["wrong if two compute at the same time"] = { false,
      { "a", 1, 5, call(1, 1) }, { "a", 2, 2, "begin" }, { "b", 1, 6, call(1, 1) }, { "b", 3, 3, "begin" } },
    ["wrong if a result was refused, and comes nevertheless"] = { false,
      { "a", 1, 4, "call", { refused = true, computed = 1 } }, { "a", 2, 2, "begin" }, { "b", 5, 6, call(1) } },
    ["wrong if a result comes before it is computed"] = { false,
      { "b", 1, 2, call(1) }, { "a", 3, 5, call(1, 1) }, { "a", 4, 4, "begin" } },
  } do
    it(name, function()
      local ok, why = check_once(operations_of(table.move(case, 2, #case, 1, {})))
      assert.equal(case[1], ok, why)
    end)
  end
end)

describe("a history of watches is", function()
  local function change(key, revision, value) return { key = key, revision = revision, value = value, call = 10 } end

  -- Puts of two keys, of which the bucket keeps two values; the last one was killed, and its revision is not known.
  local puts, watchers
  before_each(function()
    puts = operations_of {
      { "a", 1, 2, "put", { key = "x", value = 1, new_revision = 1 } },
      { "a", 3, 4, "put", { key = "y", value = 2, new_revision = 2 } },
      { "a", 5, 6, "put", { key = "x", value = 3, new_revision = 3 } },
      { "a", 7, 8, "put", { key = "x", value = 4, new_revision = 4 } },
      { "a", 9, false, "put", { key = "x", value = 5 } },
    }
    watchers = {
      all = { is_all = true, change("x", 1, 1), change("y", 2, 2), change("x", 3, 3), change("x", 4, 4) },
      new = { change("x", 3, 3), change("x", 4, 4), change("x", 5, 5) }, none = {},
    }
  end)

  it("right if each has seen all changes, or left out what the bucket does not keep", function()
    assert.same({}, watch(puts, watchers, 2))
    table.remove(watchers.all, 1) -- revision 1 of x, which has three later ones
    assert.same({}, watch(puts, watchers, 2))
  end)

  for pattern, edit in pairs {
    ["all has not seen revision 2 of y, of which there were 0 later ones"] = function(all) table.remove(all, 2) end,
    ["all has not seen revision 3 of x, of which there were 2 later ones"] = function(all) table.remove(all, 3) end,
    ["all has seen revision 3 after revision 4"] = function(all) all[3], all[4] = all[4], all[3] end,
    ["all has seen revision 4 after revision 4"] = function(all) all[5] = all[4] end,
    ["all has seen 9 of x, which was never put"] = function(all) all[5] = change("x", 9, 9) end,
    ["all has seen 4, which was refused"] = function() puts[4].new_revision, puts[4].refused = nil, true end,
    ["all has seen 4 before it was put"] = function(all) all[4].call = 6.5 end,
    ["revision 4 is 4 of x for %w+, and was 5 of x"] = function() puts[4].value, puts[5].value = 5, 4 end,
  } do
    it("wrong, as it is said: " .. pattern, function()
      edit(watchers.all)
      assert.matches(pattern, table.concat(watch(puts, watchers, 3), "\n"))
    end)
  end
end)

describe("a history of a stream is", function()
  -- Three puts, the second of them twice, and what the stream has.
  local puts, log, readers
  before_each(function()
    puts = operations_of {
      { "a", 1, 2, "put", { id = "x", value = 1, sequence = 1, is_duplicate = false } },
      { "b", 1, 4, "put", { id = "y", value = 2, sequence = 2, is_duplicate = false } },
      { "a", 3, 5, "put", { id = "y", value = 3, sequence = 2, is_duplicate = true } },
      { "c", 3, false, "put", { id = "z", value = 4 } },
    }
    log = { { sequence = 1, id = "x", value = 1 }, { sequence = 2, id = "y", value = 2 } }
    readers = { r = { { sequence = 1, value = 1, call = 2 } } }
  end)

  it("right if each id is there once, and all puts have said so", function()
    assert.same({}, stream(puts, log, readers))
    log[3] = { sequence = 3, id = "z", value = 4 }
    assert.same({}, stream(puts, log, readers))
  end)

  for pattern, change in pairs {
    ["was confirmed, and is not stored"] = function() log[2] = nil end,
    ["was never put"] = function() log[3] = { sequence = 3, id = "w", value = 9 } end,
    ["the id y is stored twice"] = function() log[3] = { sequence = 3, id = "y", value = 3 } end,
    ["says of a duplicate: false"] = function() puts[3].is_duplicate = false end,
    ["was refused, and is message 1"] = function() puts[1].refused = true end,
    ["has the number 1, and is message 2"] = function() puts[3].sequence = 1 end,
    ["ended before put 2 began"] = function()
      log[1], log[2] = { sequence = 1, id = "y", value = 2 }, { sequence = 2, id = "x", value = 1 }
      puts[1].sequence, puts[2].sequence, puts[3].sequence, puts[2].call = 2, 1, 1, 3
    end,
    ["was a duplicate of 2, which came later"] = function() puts[2].call, puts[2].back = 6, 7 end,
    ["r has read message 2 %(2%) in place of 1"] = function() readers.r[1] = { sequence = 2, value = 2, call = 5 } end,
    ["r has read 1 before it was put"] = function() readers.r[1].call = 0.5 end,
  } do
    it("wrong, as it is said: " .. pattern, function()
      change()
      assert.matches(pattern, table.concat(stream(puts, log, readers), "\n"))
    end)
  end
end)

-- ---- random histories ----

-- A key as a few lines of Lua, without states that are kept: what an operation answers.
local function perform(key, operation)
  local what = operation.what
  if what == "get" then
    operation.value, operation.seen_revision = key.value, key.value ~= nil and key.revision or nil
    return
  end
  if what == "create" and key.value ~= nil or what == "update" and key.revision ~= operation.revision then
    operation.failed = true
    return
  end
  key.revision = key.revision + math.random(2)
  key.value, operation.new_revision = operation.value, key.revision
end

-- A history of some processes, whose operations happen at random moments within their times.
local function random_history(processes, each, killed)
  local all = {}
  for p = 1, processes do
    local at = math.random()
    for i = 1, each do
      local what = ({ "get", "get", "put", "update", "create", "delete" })[math.random(6)]
      local operation = { process = "p" .. p, what = what, call = at }
      if what ~= "get" and what ~= "delete" then operation.value = p * 1000 + i end
      operation.moment = at + math.random() * 2
      at = operation.moment + math.random() * 2
      if math.random() < killed then
        operation.moment = operation.moment + math.random() * 10
        if math.random(2) == 1 then operation.moment = math.huge end -- never
      else
        operation.back = at
      end
      all[#all + 1] = operation
    end
  end
  table.sort(all, function(a, b) return a.moment < b.moment end)
  local key, revisions = { revision = 0 }, { 0 }
  for _, operation in ipairs(all) do
    if operation.what == "update" then
      operation.revision = revisions[math.random(math.max(1, #revisions - 2), #revisions)]
    end
    if operation.moment < math.huge then perform(key, operation) end
    local known = operation.back and (operation.new_revision or operation.seen_revision) -- the next may use it
    if known then revisions[#revisions + 1] = known end
    if not operation.back then
      operation.new_revision, operation.failed = nil, nil
      if operation.what == "get" then operation.value, operation.seen_revision = nil, nil end
    end
    operation.moment = nil
  end
  return all
end

-- Whether it is linearizable, by all orders of all operations.
local function by_all_orders(operations, model, state, used)
  local is_over = true
  for i, operation in ipairs(operations) do
    if not used[i] then
      is_over = is_over and not operation.back
      local may_be_next = true
      for k, other in ipairs(operations) do
        if k ~= i and not used[k] and other.back and other.back < operation.call then may_be_next = false end
      end
      if may_be_next then
        used[i] = true
        for _, after in ipairs(model.step(state, operation) or {}) do
          if by_all_orders(operations, model, after, used) then return true end
        end
        used[i] = nil
      end
    end
  end
  return is_over
end

local function pick(operations, condition)
  local found = {}
  for _, operation in ipairs(operations) do
    if condition(operation) then found[#found + 1] = operation end
  end
  return found[math.random(math.max(1, #found))]
end

describe("random histories", function()
  it("of many concurrent calls, of which some are killed, are linearizable #ci", function()
    for _ = 1, long.times(20, 300) do
      local operations = random_history(math.random(2, 8), math.random(5, 60), math.random() * 0.15)
      local ok, why = check_kv(operations)
      assert.is_true(ok, why)
    end
  end)

  it("that are small have the answer that all orders give, whatever was changed in them", function()
    local answers = { [true] = 0, [false] = 0 }
    for _ = 1, long.times(600, 15000) do
      local operations = random_history(3, 2, 0.2)
      for _ = 1, math.random(0, 4) do
        local a, b = operations[math.random(#operations)], operations[math.random(#operations)]
        local field = ({ "value", "seen_revision", "new_revision", "failed" })[math.random(4)]
        if (a.what == "get") == (b.what == "get") then a[field], b[field] = b[field], a[field] end
      end
      for _, operation in ipairs(operations) do -- what cannot be recorded
        local has_value = operation.what ~= "get" and operation.what ~= "delete"
        if has_value and operation.value == nil then operation.value = 0 end
        if operation.what == "delete" then operation.value = nil end
      end
      local model = models.kv(operations)
      local expected, ok = by_all_orders(operations, model, model.first, {}), linearizable(operations, model)
      assert.equal(expected, ok)
      answers[ok] = answers[ok] + 1
    end
    assert.is_true(answers[true] > 50 and answers[false] > 50, answers[true] .. ", " .. answers[false])
  end)

  -- Each fault is planted after all that the processes did, where a right history has one answer only.
  local function with_end(f)
    for _ = 1, long.times(10, 300) do
      local operations, last = random_history(4, 20, 0), 0
      for _, operation in ipairs(operations) do last = math.max(last, operation.back) end
      operations[#operations + 1] = { process = "end", what = "put", call = last + 1, back = last + 2, value = -1,
        new_revision = 10000 }
      local read = { process = "end", what = "get", call = last + 5, back = last + 6, value = -1,
        seen_revision = 10000 }
      operations[#operations + 1] = read
      assert.is_true(check_kv(operations))
      f(operations, read, last)
      assert.is_false((check_kv(operations)))
    end
  end

  it("with a value that is swapped are not", function()
    with_end(function(operations, read)
      local other = pick(operations, function(o)
        return o.what ~= "get" and o.value ~= nil and o.value ~= -1 and not o.failed
      end)
      read.value, read.seen_revision = other.value, other.new_revision
    end)
  end)

  it("with a write that is lost are not", function()
    with_end(function(operations, read)
      table.remove(operations, #operations - 1)
      assert(read.value == -1)
    end)
  end)

  it("with a put that is acknowledged before it is there are not", function()
    with_end(function(operations, _, last)
      table.insert(operations, { process = "other", what = "get", call = last + 3, back = last + 4 })
    end)
  end)

  it("with an update that did not look at the revision are not", function()
    with_end(function(operations, read, last)
      table.insert(operations, { process = "other", what = "update", call = last + 3, back = last + 4, value = -2,
        revision = 1, new_revision = 10001 })
      read.value, read.seen_revision = -2, 10001
    end)
  end)
end)

describe("a recorder", function()
  it("keeps calls without a return, and leaves out a line that is not complete", function()
    local dir <close> = process.directory()
    local path = dir.path .. "/log"
    local record, since = recorder.open(path), rn.now()
    local back = record:call("p", "put", { key = "k\n", value = 1 })
    record:call("q", "get", { key = "k" })
    back { new_revision = 3 }
    record:moment("q", "take", { key = 0.1 })
    dir:write("log", dir:read "log" .. '{number=2,ba')
    local operations = recorder.read(path)
    assert.equal(3, #operations)
    local first = operations[1]
    assert.is_true(since <= first.call and first.call <= first.back and first.back <= rn.now())
    assert.same({ process = "p", what = "put", key = "k\n", value = 1, number = 1, new_revision = 3, call = first.call,
      back = first.back }, first)
    assert.is_nil(operations[2].back)
    assert.same({ 0.1, operations[3].call }, { operations[3].key, operations[3].back })
  end)
end)
