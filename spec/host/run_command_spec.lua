-- `runnel runs` and :runs at the prompt: the runs of a file.

local process = require "spec.support.process"
local quote = require("spec.support.shell").quote
local terminal = require "spec.support.terminal"

describe("the runs of a file", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
  local stores = require "runnel.store"
  local dir

  -- The runs: one waits, one sleeps, one has failed, one has ended, and one has not begun.
  local PROGRAM <const> = [[
local rn = require "runnel"
local store = require("runnel.store").open "work.db"
local charge = store:once("charge", function(cents) return "receipt " .. cents end)
local mail = store:once("mail", function() error("no mail server", 0) end)
local orders = store:runs("order", function(run, what)
  charge(5)
  run:note("it " .. what)
  if what == "waits" then run:wait "approved" end
  if what == "sleeps" then run:sleep(1e9) end
  if what == "fails" then mail "alice" end
  return what
end, { tries = 1 })
store:runs("news", function(run) run:wait "go" end)
if arg[1] then return end
rn.on_error(function() end)
for id, what in pairs { w = "waits", s = "sleeps", f = "fails", [17] = "ends" } do assert(orders:start(id, what)) end
store:runs "later":start("w")
local function has(state) return #orders:list { state = state } == 1 end
while not (has "waiting" and has "sleeping" and has "failed" and has "done") do rn.sleep(5) end
store:close()
rn.exit(0)
]]

  setup(function()
    dir = process.directory()
    dir:write("app.lua", PROGRAM)
    local result = process.run(dir.path, process.runnel .. " app.lua")
    assert.equal(0, result.status, result.err)
    dir:write("text", "no store")
    os.execute(("cp %s/work.db %s/before.db"):format(dir.path, dir.path))
  end)
  before_each(function() os.execute(("cd %s && rm -f work.db* && cp before.db work.db"):format(dir.path)) end)
  teardown(function() dir:remove() end)

  local function run(...)
    local words = { process.runnel, "runs", ... }
    for i, word in ipairs(words) do words[i] = quote(word) end
    local result = process.run(dir.path, table.concat(words, " "))
    return result.status, result.out, result.err
  end

  -- Runs the command, which succeeds, and whose output matches.
  local function shows(pattern, ...)
    local status, out, err = run(...)
    assert.same({ 0, "" }, { status, err })
    assert.matches(pattern, out)
  end

  it("are counted by their states, with those that have failed", function()
    shows("^runs +total +ready +running +sleeping +waiting +retrying +blocked +done +failed +cancelled +processes\n"
      .. "later +1 +1 +0 +0 +0 +0 +0 +0 +0 +0 +0 +nobody continues them\n"
      .. "news +0 +0 +0 +0 +0 +0 +0 +0 +0 +0 +0\n"
      .. "order +4 +0 +0 +1 +1 +0 +0 +1 +1 +0 +0 +nobody continues them\n\n"
      .. 'order, failed:\n  f for [^\n]+; mail%["alice"%] at app.lua:10: no mail server\n$', "work.db")
  end)

  it("are listed by their names and states", function()
    shows("^later:\nid .*\nw +ready .*\n\norder:\nid .*\n17 +done .*\nf +failed .*\ns +sleeping .*\nw +waiting ",
      "work.db", "list")
    shows("^order:\nid [^\n]*\nw +waiting [^\n]*it waits\n$", "work.db", "list", "order", "waiting")
    shows("^order:\nid [^\n]*\n17 +done [^\n]*\n$", "work.db", "list", "done")
    shows("^there are no such runs\n$", "work.db", "list", "blocked")
  end)

  it("are shown with their steps", function()
    shows('^run +f of order\nstate +failed for .*\nat +mail%["alice"%] at app.lua:10\nerror +no mail server\n'
      .. 'note +it fails\nstarted .*\n\n +step .*\n'
      .. '1 +charge%[5%] .* "receipt 5"\n +mail%["alice"%] .* error: no mail server\n$',
      "work.db", "show", "f")
    shows('^run +17 of order\nstate +done .*\nresult +"ends"\n', "work.db", "show", "order/17")
    shows("\n2 +sleep%[1000000000%] .* so far +until ", "show", "work.db", "s")
  end)

  it("get signals, are cancelled, started again and forgotten", function()
    shows("^approved is sent to w of order\n$", "work.db", "signal", "order/w", "approved", '{"by":"bob"}')
    shows("^s of order is being cancelled\n$", "work.db", "cancel", "s", "no stock")
    shows("^f of order is started again, from mail on\n$", "work.db", "restart", "f", "mail")
    shows("^17 of order is forgotten\n$", "work.db", "forget", "17")
    local store <close> = stores.open(dir.path .. "/work.db")
    assert.same({
      { id = "s", signal = "", value = '"no stock"' }, { id = "w", signal = "approved", value = '{"by":"bob"}' },
    }, store.db:rows "select id, signal, value from runnel_signal order by id")
    local orders = store:runs "order"
    assert.equal("ready", orders:get("f"):state().state)
    assert.equal(1, #orders:get("f"):steps())
    assert.is_nil((orders:get(17)))
  end)

  it("are checked against a new program before it runs", function()
    dir:write("new.lua", (PROGRAM:gsub("charge%(5%)", "charge(6)")))
    local status, out = run("check", "work.db", "new.lua", "x")
    assert.equal(1, status)
    assert.matches('\ns of order cannot go on: charge%[6%] at new.lua:6: run order%["s"%]: step 1 is charge%[6%] now',
      "\n" .. out)
    assert.matches("\nruns that have not ended: 3; this program cannot continue: 3\n$", out)
    dir:write("same.lua", (PROGRAM:gsub('store:runs%("news"', 'store:runs("later", function() end)\n%0')))
    assert.same({ 0, "runs that have not ended: 3; this program cannot continue: 0\n", "" },
      { run("work.db", "check", "same.lua", "x") })
  end)

  it("are not there in a file without runs, which stays as it is", function()
    stores.open(dir.path .. "/empty.db"):close()
    assert.same({ 0, "there are no runs\n", "" }, { run "empty.db" })
    assert.same({ 0, "there are no runs\n", "" }, { run("empty.db", "list") })
    assert.same({ 1, "", 'runnel runs: there is no run "17"; the store has none\n' }, { run("empty.db", "show", "17") })
    local store <close> = stores.open(dir.path .. "/empty.db")
    assert.is_nil(store.db:one "select 1 from sqlite_schema where name = 'runnel_run'")
  end)

  it("are not looked for in a database that is no store, which stays as it is; neither are queues #ci", function()
    local sqlite = require "runnel.sqlite"
    dir:write("empty", "")
    do
      local db <close> = sqlite.open(dir.path .. "/foreign.db", { wal = false })
      db:exec "create table mine(a)"
      local other <close> = sqlite.open(dir.path .. "/wal.db")
      other:exec "create table mine(a)"
    end
    local function files()
      local names = {}
      for name in process.run(dir.path, "ls; cat foreign.db wal.db empty | cksum").out:gmatch "[^\n]+" do
        names[#names + 1] = name
      end
      return names
    end
    local before = files()
    for _, file in ipairs { "foreign.db", "wal.db", "empty" } do
      local why = file .. " is no file of runnel.store\n"
      assert.same({ 1, "", "runnel runs: " .. why }, { run(file) })
      assert.same({ 1, "", "runnel runs: " .. why }, { run(file, "list") })
      assert.same({ 1, "", "runnel runs: " .. why }, { run(file, "check", "app.lua") })
      for _, words in ipairs { "", " waiting x", " --metrics" } do
        local result = process.run(dir.path, process.runnel .. " queues " .. file .. words)
        assert.same({ 1, "", "runnel queues: " .. why }, { result.status, result.out, result.err })
      end
    end
    assert.same(before, files())
  end)

  it("are not asked for in wrong ways #ci", function()
    for _, row in ipairs {
      { 2, "a file of runnel.store expected" },
      { 1, "there is no file nothing.db", "nothing.db" },
      { 1, "open: text: file is not a database", "text" },
      { 2, 'unknown command "shw"', "work.db", "shw" },
      { 2, 'unknown option "--watching"', "work.db", "--watching" },
      { 2, '--watch: a number expected, got "x"', "work.db", "--watch=x" },
      { 2, '--watch takes no command, got "list"', "work.db", "list", "--watch" },
      { 2, "show needs the id of a run", "work.db", "show" },
      { 2, 'show takes no argument "x"', "work.db", "show", "f", "x" },
      { 1, 'there is no run "x"; there are runs of later, news, order', "work.db", "show", "x" },
      { 1, 'there are several runs "w": say later/w or order/w', "work.db", "show", "w" },
      { 2, "signal needs the name of a signal", "work.db", "signal", "s" },
      { 2, "signal: JSON expected, got {: ", "work.db", "signal", "s", "go", "{" },
      { 1, "the run order[17] has ended: it is done", "work.db", "signal", "17", "go" },
      { 1, 'the run order["s"] has no step "nothing"', "work.db", "restart", "s", "nothing" },
      { 1, 'the run order["s"] has not ended', "work.db", "forget", "s" },
      { 2, 'list: a state expected, one of ready, running, ', "work.db", "list", "order", "asleep" },
      { 1, 'there are no runs of "asleep"; there are runs of later, news, order', "work.db", "list", "asleep" },
      { 2, "check needs a program", "work.db", "check" },
      { 1, "cannot open nothing.lua", "work.db", "check", "nothing.lua" },
      { 1, "open: text: file is not a database", "text", "check", "app.lua" },
    } do
      local status, out, err = run(table.unpack(row, 3))
      local told = table.concat(row, " ")
      assert.same({ row[1], "" }, { status, out }, told)
      assert.equal("runnel runs: " .. row[2], err:sub(1, #row[2] + 13), told)
    end
    for _, word in ipairs { "help", "--help", "-h" } do shows("^usage: runnel runs FILE", word) end
  end)

  it("are shown at the prompt, of all stores that are open", function()
    if not terminal.available then return pending "tmux is missing" end
    local term = terminal.runnel(dir, "", { columns = 140, rows = 40 })
    term:enter ":runs"
    term:expect "this program has no store open"
    term:enter 'store = require("runnel.store").open "work.db"'
    term:enter ":runs"
    term:expect "order +4 +0 +0 +1 +1 +0 +0 +1 +1 +0 +0 +nobody continues them\n\norder, failed:\n  f for "
    term:enter ":runs order waiting"
    term:expect "\norder:\nid [^\n]*\nw +waiting "
    term:enter ":runs f"
    term:expect 'mail%["alice"%] .* error: no mail server\n'
    term:enter ":runs nobody"
    term:expect 'there is no run "nobody"; there are runs of later, news, order'
    term:type ":runs slee\t"
    term:expect ":runs sleeping$"
    term:close()
  end)
end)
