-- The graph of a running program.
local rn = require "runnel"
local graph = require "runnel.tracing.graph"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

describe("rn.graph", function()
  before_each(stage.open)
  after_each(function()
    rn.graph(false)
    stage.close()
  end)

  -- A pipeline whose second stage is slow, after it has run for 100 ms, twice; and its graph.
  local function slow_parse(f)
    sim.run(function()
      rn.graph()
      local lines, words = rn.chan(4):name "lines", rn.chan(8):name "words"
      local blocks = {
        rn.go(function()
          rn.rename "read"
          while lines:put(true) do end
        end),
        rn.go(function()
          rn.rename "count"
          for _ in words do end
        end),
      }
      for i = 1, 3 do
        blocks[i + 2] = rn.go(function()
          rn.rename "parse"
          for v in lines do
            rn.sleep(10)
            words:put(v)
          end
        end)
      end
      rn.sleep(1000)
      rn.graph()
      rn.sleep(1005)
      f(rn.graph())
      lines:close()
      words:close()
      for _, block in ipairs(blocks) do rn.cancel(block) end
    end)
  end

  local function node(g, name)
    for _, n in ipairs(g.nodes) do
      if n.name == name then return n end
    end
  end

  local function edge(g, from, to)
    for _, e in ipairs(g.edges) do
      if e.from == node(g, from).key and e.to == node(g, to).key then return e end
    end
  end

  it("has go blocks with the same name as one node, and channels with their fill", function()
    slow_parse(function(g)
      assert.equal(3, node(g, "parse").count)
      assert.equal(1, node(g, "read").count)
      assert.same({ 4, 4, 1 }, { node(g, "chan: lines").values, node(g, "chan: lines").capacity,
        node(g, "chan: lines").puts_waiting })
      assert.same({ 0, 8, 1 }, { node(g, "chan: words").values, node(g, "chan: words").capacity,
        node(g, "chan: words").takes_waiting })
    end)
  end)

  it("has the values that were put and taken, and how many a second", function()
    slow_parse(function(g)
      local puts, takes = edge(g, "read", "chan: lines"), edge(g, "chan: lines", "parse")
      assert.equal(puts.total, takes.total + 4)
      assert.is_true(math.abs(puts.rate - 300) < 5, puts.rate)
      assert.is_true(math.abs(edge(g, "chan: words", "count").rate - 300) < 5)
      assert.is_nil(edge(g, "count", "chan: words"))
      assert.is_nil(edge(g, "chan: lines", "count"))
    end)
  end)

  it("says which stage is the bottleneck", function()
    slow_parse(function(g)
      assert.same({ "parse is the bottleneck: its input (chan: lines) is full, its output (chan: words) empty" },
        g.findings)
    end)
  end)

  it("says that a stage of the library is the bottleneck, whatever channels it has inside", function()
    sim.run(function()
      rn.graph()
      local from, to = rn.chan(4):name "from", rn.chan(4):name "to"
      rn.pipeline_async(2, to, function(v, result)
        rn.sleep(10)
        result:put(v)
        result:close()
      end, from)
      local blocks = {
        rn.go(function() while from:put(1) do end end),
        rn.go(function() for _ in to do end end),
      }
      rn.sleep(500)
      local g = rn.graph()
      assert.equal(1, #g.findings)
      assert.matches("^pipeline_async at .*graph_spec.lua:%d+ .*is the bottleneck: its input %(chan: from%) is full, "
        .. "its output %(chan: to%) empty$", g.findings[1])
      assert.is_true(#g.nodes < 12, #g.nodes .. " nodes") -- though each job has a channel
      for _, block in ipairs(blocks) do rn.cancel(block) end
      from:close()
      to:close()
    end)
  end)

  it("has unnamed channels of one line as one node, if the same go blocks use them", function()
    sim.run(function()
      rn.graph()
      local function new() return rn.chan(2) end
      local firsts, seconds = {}, {}
      for i = 1, 20 do
        local a, b = new(), new()
        firsts[i], seconds[i] = a, b
        rn.go(function()
          rn.rename "one"
          a:put(1)
          b:take()
        end)
        rn.go(function()
          rn.rename "two"
          a:take()
          b:put(1)
          b:put(2)
        end)
      end
      rn.sleep(10)
      local g = rn.graph()
      local found = {}
      for _, n in ipairs(g.nodes) do
        if n.count == 20 and n.kind == "channel" then found[#found + 1] = { n.values, n.capacity } end
      end
      assert.same({ { 0, 40 }, { 20, 40 } }, found)
      assert.equal(4, #g.edges)
      for _, e in ipairs(g.edges) do assert.is_true(e.total == 20 or e.total == 40) end
      assert.matches("chan: [^\n]*graph_spec.lua:%d+ ×20 ", g:text())
      assert.equal(20, #firsts, #seconds) -- keeps them
    end)
  end)

  it("says nothing of a pipeline in which nobody waits to put", function()
    sim.run(function()
      rn.graph()
      local ch = rn.chan(4):name "quiet"
      rn.go(function() for _ in ch do end end)
      rn.go(function()
        for i = 1, 10 do
          ch:put(i)
          rn.sleep(10)
        end
        ch:close()
      end)
      rn.sleep(50)
      assert.same({}, rn.graph().findings)
      rn.sleep(100)
    end)
  end)

  it("does not blame a stage whose output is full, too: the one behind it is the cause", function()
    sim.run(function()
      rn.graph()
      local first, second = rn.chan(2):name "first", rn.chan(2):name "second"
      local blocks = {
        rn.go(function() rn.rename "source" while first:put(1) do end end),
        rn.go(function() rn.rename "middle" for v in first do second:put(v) end end),
        rn.go(function() rn.rename "sink" for _ in second do rn.sleep(50) end end),
      }
      rn.sleep(500)
      assert.same({ "sink is the bottleneck: its input (chan: second) is full" }, rn.graph().findings)
      for _, block in ipairs(blocks) do rn.cancel(block) end
    end)
  end)

  it("folds the results of go blocks with the same name", function()
    sim.run(function()
      rn.graph()
      for i = 1, 50 do
        rn.go(function()
          rn.rename "job"
          return i
        end):take()
      end
      local g = rn.graph()
      local e = edge(g, "job", "result of job")
      assert.equal(50, e.total)
    end)
  end)

  it("counts everything though thousands of channels come and go in one run of a go block", function()
    sim.run(function()
      rn.rename "one"
      rn.graph()
      for _ = 1, 5000 do
        local ch = rn.chan(1)
        ch:put(1)
        ch:take()
      end
      collectgarbage()
      local kept = rn.chan(1):name "kept"
      kept:put(1)
      local g = rn.graph()
      assert.equal(0, g.lost)
      assert.equal(1, edge(g, "one", "chan: kept").total)
      assert.is_true(#g.edges < 1000)
    end)
  end)

  it("counts what one go block puts on thousands of channels in one run", function()
    sim.run(function()
      local chans = {}
      for i = 1, 3000 do chans[i] = rn.chan(2) end
      rn.graph()
      rn.go(function()
        rn.rename "one"
        for _, ch in ipairs(chans) do ch:put(1) ch:put(2) end
      end):take()
      local g = rn.graph()
      local total = 0
      for _, e in ipairs(g.edges) do total = total + e.total end
      assert.same({ 0, 6000 }, { g.lost, total })
    end)
  end)

  it("is written as DOT", function()
    slow_parse(function(g)
      assert.matches('n%d+ %-> n%d+ %[label="%d+ %(%d+/s%)"%];', graph.dot(g))
    end)
  end)

  it("is written as DOT that graphviz accepts", function()
    if not os.execute "command -v dot >/dev/null" then return pending "graphviz is not installed" end
    slow_parse(function(g)
      node(g, "parse").name = 'a "quoted" \\ name'
      local text = graph.dot(g)
      local path = os.tmpname()
      local file = assert(io.open(path, "w"))
      file:write(text)
      file:close()
      local pipe = assert(io.popen(("dot -Tplain %s 2>&1"):format(path)))
      local plain = pipe:read "a"
      assert.is_true(pipe:close())
      os.remove(path)
      local nodes, edges = select(2, plain:gsub("\nnode ", "")), select(2, plain:gsub("\nedge ", ""))
      assert.equal(#g.nodes, nodes)
      assert.equal(#g.edges, edges)
    end)
  end)

  it("is written as Mermaid, with no character that ends a name", function()
    slow_parse(function(g)
      node(g, "parse").name = 'a "quoted" <b>'
      local text = graph.mermaid(g)
      assert.matches("^flowchart LR\n", text)
      assert.matches('%["a #quot;quoted#quot; #lt;b#gt; ×3"%]', text)
      assert.not_matches('%["[^\n]*"[^%]\n][^\n]*"%]', text)
    end)
  end)

  it("is written as boxes of equal width", function()
    slow_parse(function(g)
      local text = graph.text(g)
      assert.matches("│ parse ×3 +│\n", text)
      assert.matches("<%- %d+ %(%d+/s%) <%- chan: lines ████████ 4/4, 1 put wait", text)
      local top
      for line in text:gmatch "[^\n]+" do
        if line:find "^┌" then top = utf8.len(line) end
        if line:find "^[┌│├└]" then assert.equal(top, utf8.len(line)) end
      end
    end)
  end)

  it("refuses what is neither true nor false", function()
    local _, err = pcall(function() rn.graph "dot" end)
    assert.matches("graph_spec.lua:%d+: graph: true, false or nothing expected, got a string", err)
  end)
end)
