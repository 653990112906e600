local process = require "spec.support.process"
local long = require "spec.support.long"
local terminal = require "spec.support.terminal"

local runnel = process.runnel

-- These specs wait for a real terminal.
describe("the prompt #slow", function()
  if not terminal.available then
    pending "tmux is missing"
    return
  end

  local dir, term
  before_each(function() dir = terminal.begin() end)
  after_each(terminal.finish)

  -- Starts the prompt.
  local function open(options, opts)
    term = terminal.prompt(options, opts)
    return term
  end

  -- The last lines of the screen.
  local function last(n, screen)
    local lines = {}
    for line in (screen or term:screen()):gmatch "[^\n]+" do lines[#lines + 1] = line end
    return table.concat(lines, "\n", math.max(1, #lines - n + 1))
  end

  describe("reads", function()
    it("expressions, and prints their values", function()
      open()
      term:enter "1 + 1, nil, 'a\\nb'"
      term:expect '\n2 +nil +"a\\nb"\n%[%d+%]>$'
    end)

    it("statements, over several lines", function()
      open()
      term:enter "for i = 1, 2 do"
      term:expect ">>$"
      term:enter "print('turn', i)"
      term:expect "i%)\n *>>$"
      term:enter "end"
      term:expect "> for i = 1, 2 do\n *>>   print%('turn', i%)\n *>> end\nturn +1\nturn +2\n%[%d+%]>$"
    end)

    it("tables, and prints them to a limited depth", function()
      open()
      term:enter "t = { 1, 'two', x = { y = { z = { deep = { 1 } } } }, [{}] = 1 } t.self = t"
      term:enter "t"
      term:expect 'self = %(cycle%)'
      local screen = term:screen()
      assert.matches('{ 1, "two", self = %(cycle%), x = { y = { z = { deep = {…} } } }, %[{}%] = 1 }', screen)
    end)

    it("chunks that do not compile or that raise, and prints the error", function()
      open()
      term:enter "x = = 1"
      term:expect "\n%[%d+%]:1: unexpected symbol near '='\n%[%d+%]>$"
      term:enter "error 'oops'"
      term:expect("\n%[1%]:1: oops\nstack traceback:\n +%[C%]: in %l+ 'error'\n +%[1%]:1: in main chunk\n"
        .. "%[2%]>$")
      term:enter "error()"
      term:expect "%(error object is a nil value%)"
      term:enter "error {}"
      term:expect "\n{}\nstack.*>$"
    end)

    it("until Ctrl-D", function()
      open()
      term:press "C-d"
      term:expect "%[ended 0%]"
    end)

    it("at a prompt only, where rn is a global", function()
      assert.equal("nil\n", process.run(dir.path, runnel .. " -e 'print(rn)'").out)
      open()
      term:enter "rn == require 'runnel'"
      term:expect "\ntrue\n"
    end)

    it("from a terminal after a script, with -i", function()
      dir:write("script.lua", "x = { ... }")
      open "-i script.lua a"
      term:enter "x"
      term:expect '\n{ "a" }\n'
    end)

    it("at the prompts that _PROMPT and _PROMPT2 are, as lua5.4 does", function()
      open("-e '_PROMPT, _PROMPT2 = \"\\27[32mmine\\27[0m\\n>\", \"and: \"' -i", { prompt = "mine >$" })
      term:enter "x = {"
      term.prompt = "and:$"
      term:enter "}"
      term.prompt = "mine >$"
      term:enter "#x"
      term:expect "\nmine >x = {\n *and: }\nmine >#x\n0\nmine >$"
      term:enter "_PROMPT = ''"
      term.prompt = nil -- nothing shows when the next one is there, so what is typed may be echoed twice
      term:enter "1 + 1"
      local screen = term:expect "\n1 %+ 1\n2$"
      assert.matches("\nmine >_PROMPT = ''\n+1 %+ 1\n2$", (screen:gsub("(\n1 %+ 1)%1", "%1")))
      term.prompt = "\n2$"
      term:enter "_PROMPT = nil"
      term:expect "\n%[%d+%]>$"
    end)

    it("invalid UTF-8, and loses nothing of it", function()
      open()
      term:type("('a"):bytes("\xff\xc3("):type("'):byte(1, -1)"):press "Enter"
      term:expect "\n97 +255 +195 +40\n%[%d+%]>$"
      term:enter "#'äöü', 'äöü'"
      term:expect '\n6 +"äöü"\n%[%d+%]>$'
    end)

    it("a character in two parts, and shows meanwhile what stands before it", function()
      open()
      term:bytes "'a\xc3"
      term:expect "> 'a$"
      term:bytes("\xa4'"):press "Enter"
      term:expect "> 'aä'\n\"aä\"\n%[%d+%]>$"
    end)

    it("a paste, of a megabyte in the long form", function()
      open()
      local n, lines = long.times(400, 20000), {}
      for i = 1, n do lines[i] = ("  %q,"):format("line number " .. i .. " of a paste that is rather long") end
      term:paste("t = {\n" .. table.concat(lines, "\n") .. "\n}\n")
      term:expect("… " .. n .. " more lines\n%[2%]>$")
      term:enter "#t, #table.concat(t)"
      term:expect("\n" .. n .. " +%d+\n%[%d+%]>$")
    end)
  end)

  describe("lets go blocks run", function()
    it("while a line is typed, and shows what they print above it", function()
      open()
      term:enter "rn.go(function() for i = 1, 30 do rn.sleep(10) print('tick', i) end end)"
      term:expect "%[2%]>$"
      for word in ("some text that is typed slowly"):gmatch "%S+ ?" do
        term:type(word)
        os.execute "sleep 0.04"
      end
      local screen = term:expect "\ntick +30\n%[%d+%]> some text that is typed slowly$"
      for i = 1, 30 do
        if i > 12 then assert.matches(("\ntick +%d\n"):format(i), screen) end
      end
      local _, n = screen:gsub("some text", "")
      assert.equal(1, n)
      -- The cursor has not moved.
      term:press("Left", "Left", "Left"):type "X"
      term:expect "typed sloXwly$"
    end)

    it("and joins output that they print without a newline", function()
      open()
      term:enter "rn.go(function() for i = 1, 10 do rn.sleep(20) io.write('.') end io.write 'done\\n' end)"
      term:at_prompt "typing"
      term:expect "\n%.%.%.%.%.%.%.%.%.%.done\n%[%d+%]> typing$"
    end)

    it("and what was entered stays below output without a newline", function()
      for _, environment in ipairs { "TERM=screen", "TERM=dumb" } do
        open(nil, { environment = environment })
        term:enter "for i = 1, 3 do io.write(i, ' ') end"
        term:enter "1"
        term:expect "\n1 2 3 *\n%[2%]> 1\n1\n%[3%]>$"
        term:enter "for i = 1, 3 do io.write(i, ' ') end"
        term:enter "for i = 1, 2 do"
        term:enter "print(i) end"
        term:expect "\n1 2 3 *\n%[4%]> for i = 1, 2 do\n *>>  *print%(i%) end\n1\n2\n%[5%]>$"
        term:enter "for i = 1, 3 do io.write(i, ' ') end"
        term:expect "\n1 2 3 *\n%[6%]>$"
        term:press "C-d"
        term:expect "\n1 2 3 *\n%[6%]>[%s]*%[ended 0%]"
      end
    end)

    it("and the candidates of Tab are below such output, too", function()
      open()
      term:enter "for i = 1, 3 do io.write(i, ' ') end"
      term:at_prompt("rn.pipel"):press "Tab"
      term:expect "> rn.pipeline$"
      term:press "Tab"
      term:expect "\n1 2 3 *\npipeline +pipeline_async_unordered\n"
    end)

    it("while lines longer than the screen is wide are typed", function()
      open(nil, { columns = 40 })
      term:enter "rn.go(function() for i = 1, 5 do rn.sleep(60) print('tick', i) end end)"
      term:at_prompt("x = '" .. ("abcdefghi "):rep(10))
      local screen = term:expect "tick +5\n%[2%]> x = 'abcdefghi abcdefghi abcdefghi\nabcdefghi [a-i \n]+ghi$"
      local _, n = screen:gsub("x = 'abc", "")
      assert.equal(1, n)
    end)

    it("while wide characters are typed", function()
      open(nil, { columns = 21 }) -- one of the characters would begin in the last column
      term:enter "rn.go(function() for i = 1, 4 do rn.sleep(50) print('tick', i) end end)"
      term:at_prompt "x = '日本語日本語日本語日本語😀ä"
      term:expect "tick +4\n%[%d+%]> x = '日"
      term:type("'"):press "Enter"
      term:enter "#x"
      term:expect "\n42\n%[%d+%]>$"
    end)

    it("while one of them prints 10 MB", function()
      open()
      term:enter "line = ('y'):rep(99) .. '\\n'"
      term:enter "rn.go(function() for i = 1, 100000 do io.write(line) end print 'all of it' end)"
      term:at_prompt "still here"
      term:expect("yyy\nall of it\n%[%d+%]> still here$")
    end)

    it("and shows their errors with the traceback", function()
      open()
      term:enter "rn.go(function() local function f() error 'oops' end f() end)"
      term:expect("runnel: error in %[%d+%]:1: %[%d+%]:1: oops\nstack traceback:\n +%[C%]: in %a+ 'error'\n"
        .. " +%[%d+%]:1: in %a+ 'f'\n.*\n%[%d+%]>$")
      term:enter "'alive'"
      term:expect '\n"alive"\n%[%d+%]>$'
    end)

    it("also with luv's events", function()
      open()
      if not package.searchpath("luv", package.cpath) then return pending "luv is missing" end
      term:enter "uv = require 'luv' t = uv.new_timer() t:start(50, 50, function() print 'from luv' end)"
      term:at_prompt "typed"
      term:expect "from luv\nfrom luv\nfrom luv\n%[%d+%]> typed$"
      term:press("C-c"):enter "t:close()"
      term:enter "rn.rename"
      term:expect "\nfunction: .*>$"
    end)

    it("while the size of the screen changes", function()
      open()
      term:type(("abcdefghi "):rep(12))
      term:resize(50, 20)
      term:expect "> abcdefghi [a-i ]+\n[a-i ]+\n[a-i ]+$"
      os.execute "sleep 0.2" -- the terminal wraps the line anew at once, and then it is drawn again
      term:resize(100, 20)
      os.execute "sleep 0.2"
      term:type "end"
      term:expect_once("abcdefghi end$", "> abc")
    end)
  end)

  describe("waits in an operation", function()
    it("while go blocks and timers run", function()
      open()
      term:enter "ch = rn.chan()"
      term:enter("function f() rn.sleep(50) for i = 1, 3 do rn.yield() print('before', i) end ch:put 'value' end")
      term:enter "rn.go(f) return ch:take()"
      term:expect '\nbefore +1\nbefore +2\nbefore +3\n"value"\n%[%d+%]>$'
    end)

    it("until Ctrl-C, which withdraws it and loses nothing", function()
      open()
      term:enter "ch = rn.chan() function takes() return ch:stats().takes_waiting end"
      term:enter "rn.go(function() while takes() == 0 do rn.sleep(5) end print 'it waits' rn.sleep(60000) end)"
      term:enter "ch:take()"
      term:expect "\nit waits$"
      term:press "C-c"
      term:expect "interrupted!\nstack traceback:\n +%[C%]: in method 'take'\n +%[%d+%]:1: in main chunk\n%[%d+%]>$"
      term:enter "takes()"
      term:expect "\n0\n%[%d+%]>$"
      term:enter "rn.go(ch.put, ch, 'value') return ch:take()"
      term:expect '\n"value"\n%[%d+%]>$'
    end)

    it("and reports a deadlock", function()
      open()
      term:enter "rn.chan():take()"
      term:expect "deadlock: take on chan: #%d+ would wait for ever"
    end)
  end)

  describe("is interrupted by Ctrl-C", function()
    it("in a loop", function()
      open()
      term:enter "print 'begun' while true do end"
      term:expect "\nbegun$"
      term:press "C-c"
      -- What print has written is seen before print has returned.
      term:expect "interrupted!\nstack traceback:\n.-%[%d+%]:1: in main chunk\n%[%d+%]>$"
    end)

    it("again, in a chunk that has caught the first", function()
      for i, work in ipairs { "while true do end", "rn.sleep(60000)",
        "rn.scope(function(s) s:go(function() rn.rename 'child' rn.sleep(60000) end) end)" } do
        if i == 1 then open() end
        term:enter("c = setmetatable({}, { __close = function() print(pcall(error, 'closed') == false) end })")
        term:enter(("for _ = 1, 9 do pcall(function() local x <close> = c print 'begun' %s end) end"):format(work))
        term:expect "\nbegun$"
        term:press "C-c"
        term:expect "true\nbegun$"
        term:press "C-c"
        term:expect "interrupted!\nstack traceback:\n.-%[%d+%]:1: in main chunk\n%[%d+%]>$"
        term:enter "'alive'"
        term:expect '\n"alive"\n%[%d+%]>$'
        term:press "C-l"
      end
      term:enter ":ps" -- the scopes have ended their children
      term:expect ":ps\nthere are no go blocks\n"
    end)

    it("while values are printed, and loses none", function()
      open()
      term:enter "v = setmetatable({}, { __tostring = function() print 'begun' while true do end end })"
      for _, line in ipairs { "v", ":time v" } do
        term:enter(line)
        term:expect "\nbegun$"
        term:press "C-c"
        term:expect "%(error in __tostring%)\n.*>$"
        term:press "C-l"
      end
      term:enter "rawequal(_, v)"
      term:expect "\ntrue\n%[4%]>$"
      term:enter "_PROMPT = v"
      term:expect "begun$"
      term:press "C-c"
      term:enter "_PROMPT = nil"
      term:enter "own, print = print, function() own 'begun' rn.sleep(60000) end"
      term:enter "5"
      term:expect "\nbegun$"
      term:press "C-c"
      term:expect "error calling 'print' %([^\n]*interrupted!%)\n+%[8%]>$"
    end)

    it("while variables are closed at the end, and closes the others", function()
      open()
      term:enter "c = setmetatable({}, { __close = function() print 'closing' while true do end end })"
      term:enter "local a <close> = c local b <close> = c"
      term:expect "%[3%]>$"
      term:press "C-d"
      for _ = 1, 2 do
        term:expect "closing$"
        term:press("C-l"):press "C-c"
        term:expect "interrupted!"
      end
      term:expect "%[ended 0%]"
    end)

    it("in a line, and drops it", function()
      open()
      term:type("this is dropped"):press("Left", "Left")
      term:expect "> this is dropped$"
      term:press "C-c"
      term:expect "> this is dropped%^C\n%[%d+%]>$"
      term:enter "for i = 1, 2 do"
      term:expect ">>$"
      term:press "C-c"
      term:enter "'next'"
      term:expect '\n"next"\n%[%d+%]>$'
    end)

    it("between two lines, which has no effect", function()
      open()
      term:enter ":time (function() print 'begun' rn.sleep(60000) end)()"
      term:expect "\nbegun$"
      term:press "C-c"
      term:expect "interrupted!.* ms CPU.*\n%[%d+%]>$"
      term:enter "t = {} for i = 1, 90 do t[i] = { ('x'):rep(90) } end"
      term:enter("t"):press "C-c"
      term:enter "'alive'"
      term:expect '\n"alive"\n%[%d+%]>$'
    end)

    it("in a go block that never parks, while a line is typed", function()
      open()
      term:enter "rn.go(function() print 'begun' while true do end end)"
      term:expect "\nbegun"
      term:press "C-c"
      term:expect "error in %[%d+%]:1: interrupted!"
      term:press "C-c"
      term:enter "'alive'"
      term:expect '\n"alive"\n%[%d+%]>$'
    end)
  end)

  describe("completes", function()
    it("names of globals, fields and methods", function()
      open()
      term:type("col"):press "Tab"
      term:expect "> collectgarbage$"
      term:press("C-u"):type("rn.promi"):press "Tab"
      term:expect "> rn.promise_chan$"
      term:press("C-u"):type("rn.xf.parti"):press "Tab"
      term:expect "> rn.xf.partition_$"
      term:press("C-u"):enter "ch = rn.chan()"
      term:at_prompt("ch:offe"):press "Tab"
      term:expect "> ch:offer$"
      term:press("C-u"):type(":tr"):press "Tab"
      term:expect "> :trace$"
    end)

    it("the common part, and shows the candidates", function()
      open()
      term:type("rn.pipel"):press "Tab"
      term:expect "> rn.pipeline$"
      term:press "Tab"
      term:expect "pipeline +pipeline_async_unordered\npipeline_async +pipeline_blocking\n%[%d+%]> rn.pipeline$"
    end)

    it("without running code of the user's", function()
      open()
      term:enter "x = setmetatable({}, { __index = function() print 'called' end, __pairs = error })"
      term:at_prompt("x.a"):press "Tab"
      term:type "b"
      local screen = term:expect "> x.ab$"
      assert.not_matches("\ncalled", screen)
    end)
  end)

  describe("keeps chunks", function()
    it("for the history of this session and of the next", function()
      open()
      term:enter "a = 1"
      term:enter "b = a + 1"
      term:expect "%[3%]>$"
      term:press("Up", "Up")
      term:expect "> a = 1$"
      term:press "C-c"
      term:expect "> a = 1%^C\n%[%d+%]>$"
      term:press "C-d"
      term:expect "%[ended 0%]"
      assert.equal("a = 1\nb = a + 1\n", dir:read "runnel_history")
      open()
      term:press "Up"
      term:expect "> b = a %+ 1$"
    end)

    it("in a file that only its owner can read", function()
      open()
      term:enter "a = 1"
      term:expect "> a = 1\n%[%d+%]>$" -- keys that are pressed while the terminal's mode changes are lost
      term:press "C-d"
      term:expect "%[ended 0%]"
      assert.matches("^%-rw%-%-%-%-%-%-%-", process.run(dir.path, "ls -l runnel_history").out)
    end)

    it("but at most 1000", function()
      local lines = {}
      for i = 1, 2500 do lines[i] = "line" .. i end
      dir:write("runnel_history", table.concat(lines, "\n") .. "\n")
      open()
      term:press "C-d"
      term:expect "%[ended 0%]"
      local text = dir:read "runnel_history"
      assert.equal(1000, select(2, text:gsub("\n", "")))
      assert.matches("^line1501\n", text)
      assert.matches("\nline2500\n$", text)
    end)

    it("only in memory if the file cannot be written", function()
      term = terminal.open(("cd / && XDG_STATE_HOME=/nowhere %s"):format(runnel))
      term.prompt = ">$"
      term:enter "1 + 1"
      term:expect "\n2\n%[%d+%]>$"
    end)
  end)

  describe("has commands:", function()
    it(":ps, :bt", function()
      open()
      term:enter "c = rn.chan():name 'jobs'"
      term:enter "g = rn.go(function() rn.rename 'worker' c:take() end) rn.go(function() rn.sleep(1e6) end)"
      term:enter ":ps"
      local screen = term:expect "sleeping.*\n%[%d+%]>$"
      assert.matches("\nid +name +state +for +waits +where\n", screen)
      assert.matches("\n *%d+ +worker +parked +[%d.]+ m?s +take on jobs +%[%d+%]:1\n", screen)
      assert.matches("\n *%d+ +%[%d+%]:1 +sleeping +[%d.]+ m?s +%[%d+%]:1\n", screen)
      term:enter "rn.pmap(1, function() rn.sleep(1e6) end, { 1 })"
      term:enter ":ps"
      term:expect "pmap at %[%d+%]:1 %-> chan: #%d+ +sleeping.*\n%[%d+%]>$"
      term:enter "for _ = 1, 4 do collectgarbage() end" -- now only its channel keeps it alive
      term:enter "rn.after(1e6, function() end)"
      term:enter ":ps"
      term:expect "\ntimer +called in\n%[%d+%]:1 +1%d min %d+ s\n%[%d+%]>$"
      term:enter(":bt " .. screen:match "\n *(%d+) +worker")
      term:expect("%(worker%), parked\nstack traceback:\n +%[C%]: in method 'take'\n"
        .. " +%[%d+%]:1: in function <%[%d+%]:1>\n%[%d+%]>$")
      term:enter ":bt 99"
      term:expect "\nthere is no go block #99; :ps lists the go blocks\n%[%d+%]>$"
    end)

    it(":cancel", function()
      open()
      term:enter "g = rn.go(function() rn.rename 'worker' rn.sleep(1e6) end) h = g"
      term:enter ":ps"
      local id = term:expect("worker +sleeping"):match "\n *(%d+) +worker"
      term:enter(":cancel " .. id)
      term:enter "g:take()"
      term:expect "cancelled at the prompt.*\n%[%d+%]>$"
      term:enter ":ps"
      term:expect "\nthere are no go blocks\n%[%d+%]>$"
    end)

    it(":leaks", function()
      open()
      term:enter ":leaks"
      term:expect "\nno go block was collected while it waited\n%[%d+%]>$"
      term:enter "for _ = 1, 3 do rn.go(function() rn.chan():name('never'):take() end) end"
      term:enter ":leaks"
      term:expect "\n3 started at %[%d+%]:1, in %[%d+%]:1: take on chan: never\n%[%d+%]>$"
    end)

    it(":profile", function()
      open()
      term:enter "rn.go(function() rn.rename 'sleeper' while true do rn.sleep(10) end end)"
      term:enter ":profile 200"
      term:expect "measuring for 200 ms.*waited, [^\n]* in all go blocks:\n[^\n]*line 1: sleep\n%[%d+%]>$"
      term:enter ":profile 5"
      term:expect "\n:profile needs a number of ms, from 50: 5000 are 5 s\n%[%d+%]>$"
      term:enter ":profile soon"
      term:expect '\nthe path of a file ending in .html, .folded or .json expected, got "soon"\n%[%d+%]>$'
    end)

    it(":chans", function()
      open()
      term:enter ":chans"
      term:expect "\nthere are no channels\n%[%d+%]>$"
      term:enter "a = rn.chan(3):name 'jobs' a:put(1) a:put(2) a:take() a:close()"
      term:enter "b = rn.promise_chan() rn.chan() rn.timeout(1e6)"
      term:enter ":chans"
      local screen = term:expect "\nid +name.*promise.*\n%[%d+%]>$"
      assert.matches("\nid +name +fill +buffer +puts wait +takes wait +put +taken\n", screen)
      assert.matches("\n *1 +jobs +1/3 +fixed +0 +0 +2 +1 +closed\n *2 +", screen)
      local _, lines = screen:match("\nid +name(.*)$"):gsub("\n", "")
      assert.equal(3, lines) -- the two, and the prompt
    end)

    it(":watch", function()
      open()
      term:enter "c = rn.chan(1):name 'ticks'"
      term:enter "rn.go(function() while true do rn.sleep(10) c:offer(1) c:poll() end end)"
      term:enter ":watch 50"
      local first = tonumber(term:expect("go blocks: 1, channels: 1;.*\n *1 +ticks"):match "fixed +0 +0 +(%d+)")
      local screen
      for _ = 1, 1000 do
        screen = term:screen()
        if (tonumber(screen:match "fixed +0 +0 +(%d+)") or 0) > first then break end -- nil: it is being drawn
        os.execute "sleep 0.05"
      end
      assert.is_true(tonumber(screen:match "fixed +0 +0 +(%d+)") > first)
      local _, n = screen:gsub("go blocks: 1", "")
      assert.equal(1, n)
      term:press "q"
      term:expect "> :watch 50\n%[%d+%]>$"
      term:enter ":watch 50"
      term:expect "go blocks: 1"
      term:press "C-c"
      term:expect ":watch 50\n%[3%]> :watch 50\n%[3%]>$"
      term:enter("'still'"):expect '"still"\n%[%d+%]>$'
      term:enter ":watch x"
      term:expect "\n:watch needs a number of ms, from 10\n%[%d+%]>$"
    end)

    it(":watch, :tap and :trace, which take the whole key that ends them", function()
      open()
      term:enter "c = rn.chan(1)"
      term:expect "%[2%]>$"
      local ends = { [":watch 50"] = "go blocks: 0", [":tap c"] = "ends this$", [":trace t.json"] = "ends this$" }
      for command, shown in pairs(ends) do
        -- An arrow, one with Ctrl, a function key, Alt with a letter, Escape, characters of 2, 3 and 4 bytes.
        for _, key in ipairs { "Up", "C-Up", "F5", "F1", "M-x", "Escape", "ü", "€", "😀" } do
          term:press "C-l"
          term:expect "^%[%d+%]>$"
          term:enter(command)
          term:expect(shown)
          term:press(key)
          term:expect "\n%[%d+%]>$"
          term:enter("'after ' .. 'it'"):expect "%] *> 'after ' .. 'it'\n\"after it\"\n%[%d+%]>$"
        end
      end
    end)

    it(":tap", function()
      open()
      term:enter "c = rn.chan(rn.sliding_buffer(1)):name 'ticks'"
      term:enter "rn.go(function() for i = 1, 1e9 do rn.sleep(20) c:put { n = i } c:put_async { n = i } end end)"
      term:enter ":tap c"
      term:expect "\nticks <%- { n = %d+ }\nticks <%- { n = %d+ }\n"
      term:press "q"
      term:expect "\n%d+ put and 0 taken meanwhile; values shown: %d+\n%[%d+%]>$"
      term:enter "d = rn.chan(1):name 'full' d:put 'first'"
      -- A go block that acts when the spec has seen the trace begin, and made a file.
      term:enter "function await(name) repeat rn.sleep(10) until io.open(name) end"
      term:enter "rn.go(function() await 'full' d:offer 'refused' d:poll() d:offer 'accepted' end)"
      term:enter ":tap d"
      term:expect "> :tap d\n[^\n]+any key ends this$"
      dir:write("full", "")
      assert.not_matches("refused'?\n", last(4, term:expect "\nfull <%- \"accepted\"$"))
      term:press "q"
      term:expect "\n1 put and 1 taken meanwhile; values shown: 1\n%[%d+%]>$"
      term:enter "e = rn.chan():name 'slow' rn.go(function() await 'slow' e:put 'late' end)"
      term:enter ":tap e"
      term:expect "> :tap e\n[^\n]+any key ends this$"
      dir:write("slow", "")
      term:expect '\nslow <%- "late"  %(waits%)$'
      term:press "q"
      term:expect "\n0 put and 0 taken meanwhile; values shown: 1\n%[%d+%]>$"
      term:enter ":tap slow"
      term:expect "any key ends this$"
      term:press "q"
      term:enter ":tap 42"
      term:expect "\n:tap needs a channel or a stage, got 42\n%[%d+%]>$"
      term:enter ":tap rn.chan("
      term:expect "\n:tap needs an expression: "
      term:enter ":trace slow"
      term:expect "\n:trace needs the path of a file that ends in .json, .*; :tap ch shows values\n%[%d+%]>$"
      term:enter ":trace recorded.json 10"
      term:expect "\n%d+ records written to recorded.json\n%[%d+%]>$"
    end)

    it(":time, :load, :doc and :help", function()
      open(nil, { columns = 120, rows = 50 })
      term:enter ":time rn.sleep(30)"
      local shown = term:expect "\n%d+%.%d%d%d ms elapsed, %d+%.%d%d%d ms CPU\n%[%d+%]>$"
      assert.is_true(tonumber(shown:match "\n(%S+) ms elapsed") >= 30)
      dir:write("file.lua", "print 'loaded' y = 5")
      term:enter ":load file.lua"
      term:expect "\nloaded\n%[%d+%]>$"
      term:enter ":load nope.lua"
      term:expect "\ncannot open nope.lua"
      term:enter ":doc ch:offer"
      term:expect "\nch:offer%(v%)\n    What put returns, or nil if it would have to wait\n%[%d+%]>$"
      term:enter ":doc rn.alt"
      term:expect "\nrn.alt {.*\n%[%d+%]>$"
      term:enter ":doc take"
      term:expect("\nch:take%(%)\n    [^\n]+\n.*\nrn.take%(n, ch, %[buf%]%)\n    [^\n]+\n"
        .. "xf.take%(n%)\n    [^\n]+\n.*%(docs/manual/channels.md#methods%)\n.*\n%[%d+%]>$")
      term:enter ":doc m:tap"
      term:expect "\nm:tap%(ch, %[close%]%)\n    [^>]+\n%[%d+%]>$"
      term:enter ":doc jar:all"
      term:expect "\njar:all%(%)\n    [^>]+\n%[%d+%]>$"
      term:enter ":doc how do I close a channel?"
      term:expect "\nChannels: Closing %(docs/manual/channels.md#closing%)\n    A closed channel gives.*\n%[%d+%]>$"
      term:enter ":doc xyzzyqwx"
      term:expect "\nthere is no documentation of xyzzyqwx\n%[%d+%]>$"
      term:enter ":help"
      local screen = term:expect "Ctrl%-D%s+ends%s+the%s+session.\n%[%d+%]>$"
      for _, name in ipairs { "ps", "chans", "watch", "trace", "bt", "cancel", "time", "load", "doc", "help" } do
        assert.matches("\n:" .. name .. " ", screen)
      end
      term:enter ":nope"
      term:expect "\nthere is no command :nope; :help lists them\n%[%d+%]>$"
    end)
  end)

  it("shows what its manual shows", function()
    local manual = assert(io.open("docs/manual/host.md")):read "a"
    local session = manual:match "\n    %$ runnel\n(.-)\n\n"
    open(nil, { columns = 120, rows = 60 })
    -- Times vary, and with them the width of their column.
    local function plain(text) return (text:gsub("%d+%.?%d* m?s%f[%A]", "TIME"):gsub(" +", " ")) end
    local expected = {}
    for line in (session .. "\n"):gmatch "    (.-)\n" do
      local prompt, input = line:match "^(%[%d+%]> )(.*)$"
      if input then
        term:enter(input)
        term:expect("\n" .. prompt:gsub("%W", "%%%0") .. input:gsub("%W", "%%%0") .. "\n.*>$")
      end
      expected[#expected + 1] = plain(line)
    end
    local screen = plain(term:screen():gsub("^.-\n%[1%]", "[1]"):gsub("\n%[%d+%]>$", "")) .. "\n"
    assert.equal(table.concat(expected, "\n") .. "\n", screen)
    assert.is_true(#expected > 8)
  end)

  it("ends when its terminal is closed", function()
    open()
    term:enter "print 'here'"
    term:expect "\nhere\n"
    local pid = term:pid()
    assert.is_true(os.execute("kill -0 " .. pid))
    term:close()
    for _ = 1, 1000 do
      if not os.execute(("kill -0 %s 2>/dev/null"):format(pid)) then return end
      os.execute "sleep 0.05"
    end
    error "it is still there"
  end)

  it("restores the terminal when a signal ends it", function()
    term = terminal.open(("stty -a >%s/before; XDG_STATE_HOME=%s %s; stty -a >%s/after"):format(
      dir.path, dir.path, runnel, dir.path))
    term:expect "> *$"
    os.execute("kill -TERM " .. term:pid())
    term:expect "%[ended"
    assert.equal(dir:read "before", dir:read "after")
  end)

  for what, lines in pairs {
    ["a line"] = { "rn.after(300, os.exit, 3)" },
    ["a line, by another thread"] = { "rn.thread(function() require 'runnel'.sleep(300) os.exit(3) end)" },
    ["a key"] = { "rn.after(300, rn.exit, 3)", ":watch 1000" },
  } do
    it("restores the terminal when the program ends itself while the prompt waits for " .. what, function()
      term = terminal.open(("stty -a >%s/before; XDG_STATE_HOME=%s %s; stty -a >%s/after"):format(
        dir.path, dir.path, runnel, dir.path))
      term:expect "> *$"
      term:type(table.concat(lines, "\n") .. "\n")
      term:expect "\n%[ended"
      assert.equal(dir:read "before", dir:read "after")
    end)
  end

  it("continues after Ctrl-Z", function()
    term = terminal.open(("cd %s; set -m; XDG_STATE_HOME=. %s; echo stopped; fg >/dev/null"):format(dir.path, runnel))
    term:expect "> *$"
    term:type "half a li"
    term:expect "> half a li$" -- the terminal drops what has not been read when it sends a signal
    term:press "C-z"
    term:expect "stopped\n.*> half a li$" -- goes on
    term:type("ne"):press "C-c"
    term.prompt = ">$"
    term:enter "'alive'"
    term:expect '"alive"\n%[%d+%]>$'
  end)

  it("has no editor on a dumb terminal", function()
    term = terminal.open(("cd %s; TERM=dumb XDG_STATE_HOME=. %s"):format(dir.path, runnel))
    term:expect "> *$"
    term:enter "rn.go(function() repeat rn.sleep(10) until io.open 'late' print 'late' end)"
    term:expect "\n%[2%]>$"
    dir:write("late", "")
    term:expect "\n%[%d+%]> late$"
    term:enter("for i = 1, 2 do"):enter "end"
    term:enter "'alive'"
    term:expect '"alive"\n%[%d+%]>$'
    term:press "C-c"
    term:expect "%[(%d+)%]>[%^C\n ]+%[%1%]>$" -- until then the terminal may drop what it would echo
    term:enter "2 + 2"
    term:expect "\n4\n%[%d+%]>$"
    term:press "C-d"
    term:expect "%[ended 0%]"
  end)
end)

describe("a prompt that reads a pipe (-i)", function()
  local dir
  setup(function() dir = process.directory() end)
  teardown(function() dir:remove() end)

  local function prompt(input) return process.run(dir.path, "XDG_STATE_HOME=. " .. runnel .. " -i", input) end

  it("runs line by line, with go blocks", function()
    local result = prompt("x = 1\nx + 1\nx = rn.go(function() rn.sleep(10) print 'late' end):take()\n"
      .. "for i = 1, 2 do\nprint(i)\nend\n")
    assert.matches("%[1%]> %[2%]> 2\n%[3%]> late\n%[4%]>   >>   >> 1\n2\n%[5%]>", result.out)
    assert.equal("", result.err)
    assert.equal(0, result.status)
  end)

  it("has the prompts that _PROMPT and _PROMPT2 are", function()
    local result = prompt "_PROMPT, _PROMPT2 = 'a> ', setmetatable({}, { __tostring = error })\n1\nfor"
    assert.matches("%[1%]> a> 1\na>   >> $", result.out)
    assert.equal("the input has ended in the middle of a statement\n", result.err)
    assert.equal("", prompt("_PROMPT = false\n1\n").err)
  end)

  it("continues without print, and prints by what the program has set instead", function()
    local result = prompt "own, print = print\n1\nprint = error\n2\nfunction print(v) own('<' .. v .. '>') end\n3\n"
    assert.equal("error calling 'print' (attempt to call a nil value)\nerror calling 'print' (2)\n", result.err)
    assert.matches("> <3>\n", result.out)
    assert.equal(0, result.status)
  end)

  it("continues after errors of its own, because the program has removed what it needs", function()
    local result = prompt "own, select = select\n1\nselect = own\n2\nio = nil\nerror 'oops'\n3\ntable = nil\n4\n"
    assert.matches("attempt to call a nil value %(global 'select'%)\n.*oops\n.*%(global 'table'%)\n$", result.err)
    assert.matches("> 2\n.*> 3\n", result.out)
    assert.equal(0, result.status)
  end)

  it("continues after errors, and reports an incomplete end of the input", function()
    local result = prompt "x = = 1\nerror 'oops'\n1\nfor"
    assert.matches("^%[%d+%]:1: unexpected symbol near '='\n%[%d+%]:1: oops\nstack traceback:", result.err)
    assert.matches("\nthe input has ended in the middle of a statement\n$", result.err)
    assert.matches("> 1\n%[", result.out)
  end)

  it("has commands, too", function()
    local result = prompt("c = rn.chan(1):name 'jobs'\nrn.go(function() rn.sleep(20) c:put('late') end)\n"
      .. ":tap c\nq\n:chans\n:watch 10\n")
    assert.matches("1 +jobs +[01]/1 +fixed", result.out)
    assert.equal(0, result.status)
  end)

  it("reports the error of a driver, and continues", function()
    local result = prompt("d = { n = 0 }\nfunction d:wait()\nself.n = self.n + 1\n"
      .. "if self.n == 1 then error 'no luck' end\nif self.n == 2 then error {} end\nend\n"
      .. "function d:alive() return false end\nrn.driver(d)\n"
      .. "rn.go(function() repeat rn.sleep(1) until go_on print 'late' end)\n"
      .. "'on'\ngo_on = true rn.sleep(50)\n")
    assert.equal("runnel: error in the scheduler: [2]:3: no luck\n"
      .. "runnel: error in the scheduler: not a string\n", result.err)
    assert.matches('> "on"\n.*late\n', result.out)
    assert.equal(0, result.status)
  end)
end)
