-- runnel.store.runs.run_look and run_view: what the runs of a store are like, for those who look at them.

local process = require "spec.support.process"
local rn = require "runnel"
local sim = require "runnel.sim"

describe("who looks at the runs of a store", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local look = require "runnel.store.runs.run_look"
  local page = require "runnel.store.runs.run_page"
  local json = require "runnel.json"
  local run_view = require "runnel.store.runs.run_view"
  local stores = require "runnel.store"
  local dir, store

  before_each(function()
    dir = process.directory()
    store = stores.open(dir.path .. "/work.db", { synchronous = "off" })
    rn.on_error(function() end) -- of runs that fail for good
  end)
  after_each(function()
    rn.on_error(nil)
    store:close()
    dir:remove()
  end)

  -- A row of a run, as a process might leave it. `held`: a process has it.
  local function insert(name, id, seq, state, due, held)
    store.db:exec([[insert into runnel_run(name, id, seq, form, made, state, since, due)
      values (?, ?, ?, 'nil', 1, ?, 1, ?)]], name, id, seq, state, due)
    if held == nil then return end
    store.db:exec([[insert into runnel_delivery(stream, seq, consumer, holder, claim, due, deliveries)
      values (?, ?, ?, ?, 1, 1, 1)]], "runnel-runs-" .. name, seq, name, held and store.holder or nil)
  end

  it("counts them by their states, and lists those of a state, as the states of single runs are", function()
    local seed = os.time()
    math.randomseed(seed)
    local raw = { "ready", "sleeping", "waiting", "retrying", "blocked", "done", "failed", "cancelled" }
    for _, name in ipairs { "order", "mail" } do
      store:runs(name)
      for i = 1, 200 do
        local state = raw[math.random(#raw)]
        local waits = state == "sleeping" or state == "waiting"
        local due, held = nil, nil
        if waits and math.random() < 0.8 then due = store:time() + math.random(2) * 1e6 - 1500000 end
        if not (state == "done" or state == "failed" or state == "cancelled") then
          if math.random() < 0.9 then held = math.random() < 0.4 end
        end
        insert(name, math.random() < 0.5 and i or "run " .. i, i, state, due, held)
      end
    end
    local counts = assert(look.counts(store))
    assert.same({ "mail", "order" }, { counts[1].name, counts[2].name })
    for _, one in ipairs(counts) do
      local runs, by_state = store:runs(one.name), {}
      for _, run in ipairs(assert(runs:list { limit = 1000 })) do
        local state = assert(runs:get(run.id):state())
        assert.equal(state.state, run.state)
        by_state[run.state] = by_state[run.state] or {}
        table.insert(by_state[run.state], run.id)
      end
      assert.equal(200, one.total)
      for _, state in ipairs(look.STATES) do
        local ids, all, after = by_state[state] or {}, {}, nil
        assert.equal(#ids, one.states[state] or 0, ("seed %d: %s of %s"):format(seed, state, one.name))
        repeat -- a page at a time
          local list = assert(runs:list { state = state, after = after, limit = 7 })
          for _, run in ipairs(list) do all[#all + 1] = run.id end
          after = list[#list] and list[#list].id
        until #list < 7
        assert.same(ids, all, ("seed %d: %s of %s"):format(seed, state, one.name))
      end
    end
  end)

  it("reads no run to count them, and those of a state from the index", function()
    local table_of = require "runnel.store.runs.run_table"
    store:runs "order"
    local function plan(sql)
      local lines = {}
      for i, row in ipairs(store.db:rows("explain query plan " .. sql, 1, "s", "order", nil, "x", 50)) do
        lines[i] = row.detail
      end
      return table.concat(lines, "\n")
    end
    for _, state in ipairs(look.STATES) do
      local text = plan(table_of.list(state, false))
      assert.matches("INDEX runnel_run_state %(name=%?", text, state)
      assert.not_matches("SEARCH r USING PRIMARY KEY %(name=%?%)", text)
      assert.not_matches("SCAN", text)
    end
  end)

  it("makes nothing in a file without runs", function()
    assert.same({}, look.counts(store))
    assert.same({ "there are no runs" }, run_view.overview(store))
    local found, err = look.find(store, "17")
    assert.is_nil(found)
    assert.equal('there is no run "17"; the store has none', err)
    assert.same({}, store.db:rows "select 1 from sqlite_schema where name = 'runnel_run'")
  end)

  it("finds a run by what people type", function()
    for _, id in ipairs { 17, "17", 18, "19", "a/b", '"q"', "order/x", "a\nb" } do store:runs "order":start(id) end
    store:runs "mail":start "a/b"
    local function found(text)
      local run, err = look.find(store, text)
      return run and { run.name, run.id } or err
    end
    assert.same({ "order", 17 }, found "17")
    assert.same({ "order", "17" }, found '"17"')
    assert.same({ "order", "17" }, found 'order/"17"')
    assert.same({ "order", 18 }, found "18")
    assert.same({ "order", "19" }, found "19")
    assert.same({ "mail", "a/b" }, found "mail/a/b")
    assert.same({ "order", '"q"' }, found '"q"')
    assert.same({ "order", "order/x" }, found "order/x")
    assert.same({ "order", "a\nb" }, found "a\nb")
    assert.equal('there are several runs "a/b": say mail/a/b or order/a/b', found "a/b")
    assert.equal('there is no run "20"; there are runs of mail, order', found "20")
    assert.equal('there is no run ""; there are runs of mail, order', found "")
    for id, text in pairs { [17] = "17", ["17"] = '"17"', a = "a", ['"q"'] = '"\\"q\\""' } do
      assert.equal(text, look.shown(id))
      assert.equal(id, look.id_of(text))
    end
  end)

  -- The steps of a run as lines.
  local function lines_of(steps)
    local lines = {}
    for i, step in ipairs(steps) do
      lines[i] = ("%s %s %s %s %s"):format(step.number or "-", step.step, step.state, step.took or "-",
        step.result == nil and "-" or tostring(step.result))
    end
    return lines
  end

  it("sees how long each step has taken, a sleep of days too, and the one at which the run waits", function()
    local DAY <const> = 24 * 3600 * 1000
    sim.run(function()
      local memory <close> = stores.open ":memory:"
      local fails = true
      local charge = memory:once("charge", function(cents)
        rn.sleep(30)
        return "receipt " .. cents
      end, { max_age = 30 * DAY }) -- a result is no wait
      local mail = memory:once("mail", function(to)
        rn.sleep(#to)
        if to == "bad" and fails then error("no mail server", 0) end
      end)
      local ship = memory:once("ship", function() rn.sleep(4) end)
      local runs = memory:runs("order", function(run, to)
        charge(5)
        run:sleep(3 * DAY)
        local block = rn.go(ship, "a book")
        block:take()
        run:wait("approved", { timeout = DAY })
        run:wait "paid"
        if run:version "two mails" then mail(to) end
      end, { tries = 2, backoff = 1000 })
      local r = assert(runs:start("17", "bad"))
      rn.sleep(1000)
      assert.same({ "1 charge[5] done 30 -", "2 sleep[259200000] sleeping 970 -" }, lines_of(r:steps()))
      rn.sleep(3 * DAY)
      local wanted = {
        "1 charge[5] done 30 receipt 5", "2 sleep[259200000] done 259200000 -", '- ship["a book"] done 4 -',
      }
      local all = table.move(wanted, 1, 3, 1, {})
      all[4] = '3 wait["approved"] waiting 966 -'
      assert.same(all, lines_of(r:steps { results = true }))
      rn.sleep(2 * DAY - 966) -- the timeout is over, and the run waits without one since
      all[4] = '3 wait["approved"] done 86400000 -'
      all[5] = '- wait["paid"] waiting 86400000 -'
      assert.same(all, lines_of(r:steps { results = true }))
      r:signal "paid"
      local _, err = r:result()
      assert.equal("no mail server", err)
      all[5] = '4 wait["paid"] done 86400000 true'
      local found = lines_of(r:steps { results = true })
      assert.same(table.move({ '- version["two mails"] done - true', '- mail["bad"] failed - no mail server' }, 1, 2, 6,
        all), found)
      fails = false
      assert(r:restart { from = "mail" })
      r:result()
      found = lines_of(r:steps())
      assert.equal('5 mail["bad"] done 3 -', found[#found])
    end)
  end)

  it("sees the steps that are being done, where and since when, once they have taken a second", function()
    sim.run(function()
      local memory <close> = stores.open ":memory:"
      local ask = memory:once("ask", function(_, ms) rn.sleep(ms) end)
      local runs = memory:runs("order", function(run)
        ask("quick", 10)
        ask("slow", 4500)
        rn.scope(function(s)
          s:go(ask, "first", 10000)
          s:go(ask, "second", 4000)
        end)
        run:sleep(1e9)
      end)
      local r = assert(runs:start "17")
      local function at()
        local state = assert(r:state())
        local line = state.line and state.line:match "[^/]+:%d+$" ~= nil
        return { state.state, state.step, line, memory:time() - state.since }
      end
      rn.sleep(900)
      assert.same({ "running", nil, nil, 900 }, at())
      rn.sleep(3100)
      assert.same({ "running", 'ask["slow"]', true, 3990 }, at())
      assert.same({ '1 ask["quick"] done 10 -', '2 ask["slow"] running 3990 -' }, lines_of(r:steps()))
      assert.matches('ask%["slow"%] +.* so far +running$', table.concat(run_view.lines({ memory }, "17"), "\n"))
      assert.matches('running +4%.0 s .*ask%["slow"%] at ', run_view.lines({ memory }, "order running")[3])
      rn.sleep(1200) -- no step has taken long
      assert.equal(nil, r:state().step)
      rn.sleep(2000)
      assert.same({ '- ask["first"] running 2690 -', '- ask["second"] running 2690 -' },
        table.move(lines_of(r:steps()), 3, 4, 1, {}))
      assert.equal('ask["first"]', r:state().step)
      rn.sleep(12000)
      assert.same({ "sleeping", "sleep[1000000000]" }, table.move(at(), 1, 2, 1, {}))
      local steps = lines_of(r:steps())
      assert.equal(5, #steps)
      for i = 1, 4 do assert.matches("done", steps[i]) end
    end)
  end)

  it("sees what is wrong, and where, at first", function()
    local mail = store:once("mail", function() error("no mail server", 0) end)
    local runs = store:runs("order", function() mail "alice" end, { tries = 1 })
    runs:start(17):result()
    local text = table.concat(run_view.overview(store), "\n")
    assert.matches("runs +total +ready .* failed +cancelled +processes\norder +1 +0 .* 1 +0 +1\n", text)
    assert.matches("\n\norder, failed:\n  17 for [^;]+; "
      .. 'mail%["alice"%] at [^ ]*run_look_spec.lua:%d+: no mail server$', text)
    local lines = run_view.lines({ store }, "17")
    assert.equal("run        17 of order", lines[1])
    assert.matches('mail%["alice"%] .* error: no mail server$', lines[#lines])
    assert.matches("^17 +failed ", run_view.lines({ store }, "order failed")[3])
    assert.same({ "there are no such runs" }, run_view.lines({ store }, "sleeping"))
  end)

  it("sees no control characters of errors and notes", function()
    local runs = store:runs("order", function(run)
      run:note "a\27[2J\rnote\nsecond\u{9B}2J"
      error("no\27[31m \8server\nthere", 0)
    end, { tries = 1 })
    runs:start("\27[31m"):result()
    for _, lines in ipairs { run_view.overview(store), run_view.lines({ store }, "order failed"),
      run_view.run(store, runs:get "\27[31m") } do
      for _, line in ipairs(lines) do
        assert.not_matches("[%c\x9B]", line)
      end
    end
    local text = table.concat(run_view.run(store, runs:get "\27[31m"), "\n")
    assert.matches("\nerror      no%?%[31m %?server\nthere\nnote       a%?%[2J%?note\nsecond%?2J\n", text)
  end)

  it("gets only a page of them for the monitor's page, and no keys of steps by default", function()
    local charge = store:once("charge", function() end)
    local runs = store:runs("order", function(run)
      charge "secret"
      run:wait "approved"
    end)
    for i = 1, 60 do assert(runs:start(i)) end
    require("spec.support.patience").wait_for(function() return look.counts(store)[1].states.waiting == 60 end)
    local function answer(question, has_values)
      local text = assert(page.answer({ store }, json.encode(question), has_values))
      return json.decode(text), text
    end
    local first, text = answer { name = "order", state = "waiting" }
    assert.same({ 50, true, "50" }, { #first.list, first.more, first.list[50].id })
    assert.equal(60, first.stores[1].counts[1].total)
    assert.is_true(#text < 20000, #text)
    local second = answer { name = "order", state = "waiting", after = "50", run = "7" }
    assert.same({ 10, false, "51" }, { #second.list, second.more, second.list[1].id })
    assert.same({ "charge", 'wait["approved"]' }, { second.steps[1].step, second.steps[2].step })
    assert.equal('charge["secret"]', answer({ name = "order", run = "7" }, true).steps[1].step)
    assert.matches("there is no run", answer({ name = "order", run = "70" }).error)
    for _, question in ipairs { "7", '{"name":7}', '{"state":"asleep"}', "{" } do
      assert.same({ n = 2, nil, "the question is wrong" }, table.pack(page.answer({ store }, question, false)))
    end
  end)
end)
