-- runnel.lite in the real Neovim, and the programs of docs/neovim.md there.

local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"
local programs = require "spec.support.lite.programs"

local PAGE = "docs/neovim.md"
local busted = { it = it, pending = pending }
local it_in_nvim = programs.it(busted, "nvim")

describe("runnel.lite in Neovim", function()
  local dir

  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  local function nvim(code) return programs.nvim(dir, code) end

  it_in_nvim("runs go blocks in the main loop, where the API may be called", function()
    assert.equal("hello 2\n20 ms\n", nvim [[
      local nvim, rn = ...
      local lines, began = rn.chan(), rn.now()
      rn.go(function()
        vim.api.nvim_buf_set_lines(0, 0, -1, false, { "hello", "world" })
        rn.sleep(20)
        lines:put(vim.api.nvim_buf_line_count(0))
      end)
      say(vim.api.nvim_buf_get_lines(0, 0, 1, false)[1] ~= "" and "too early" or "hello", lines:take())
      say(rn.now() - began >= 20 and "20 ms" or rn.now() - began)
    ]])
  end)

  it_in_nvim("goes on with go blocks when nothing blocks the loop", function()
    assert.equal("false\n", programs.nvim_top(dir, [[
      local rn = require("runnel.lite.nvim").rn
      rn.go(function()
        local _, port = rn.alts { rn.chan(), rn.timeout(5) }
        io.stdout:write(tostring(vim.in_fast_event()), "\n")
        vim.cmd "qa!"
      end)
    ]]))
  end)

  it_in_nvim("refuses a wait in a callback of vim.uv, and goes on", function()
    local output = programs.nvim_top(dir, [[
      local rn = require("runnel.lite.nvim").rn
      local ch, timer = rn.chan(), vim.loop.new_timer()
      timer:start(1, 0, function()
        timer:close()
        for _, wait in ipairs { function() ch:take() end, function() rn.run(function() ch:take() end) end } do
          io.stdout:write(select(2, pcall(wait)), "\n")
        end
        rn.go(function()
          rn.sleep(1)
          io.stdout:write "a go block\n"
          vim.cmd "qa!"
        end)
      end)
    ]])
    assert.matches("^top.lua:%d+: take would have to wait, which is impossible outside a go block[^\n]*\n"
      .. "top.lua:%d+: run would have to wait[^\n]*\na go block\n$", output)
  end)

  it_in_nvim("runs go blocks after one that handles events itself", function()
    assert.equal("waited\ntick\nmessages: \n", programs.nvim_top(dir, [[
      local rn = require("runnel.lite.nvim").rn
      local tick = rn.go(function()
        rn.sleep(50)
        io.stdout:write "tick\n"
      end)
      vim.defer_fn(function()
        rn.go(function()
          vim.wait(100, function() return false end, 5)
          io.stdout:write "waited\n"
          tick:take()
          io.stdout:write("messages: ", vim.fn.execute "messages", "\n")
          vim.cmd "qa!"
        end)
      end, 10)
    ]]))
  end)

  it_in_nvim("gives what the user answers", function()
    assert.equal("typed by Ann\nb\nnil\n5\nnil why\nfile nil ENOENT\n", nvim [[
      local nvim, rn = ...
      vim.ui.input = function(opts, f) vim.defer_fn(function() f("typed by " .. opts.prompt) end, 1) end
      vim.ui.select = function(items, _, f) f(items[2], 2) end
      say((nvim.input { prompt = "Ann" }:take()))
      say((nvim.select { "a", "b" }:take()))
      vim.ui.select = function(_, _, f) f(nil, nil) end
      say((nvim.select { "a", "b" }:take()))
      say((nvim.callback(function(a, b, f) f(a + b) end, 2, 3):take()))
      say(nvim.callback(function(f) f(nil, "why") end):take())
      local _, why = nvim.error_first(vim.loop.fs_stat, "no such file"):take()
      say(nvim.error_first(vim.loop.fs_stat, "main.lua"):take().type, nil, why:match "^%u+")
    ]])
  end)

  it_in_nvim("gives the changes of a buffer also after a reload, and refuses one that is not loaded", function()
    dir:write("file.txt", "a\nb\n")
    assert.equal("0 1 3\n0 4 1 false\n0 1 1\n2 of 2 refused\n", nvim [[
      local nvim, rn = ...
      vim.cmd "edit file.txt"
      local ch = nvim.changes(0)
      vim.api.nvim_buf_set_lines(0, 0, 1, false, { "x", "y", "z" })
      say(unpack(ch:poll()))
      vim.fn.writefile({ "new" }, "file.txt")
      vim.cmd "edit!"
      local change = ch:take() or {}
      change[4] = ch:closed()
      say(unpack(change))
      vim.api.nvim_buf_set_lines(0, 0, 1, false, { "newer" })
      say(unpack(ch:poll()))
      local n = 0
      for _, buffer in ipairs { vim.fn.bufadd "other.txt", 9999 } do
        local ok, err = pcall(function() return (nvim.changes(buffer)) end)
        if not ok and err:find "^spec.lua:%d+: changes: no buffer %d+ is loaded" then n = n + 1 end
      end
      say(n, "of 2 refused")
    ]])
  end)

  it_in_nvim("gives the changes of a buffer, and ends with it", function()
    assert.equal("0 1 2\n0 1 1\nclosed nil true\n", nvim [[
      local nvim, rn = ...
      local buffer = vim.api.nvim_create_buf(false, true)
      local all, newest = nvim.changes(buffer, rn.chan(10)), nvim.changes(buffer)
      vim.api.nvim_buf_set_lines(buffer, 0, -1, false, { "one", "two" })
      vim.api.nvim_buf_set_lines(buffer, 0, 1, false, { "1" })
      say(unpack(all:take()))
      say(unpack(newest:take()))
      all:take()
      vim.api.nvim_buf_delete(buffer, { force = true })
      say("closed", all:take(), newest:closed())
    ]])
  end)

  it_in_nvim("gives autocommands until their channel is closed", function()
    assert.equal("User Hello\n1\n0\n", nvim [[
      local nvim, rn = ...
      local function count() return #vim.api.nvim_get_autocmds { event = "User" } end
      local events = nvim.events("User", { pattern = "*" })
      vim.cmd "doautocmd User Hello"
      local event = events:take()
      say(event.event, event.match)
      say(count())
      events:close()
      while count() > 0 do rn.yield() end
      say(count())
    ]])
  end)

  it_in_nvim("ends an autocommand with its next event where it cannot delete it, in a callback of vim.uv", function()
    assert.equal("1\n0\n", nvim [[
      local nvim, rn = ...
      local function count() return #vim.api.nvim_get_autocmds { event = "User" } end
      vim.api.nvim_del_autocmd = function() error "E5560: it must not be called in a fast event context" end
      local events = nvim.events("User", { pattern = "*" })
      events:close()
      rn.sleep(5)
      say(count())
      vim.cmd "doautocmd User Hello"
      say(count())
    ]])
  end)

  it_in_nvim("gives the lines of a command, reads no faster than they are taken, and kills it", function()
    assert.equal("a b nil sh: status 3\ny y\ntrue\nnosuchcommand: ENOENT: no such file or directory\n", nvim [[
      local nvim, rn = ...
      local lines = nvim.lines { "sh", "-c", "echo a; echo b; exit 3" }
      say(lines:take(), lines:take(), lines:take())
      local endless = nvim.lines { "sh", "-c", "echo $$ >pid; exec yes" }
      say(endless:take(), endless:take())
      local memory = collectgarbage "count"
      rn.sleep(50)
      assert(collectgarbage "count" - memory < 5000)
      endless:close()
      local pid = io.open("pid"):read "n"
      while (vim.uv or vim.loop).kill(pid, 0) do rn.sleep(1) end
      say(true)
      say(select(2, nvim.lines { "nosuchcommand" }:take()))
    ]])
  end)

  it_in_nvim("gives the result of vim.system, and kills the process", function()
    local output = nvim [[
      local nvim, rn = ...
      if not vim.system then
        say(select(2, pcall(nvim.system, { "true" })))
        return
      end
      say(nvim.system({ "echo", "hi" }, { text = true }):take().stdout)
      local slow = nvim.system { "sh", "-c", "echo $$ >pid; exec sleep 60" }
      while not io.open "pid" or not io.open("pid"):read "n" do rn.sleep(1) end
      local pid = io.open("pid"):read "n"
      slow:close()
      while vim.uv.kill(pid, 0) do rn.sleep(1) end
      say "killed"
    ]]
    if output:find "this Neovim has no vim.system" then return pending "this Neovim has no vim.system" end
    assert.equal("hi\n\nkilled\n", output)
  end)

  it_in_nvim("shows errors by vim.notify", function()
    assert.matches("^runnel: error in chan: #%d+: spec.lua:4: a bug\n", nvim [[
      local nvim, rn = ...
      local told = rn.chan(10)
      vim.notify = function(text) told:offer(text) end
      rn.timeout(0):take_async(function() error "a bug" end)
      say((told:take()))
    ]])
  end)

  -- ---- the page ----

  local function write_page()
    dir:write("picker.lua", pages.block(PAGE, "Starts search(query)"))
    dir:write("find.lua", pages.block(PAGE, "function M.open"))
    dir:write("test.lua", pages.block(PAGE, "shows only what the last query has found"))
    dir:write("run.lua", 'it = function(_, f) f() print "passed" end dofile "test.lua"')
  end

  it_in_nvim("has a picker that cancels the last search, on " .. PAGE, function()
    write_page()
    assert.equal("grep found: ./hello.txt:1:hello there\nkilled\nthe new one\nclosed\n", nvim [[
      local nvim, rn = ...
      local find = require "find"
      local file = io.open("hello.txt", "w")
      file:write "hello there\n"
      file:close()
      local prompt, results = find.open()
      local changes = nvim.changes(results)
      local function first() return vim.api.nvim_buf_get_lines(results, 0, 1, false)[1] end
      local function await(text)
        while first() ~= text do changes:take() end
        return text
      end
      local function type_in(text) vim.api.nvim_buf_set_lines(prompt, 0, -1, false, { text }) end
      type_in "hello th"
      say("grep found:", await "./hello.txt:1:hello there")

      local search = find.search
      function find.search(query) return nvim.lines { "sh", "-c", query } end
      vim.cmd "bwipeout!" -- the prompt
      prompt, results = find.open()
      changes = nvim.changes(results)
      type_in "echo $$; exec sleep 60"
      while not (first() or ""):find "%d" do changes:take() end
      local pid = tonumber(first())
      type_in "echo the new one"
      while (vim.uv or vim.loop).kill(pid, 0) do rn.sleep(1) end
      say "killed"
      say(await "the new one")
      vim.api.nvim_buf_delete(prompt, { force = true })
      say "closed"
    ]])
  end)

  it_in_nvim("has a test that passes in Neovim, too, on " .. PAGE, function()
    write_page()
    assert.equal("passed\n", programs.nvim_top(dir, [[
      print = function(text) io.stdout:write(text, "\n") end
      dofile "run.lua"
      vim.cmd "qa!"
    ]]))
  end)

  for _, interpreter in ipairs { "lua5.1", "luajit", "lua5.4" } do
    local title = "has a test that passes on %s, and finds a fault, on %s"
    programs.it(busted, interpreter)(title:format(interpreter, PAGE), function()
      write_page()
      assert.equal("passed\n", programs.run(dir, interpreter .. " run.lua"))
      local right, wrong = "found, lines, tick = search%(value%), {}", "found, tick = search(value)"
      local code, n = dir:read("picker.lua"):gsub(right, wrong)
      assert.equal(1, n)
      dir:write("picker.lua", code)
      local ok, message = pcall(programs.run, dir, interpreter .. " run.lua")
      assert.is_false(ok)
      assert.matches("a 1", message)
    end)
  end

  programs.it(busted, "luajit")("can search only when the user stops typing, on " .. PAGE, function()
    write_page()
    local function change(name, old, new)
      local text = dir:read(name)
      local from, to = text:find(old, 1, true)
      dir:write(name, text:sub(1, from - 1) .. new .. text:sub(to + 1))
    end
    local branch = dir:read "picker.lua":match "( +if from == queries then.-elseif from == found then\n)"
    change("picker.lua", branch, pages.block(PAGE, "found, wanted, pause = never"))
    change("picker.lua", "{ queries, found, tick }", "{ queries, pause, found, tick }")
    change("picker.lua", "found, lines, tick = never", "wanted, pause, found, lines, tick = nil, never, never")
    change("test.lua", "queries:close()", 'assert(#searches == 1, "searches: " .. #searches) queries:close()')
    assert.equal("passed\n", programs.run(dir, "luajit run.lua"))
    change("picker.lua", "rn.timeout(150)", "rn.timeout(0)") -- an explored test may begin the first search, too
    local ok, message = pcall(programs.run, dir, "luajit run.lua")
    assert.is_false(ok)
    assert.matches("searches: 2", message)
  end)

  it_in_nvim("has a first program on " .. PAGE, function()
    local first, n = pages.block(PAGE, "nothing within a second"):gsub("1000", "60000")
    assert.equal(1, n)
    dir:write("first.lua", first)
    assert.equal("commit of Ann\n", nvim [[
      local nvim, rn = ...
      vim.ui.input = function(_, f) f "Ann" end
      local lines, told = nvim.lines, rn.chan(1)
      nvim.lines = function(command)
        assert(command[5] == "Ann")
        return lines { "echo", "commit of Ann" }
      end
      vim.notify = function(text) told:offer(text) end
      dofile "first.lua"
      say((told:take()))
    ]])
  end)
end)
