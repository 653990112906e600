-- The prompt in a real terminal: pastes, the history, completion, output, locals, and the size of the screen.

local long = require "spec.support.long"
local process = require "spec.support.process"
local rn = require "runnel"
local snippets = require "spec.support.docs.snippets"
local terminal = require "spec.support.terminal"

local runnel = process.runnel

-- These specs wait for a real terminal.
describe("the prompt in a terminal #slow", function()
  if not terminal.available then
    pending "tmux is missing"
    return
  end

  local dir, term
  before_each(function() dir = terminal.begin() end)
  after_each(terminal.finish)

  local function open(opts)
    term = terminal.prompt(nil, opts)
    return term
  end

  describe("takes a paste", function()
    it("as one chunk, with tabs, blank lines and locals", function()
      open()
      term:paste "local t = {}\n\nfor i = 1, 3 do\n\tt[i] = i\n\n\tt[i] = 2 * t[i]\nend\nprint(#t, t[3])\n"
      term:expect "\n *>> print%(#t, t%[3%]%)\n3 +6\n%[2%]>$"
      term:enter "t[1]"
      term:expect "\n2\n%[3%]>$"
    end)

    it("into the line, for editing, if it does not end with a newline", function()
      open()
      term:type("x = "):paste("{ 1,\n2 }"):type " y = 3"
      term:expect "> x = { 1,\n *>> 2 } y = 3$"
      term:press "Enter"
      term:enter "#x + y"
      term:expect "\n5\n%[3%]>$"
    end)

    it("as several chunks and commands, if it is not a single chunk", function()
      open()
      term:paste "a = 20\na + 1\nlocal b = a + 2\nb\n"
      term:expect "\n *>> b\n21\n22\n%[5%]>$"
      term:paste ":time 1 + 1\na\n"
      term:expect "\n2\n%d+%.%d+ ms[^\n]+\n20\n%[6%]>$"
    end)

    it("of any size, and shows the beginning of a long one", function()
      open()
      local rows = {}
      for i = 1, 500 do rows[i] = ("\t{ id = %d, name = 'row %d' },"):format(i, i) end
      term:paste("big = {\n" .. table.concat(rows, "\n") .. "\n}\n#big\n")
      term:expect "> big = {\n *>> +{ id = 1, name = 'row 1' },\n *>> … 501 more lines\n500\n%[3%]>$"
      term:type("#"):paste("{\n" .. ("  'twenty characters or so',\n"):rep(1000) .. "}") -- entered without the key
      term:expect "\n1000\n%[4%]>$"
    end)

    it("and reports its errors at once", function()
      open()
      term:bytes "\27[201~" -- the end of a paste that has not begun
      term:paste "a = 1\nb = = 2\nc = 3\n"
      term:expect "\n%[1%]:2: unexpected symbol near '='\n%[1%]>$"
    end)

    it("from a terminal without bracketed paste, without completing at tabs", function()
      open()
      term:paste_unmarked "t = {\n\t1,\n\t\t2,\n\n}\n#t\n"
      term:expect "\n2\n%[3%]>$"
      local lines = {}
      for i = 1, 3000 do lines[i] = ("\t%q,"):format("line " .. i) end
      term:paste_unmarked("t = {\n" .. table.concat(lines, "\n") .. "\n}\n#t\n")
      term:expect("\n3000\n%[5%]>$")
    end)

    it("of the README and the tutorial, one snippet after the other", function()
      open { columns = 140, rows = 50 }
      local n = 0
      for _, path in ipairs { "README.md", "docs/tutorial.md" } do
        for _, snippet in ipairs(snippets.of(path)) do
          -- The driver's example takes the place of the one that the prompt runs with.
          if not snippet.code:find "rn.driver" then
            n = n + 1
            term:paste(snippet.code .. "\n")
            term:enter(("'snippet ' .. %d"):format(n))
            local screen = term:expect(('\n"snippet %d"\n%%[%%d+%%]>$'):format(n))
            local printed = screen:gsub("\t", " "):gsub(" +", " ")
            assert.not_matches("stack traceback", printed:match "[^\n]*\n*$")
            for _, line in ipairs(snippet.expected) do
              local found = printed:find((line:gsub(" +", " ")), 1, true)
              assert.is_truthy(found, snippet.name .. ": " .. line .. "\n" .. screen)
            end
            term:press "C-l"
            term:expect "^%[%d+%]>$"
          end
        end
      end
      assert.is_true(n > 20)
    end)
  end)

  it("obeys ~/.editrc, by which another key may end the line", function()
    dir:write(".editrc", "bind ^G ed-newline\n")
    open { environment = "HOME=." }
    term:at_prompt "6 * 7"
    term:press("Left", "C-g")
    term:expect "%[1%]> 6 %* 7\n42\n%[2%]>$"
  end)

  describe("keeps", function()
    it("locals, also of a chunk that was interrupted", function()
      open()
      term:enter "local ch = rn.chan() local function put(v) ch:put_async(v) end ch:take()"
      term:expect "deadlock"
      term:enter "put(7)"
      term:enter "ch:take()"
      term:expect "\n7\n%[4%]>$"
    end)

    it("<close> variables until the session ends", function()
      open()
      term:enter "local a <close> = setmetatable({}, { __close = function() print 'closed a' end })"
      term:enter "local b <close> = setmetatable({}, { __close = function() error 'oops' end })"
      term:enter "'still open'"
      assert.not_matches("\nclosed", term:expect '"still open"\n%[4%]>$')
      term:enter "exit"
      term:expect "oops\n.*\nclosed a\n%[ended 0%]$"
    end)

    it("the last values, and nothing else", function()
      open()
      term:enter "seen = setmetatable({}, { __mode = 'k' }) ch = rn.chan(1)"
      term:enter "do local t = { 1 } seen[t] = true ch:put(t) end"
      term:enter "ch:take()"
      for i = 1, 4 do term:enter(tostring(i)) end
      term:enter "_ + _1 + _2 + _3"
      term:expect "\n10\n%[9%]>$"
      term:enter "collectgarbage() print('left', next(seen))"
      term:expect "\nleft +nil\n%[10%]>$"
    end)

    it("whole chunks in the history, also for the next session", function()
      open()
      term:enter "for i = 1, 2 do"
      term:expect ">>$"
      term:enter "print('turn', i)" -- indented
      term:expect "\n *>>   [^\n]+\n *>>$"
      term:enter "end"
      term:expect "turn +2\n%[2%]>$"
      term:enter "after = 1"
      term:expect "%[3%]>$"
      term:press("Up", "Up")
      term:expect "> for i = 1, 2 do\n *>>   print%('turn', i%)\n *>> end$"
      -- Inside the chunk the arrows move between its lines.
      term:press("Left", "Up", "End", "C-u")
      term:press "C-c"
      term:expect "%^C\n%[%d+%]>$" -- keys that are pressed while the terminal's mode changes are lost
      term:press "C-d"
      term:expect "%[ended 0%]"
      assert.equal("for i = 1, 2 do\v  print('turn', i)\vend\nafter = 1\n", dir:read "runnel_history")
      open()
      term:press("Up", "Up", "Down")
      term:expect "> after = 1$"
      term:press("Up", "Enter")
      term:expect "\nturn +1\nturn +2\n%[2%]>$"
    end)

    it("chunks of several lines, in which the arrow keys move", function()
      open()
      term:paste "x = {\n  10,\n  20,\n}"
      term:expect "\n *>> }$"
      term:press("Left", "Up", "Up", "Right", "Right", "Right", "Right"):type "5"
      term:press("Down", "Enter")
      term:enter "x[1] + x[2]"
      term:expect "\n125\n%[3%]>$"
    end)

    it("the column when the arrow keys move, as far as a line goes, and go on to other chunks", function()
      open()
      term:enter "'older'"
      term:expect "%[2%]>$"
      term:paste "s = [[\nlong line\nab\nlast line]]"
      term:expect "\n *>> last line%]%]$"
      term:press("Left", "Up"):type "1"
      term:expect "\n *>> ab1\n"
      term:press "Up":type "2"
      term:expect "\n *>> lon2g line\n"
      term:press "Down":type "3"
      term:expect "\n *>> ab13\n"
      term:press "Down":type "4"
      term:expect "\n *>> last4 line%]%]$"
      term:press("Up", "Up", "Right", "Right", "Right", "Down", "Down"):type "5"
      term:expect "\n *>> last54 line%]%]$"
      term:press("Up", "Up", "Up", "Up")
      term:expect "%[2%]> 'older'$"
      term:press("Left", "Down")
      term:expect "\n *>> last54 line%]%]$"
      term:press "Enter"
      term:enter "#s"
      term:expect "\n27\n%[4%]>$"
    end)

    it("a session as a script", function()
      open()
      term:enter "local n = 20"
      term:enter "n + 1"
      term:enter "error 'oops'"
      term:expect "oops.*%[4%]>$"
      term:enter ":save session.lua"
      term:expect "\nchunks written to session.lua: 3\n%[4%]>$"
      term:enter ":save session.lua"
      term:expect "\nsession.lua already exists\n%[4%]>$"
      assert.equal("21\n", process.run(dir.path, runnel .. " session.lua").out)
    end)
  end)

  describe("ends", function()
    it("with exit, quit and :q, unless these are something else", function()
      for _, word in ipairs { "exit", "quit", ":q", "quit()", ":quit" } do
        open()
        term:enter(word)
        term:expect "%[ended 0%]"
      end
      open()
      term:enter "exit = 5"
      term:enter "exit"
      term:expect "\n5\n%[3%]>$"
      term:enter "help"
      term:expect "\n:quit +end the session"
    end)
  end)

  describe("completes", function()
    it("locals and arguments of commands, and shows the arguments of functions", function()
      open { columns = 100 }
      dir:write("some_file.lua", "print 'loaded'")
      term:enter "local unusual_name = rn.chan():name 'unusual_channel'"
      term:at_prompt("unusu"):press "Tab"
      term:expect "> unusual_name$"
      term:type(":clos"):press "Tab"
      term:expect "> unusual_name:close"
      term:press("C-u"):type(":tap unusual_c"):press "Tab"
      term:expect "> :tap unusual_channel$"
      term:press("C-u"):type(":load some"):press "Tab"
      term:expect "> :load some_file.lua$"
      term:press("C-u"):type(":doc string.form"):press "Tab"
      term:expect "> :doc string.format$"
      term:press("C-u"):type("x = rn.pmap("):press "Tab"
      term:expect "\nrn.pmap%(n, f, from, %[opts%]%)\n%[2%]> x = rn.pmap%($"
      term:press("C-u"):type("unusual_name:put("):press "Tab"
      term:expect "\nch:put%(v%)\n%[2%]> unusual_name:put%($"
      term:press("C-u"):type("string.rep('(', "):press "Tab"
      term:expect "\nstring.rep%(s, n, %[sep%]%)\n"
      term:press("C-u"):enter "g = rn.go(function() rn.rename 'worker' unusual_name:take() end)"
      term:expect "%[3%]>"
      term:at_prompt(":cancel "):press "Tab"
      term:expect "> :cancel %d+$"
      term:press "Enter"
      term:enter "g:take()"
      term:expect 'nil +"cancelled at the prompt"\n'
    end)
  end)

  describe("prints", function()
    it("in colour, unless NO_COLOR is set", function()
      open()
      term:enter "{ 'text', 42, true }"
      term:expect '\n{ "text", 42, true }\n'
      assert.matches('\27%[32m"text"\27%[39m, \27%[36m42\27%[39m, \27%[35mtrue\27%[39m', term:screen(true))
      local plain = term:screen(true):gsub("\27%[39m\27%[49m", "")
      assert.matches("\27%[1m\27%[32m%[1%]>\27%[0m { \27%[32m'text'\27%[39m, \27%[36m42\27%[39m, \27%[35mtrue", plain)
      open { environment = "NO_COLOR=1" }
      term:enter "{ 'text', 42, true }"
      term:expect '\n{ "text", 42, true }\n'
      assert.not_matches("\27%[3%d", term:screen(true))
    end)

    it("lists as wide as the screen, or as :set width", function()
      open { columns = 60 }
      term:enter "t = {} for i = 1, 1000 do t[i] = i end"
      term:enter "t"
      local line = term:expect("\n{ 1, 2, [^\n]+ … %d+ more }\n%[3%]>$"):match "\n({ 1, 2[^\n]+)"
      assert.is_true(utf8.len(line) <= 60 and utf8.len(line) > 52, line)
      term:enter ":set width 30"
      term:enter "t"
      term:expect "\n{ 1, 2, 3, 4, 5, … 995 more }\n%[4%]>$"
      term:enter ":set depth 1"
      term:enter "{ { 1 } }"
      term:expect "\n{ {…} }\n%[5%]>$"
      term:enter ":set"
      term:expect "\ndepth 1\nwidth 30\n%[5%]>$"
      term:enter ":set depth x"
      term:expect "\n:set needs depth"
    end)

    it("errors that are tables", function()
      open()
      term:enter "error { code = 1, list = { 2, 3 } }"
      term:expect "\n{ code = 1, list = { 2, 3 } }\n"
    end)
  end)

  describe(":watch shows", function()
    it("similar entries in one line, the newest first, and only counts drained channels", function()
      open { rows = 24, columns = 100 }
      term:enter "jobs = rn.chan(3):name 'jobs' for i = 1, 50 do rn.go(function() jobs:put(i) end) end"
      term:enter "old = {} for i = 1, 30 do old[i] = rn.chan() old[i]:close() end"
      term:enter "last = rn.go(function() rn.rename 'the last' rn.sleep(1e6) end)"
      term:enter ":watch 50"
      local screen = term:expect "closed and drained$"
      assert.matches("go blocks: 48, channels: 31;", screen)
      assert.matches("\n *%d+ +the last +sleeping[^\n]+\n *%d+ +%[1%]:1  × 47 +parked [^\n]+put on jobs", screen)
      assert.matches("\n *%d+ +jobs +3/3", screen)
      assert.matches("\n30 closed and drained$", screen)
      term:press "q"
      term:expect ":watch 50\n%[4%]>$"
    end)
  end)

  describe("draws the line", function()
    it("once, after the size of the screen has changed several times in quick succession", function()
      open { columns = 80, rows = 20 }
      term:enter "'above'"
      term:at_prompt(("abcdefghi "):rep(15))
      term:expect "> abcdefghi [a-i \n]+$"
      for round = 1, long.times(1, 3) do
        term:resize({ 60, 45, 100, 33, 70, 50, 90 - round }, 20)
        term:type("end" .. round)
        term:expect_once("end" .. round .. "$", "%[2%]> abc")
      end
    end)

    it("once, although the program learns of the screen's size later than the terminal has wrapped the line", function()
      open { columns = 80, rows = 20 }
      term:enter "'above'"
      term:at_prompt(("abcdefghi "):rep(15))
      term:expect "> abcdefghi [a-i \n]+$"
      term:set_size_of_program(200, 20) -- the terminal still has 80 columns
      os.execute "sleep 0.8" -- for what would be drawn then: nothing
      term:resize(60, 20)
      term:type "end"
      local screen = term:expect_once("abcdefghi end$", "%[2%]> abc")
      assert.matches('\n"above"\n%[2%]> abc', screen)
    end)

    it("at the beginning of a row, after typeahead or output of another process", function()
      open()
      term:enter "print 'it runs' repeat rn.sleep(10) until io.open 'typed'"
      term:expect "\nit runs\n?$"
      term:type "ahead = 1"
      term:expect "\nahead = 1$"
      dir:write("typed", "")
      term:expect "\nahead = 1\n%[2%]> ahead = 1$"
      term:press "Enter"
      term:enter "do os.execute 'printf part' end"
      term:expect "\npart\n%[4%]>$"
    end)

    it("with wide and combining characters, also at the end of a row", function()
      open { columns = 30 }
      local text = "日本語e\u{301}\u{302}日本語日本語日本語"
      term:type("x = '" .. text)
      term:expect "> x = '日本語e◌\u{301}◌\u{302}日本語日本\n語日本語$"
      term:press("Left", "Left"):type "ab"
      term:expect "\n語日ab本語$"
      term:press "End"
      term:type("'"):press "Enter"
      term:enter "utf8.len(x), #x"
      term:expect(("\n17 +%d\n%%[3%%]>$"):format(#text + 2))
      term:enter "utf8.codepoint('\u{F0301}')"
      term:expect(("\n%d\n%%[4%%]>$"):format(0xF0301))
    end)
  end)

  it("echoes a key soon while 1000 go blocks pass messages", function()
    open()
    term:enter("for i = 1, 500 do local a, b = rn.chan(), rn.chan() "
      .. "rn.go(function() while true do a:put(1) b:take() end end) "
      .. "rn.go(function() while true do a:take() b:put(1) end end) end")
    term:expect "%[2%]>$"
    local least = math.huge
    for n = 1, 60 do -- other processes may be busy
      local began = rn.now()
      term:type "x"
      term:expect("> " .. ("x"):rep(n) .. "$")
      least = math.min(least, rn.now() - began)
      if least < 250 then break end
    end
    -- Most of this time is tmux's; make bench-host measures the echo alone.
    assert.is_true(least < 250, least)
  end)
end)
