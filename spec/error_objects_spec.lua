-- Errors may be any objects. The library asks for their texts only to tell of them, so what their metamethods do must
-- not take the place of what it tells.

local missing = require "spec.support.missing"
local process = require "spec.support.process"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

-- What is told of such an object.
local TEXT <const> = "%(error object whose text cannot be made: [^\n]*no text%)"

describe("an error object whose __tostring raises", function()
  before_each(stage.open)
  after_each(stage.close)

  local object = setmetatable({}, { __tostring = function() error "no text" end })
  local function raise() error(object, 0) end

  -- A job that is late, and raises the object when it is cancelled.
  local function late()
    local _ <close> = setmetatable({}, { __close = raise })
    rn.sleep(1000)
  end

  it("has a text that says so, as one whose __index raises", function()
    local text_of = require("runnel.core").internal.error_text
    assert.matches("^" .. TEXT .. "$", text_of(object))
    assert.matches("^" .. TEXT .. "$", text_of(setmetatable({}, { __index = function() error "no text" end })))
    local odd = setmetatable({}, { __tostring = function() error {} end })
    assert.equal("(error object whose text cannot be made: table)", text_of(odd))
  end)

  it("is no Ctrl-C, whatever that error says before the word", stage.within(function()
    local ok, err = pcall(function()
      rn.go(error, setmetatable({}, { __tostring = function() error("the upload was interrupted!", 0) end }))
      local reported = rn.chan(1)
      local before = rn.on_error(function(err) reported:put(require("runnel.core").internal.error_text(err)) end)
      rn.sleep(6000)
      rn.on_error(before)
      return reported:take()
    end)
    assert.equal("(error object whose text cannot be made: the upload was interrupted!)", err)
    assert.is_true(ok)
    local is_interrupt = require("runnel.core").internal.is_interrupt
    for _, yes in ipairs { "interrupted!", "job.lua:3: interrupted!", "[1]:10: interrupted!" } do
      assert.is_true(is_interrupt(yes), yes)
    end
    for _, no in ipairs { "was interrupted!", "a: interrupted!", ":: interrupted!", ": interrupted!", "3: interrupted!",
      "interrupted!!", "interrupted", "", " interrupted!", "x:3:interrupted!", {} } do
      assert.is_false(is_interrupt(no), tostring(no))
    end
  end))

  it("is told in the error of a late job of rn.pmap, whose other jobs go on", stage.within(function()
    local errors = {}
    local function job(n)
      if n == 2 then late() end
      return n
    end
    local out = rn.pmap(2, job, rn.to_chan { 1, 2, 3, 4 }, {
      timeout = 10, ex_handler = function(err) errors[#errors + 1] = err return -1 end,
    })
    assert.same({ 1, -1, 3, 4 }, stage.drain(out))
    assert.equal(1, #errors)
    assert.is_true(rn.is_timeout(errors[1]))
    assert.matches("a job had not ended after 10 ms; cancelled, it raised: " .. TEXT .. "$", errors[1].message)
  end))

  it("is told in the error of a late try of rn.retry, and of a late scope", stage.within(function()
    for _, call in ipairs {
      function() rn.retry(late, { tries = 1, timeout = 10 }) end,
      function() rn.scope(late, { timeout = 10 }) end,
    } do
      local ok, err = pcall(call)
      assert.is_false(ok)
      assert.is_true(rn.is_timeout(err), rawequal(err, object) and "the object" or nil)
    end
  end))

  it("is told with its place when nothing takes it", function()
    local dir <close> = process.directory()
    dir:write("script.lua", [[
      local rn = require "runnel"
      rn.go(function() error(setmetatable({}, { __tostring = function() error "no text" end })) end)
    ]])
    local err = process.run(dir.path, ("%s script.lua"):format(process.runnel)).err
    assert.matches("^runnel: error in [^\n]*script.lua:2[^\n]*: " .. TEXT, err)
  end)

  it("closes a shared channel", function()
    local ch = rn.shared_chan(1)
    ch:close(object)
    assert.matches("^" .. TEXT .. "$", select(2, ch:take()))
  end)

  it("is told with its seed by sim.each_seed", function()
    local _, err = pcall(sim.each_seed, 1, raise)
    assert.matches("^with seed 1: " .. TEXT .. "$", err)
  end)

  it("is told, too, if what that raises has no text either: by runnel and by runnel.lite", function()
    local odd = setmetatable({}, { __tostring = error })
    for _, searches in ipairs { sim, require("runnel.lite").sim } do
      local _, err = pcall(searches.each_seed, 1, function() error(odd, 0) end)
      assert.equal("with seed 1: (error object whose text cannot be made: table)", err)
    end
  end)

  it("is told as the error of the rows of a statement", function()
    local reason = missing "runnel.sqlite.core"
    if reason then return pending(reason) end
    local db <close> = require("runnel.sqlite").open ":memory:"
    db:exec "create table t (a)"
    local _, err = pcall(db.exec, db, "insert into t values (?)", { rows = function() return nil, object end })
    assert.matches("the iterator of rows has failed: " .. TEXT .. ", in: insert", err)
  end)

  it("is stored as the error of store:once", function()
    local reason = missing "runnel.sqlite.core"
    if reason then return pending(reason) end
    local store <close> = require("runnel.store").open ":memory:"
    local calls = 0
    local once = store:once("fails", function()
      calls = calls + 1
      raise()
    end, { errors = true })
    for _ = 1, 2 do assert.matches(TEXT, tostring(select(2, pcall(once)))) end
    assert.equal(1, calls)
  end)
end)
