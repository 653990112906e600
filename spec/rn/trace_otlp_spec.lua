-- Traces as spans of OpenTelemetry: rn.trace with a file that ends with .otlp.json.

local json = require "runnel.json"
local process = require "spec.support.process"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local TRACE <const>, PARENT <const> = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
local HEADER <const> = ("00-%s-%s-01"):format(TRACE, PARENT)

-- The spans of a file by name, after a check of what holds for all of them; and the names of the resources.
local function read(path)
  local file = assert(io.open(path))
  local whole = assert(json.decode(file:read "a"))
  file:close()
  local by_name, ids, all, services = {}, {}, {}, {}
  for i, resource in ipairs(whole.resourceSpans) do
    services[i] = resource.resource.attributes[1].value.stringValue
    for _, span in ipairs(resource.scopeSpans[1].spans) do
      by_name[span.name], all[#all + 1] = span, span
      assert.is_nil(ids[span.spanId], "two spans have one id")
      ids[span.spanId] = span
    end
  end
  for _, span in ipairs(all) do
    assert.matches("^%x+$", span.traceId)
    assert.same({ 32, 16 }, { #span.traceId, #span.spanId })
    assert.equal("string", type(span.startTimeUnixNano))
    assert.is_true(math.tointeger(span.startTimeUnixNano) <= math.tointeger(span.endTimeUnixNano))
    local above = ids[span.parentSpanId]
    if above then
      assert.equal(above.traceId, span.traceId)
      assert.is_true(math.tointeger(above.startTimeUnixNano) <= math.tointeger(span.startTimeUnixNano))
    else
      assert.is_true(span.parentSpanId == nil or span.parentSpanId == PARENT)
    end
  end
  return by_name, services
end

local function attributes(span)
  local values = {}
  for _, one in ipairs(span.attributes) do values[one.key] = tonumber(one.value.intValue) end
  return values
end

describe("a trace in a file that ends with .otlp.json", function()
  local path
  before_each(function()
    stage.open()
    path = os.tmpname()
    os.remove(path)
    path = path .. ".otlp.json"
  end)
  after_each(function()
    rn.trace(false)
    rn.traceparent(false)
    os.remove(path)
    stage.close()
  end)

  local function recorded(f, options)
    rn.trace(path, options)
    sim.run(f)
    rn.trace(false)
    return read(path)
  end

  local function named(name, f)
    return rn.go(function()
      rn.rename(name)
      return f()
    end)
  end

  it("has a span for each go block, below that of the one that started it", function()
    local spans = recorded(function()
      named("outer", function()
        local ch = rn.chan()
        local inner = named("inner", function()
          rn.sleep(20)
          for i = 1, 3 do ch:put(i) end
        end)
        for _ = 1, 3 do ch:take() end
        inner:take()
      end):take()
    end)
    assert.equal(spans.outer.spanId, spans.inner.parentSpanId)
    assert.equal(spans.outer.traceId, spans.inner.traceId)
    assert.equal(1, spans.inner.kind)
    assert.same({ 3, 0 }, { attributes(spans.inner)["runnel.puts"], attributes(spans.inner)["runnel.takes"] })
    assert.equal(20000000, math.tointeger(spans.inner.endTimeUnixNano) - math.tointeger(spans.inner.startTimeUnixNano))
    assert.same({}, spans.inner.status)
  end)

  it("has times since 1970", function()
    local before = os.time()
    rn.trace(path)
    named("now", function() rn.sleep(1) end):take()
    rn.trace(false)
    local at = math.tointeger(read(path).now.startTimeUnixNano) / 1e9
    assert.is_true(at >= before and at <= os.time() + 2, at) -- os.time has whole seconds, and is up to a tick late
  end)

  it("marks the span of a go block that has died of an error", function()
    local spans = recorded(function() named("fails", function() error("no", 0) end):take() end)
    assert.same({ code = 2 }, spans.fails.status)
  end)

  it("has a span for each operation, below that of the program that asked for it", function()
    local spans = recorded(function()
      named("handler", function()
        rn.traceparent(HEADER)
        named("helper", function() rn.sleep(1) end):take()
      end):take()
    end)
    assert.same({ TRACE, PARENT }, { spans.operation.traceId, spans.operation.parentSpanId })
    assert.equal(spans.operation.spanId, spans.handler.parentSpanId)
    assert.equal(spans.handler.spanId, spans.helper.parentSpanId)
    assert.same({ TRACE, TRACE }, { spans.handler.traceId, spans.helper.traceId })
  end)

  it("tells the operations of a go block apart that has one after the other", function()
    local trace = {}
    local spans = recorded(function()
      named("consumer", function()
        rn.sleep(1)
        for i = 1, 2 do
          trace[i] = rn.traceparent("new"):match "^00%-(%x+)"
          named("step " .. i, function()
            named("below " .. i, function() end):take()
            rn.sleep(5)
          end):take()
        end
      end):take()
    end)
    for i = 1, 2 do
      assert.equal(trace[i], spans["step " .. i].traceId)
      assert.equal(trace[i], spans["below " .. i].traceId)
      assert.equal(spans["step " .. i].spanId, spans["below " .. i].parentSpanId)
    end
    assert.are_not.equal(trace[1], spans.consumer.traceId)
    assert.are_not.equal(trace[1], trace[2])
  end)

  it("makes programs that the program asks record, too: new traces have the flag", function()
    rn.trace(path)
    named("asks", function() assert.matches("%-01$", rn.traceparent "new") end):take()
    rn.trace(false)
    assert.is_nil(rn.traceparent())
  end)

  it("keeps the newest records and operations", function()
    local spans = recorded(function()
      for i = 1, 1000 do
        named("go " .. i, function() rn.traceparent "new" end):take()
      end
    end, { records = 256 })
    assert.truthy(spans["go 1000"])
    assert.is_nil(spans["go 900"])
  end)

  it("has the spans of threads, as a service of their own", function()
    local dir = process.directory()
    dir:write("script.lua", [[
      local rn = require "runnel"
      rn.thread(function()
        local rn = require "runnel"
        rn.go(function() rn.rename "in the thread" end):take()
      end):take()
    ]])
    local result = process.run(dir.path, process.runnel .. " --trace=out.otlp.json script.lua")
    local spans, services = read(dir.path .. "/out.otlp.json")
    dir:remove()
    assert.equal(0, result.status)
    assert.equal("script.lua", services[1])
    assert.equal(2, #services)
    assert.truthy(spans["in the thread"])
  end)

  it("is written up to the first error, in the same form", function()
    local dir = process.directory()
    dir:write("script.lua", [[
      local rn = require "runnel"
      rn.go(function()
        rn.rename "fails"
        error("no", 0)
      end)
    ]])
    local result = process.run(dir.path, process.runnel .. " --trace=out.otlp.json script.lua")
    local spans = read(dir.path .. "/out.error.otlp.json")
    dir:remove()
    assert.equal(1, result.status)
    assert.same({ code = 2 }, spans.fails.status)
  end)
end)
