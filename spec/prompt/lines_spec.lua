-- The prompt in a real terminal: chunks of several lines, colours while typing, and what it says about mistakes.

local terminal = require "spec.support.terminal"

-- These specs wait for a real terminal.
describe("at the prompt #slow", function()
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

  -- Types lines, each when the prompt for it is there.
  local function enter(...)
    for _, line in ipairs { ... } do term:enter(line) end
  end

  describe("an unfinished chunk", function()
    it("is indented, and its ends move to the left", function()
      open()
      enter("for i = 1, 2 do", "if i == 1 then", "print('one')", "else", "print('two')", "end", "end")
      term:expect("> for i = 1, 2 do\n *>>   if i == 1 then\n *>>     print%('one'%)\n *>>   else\n"
        .. " *>>     print%('two'%)\n"
        .. " *>>   end\n *>> end\none\ntwo\n%[2%]>$")
      assert.equal("for i = 1, 2 do\v  if i == 1 then\v    print('one')\v  else\v    print('two')\v  end\vend\n",
        dir:read "runnel_history")
    end)

    it("is edited as a whole: Up goes into the line before, and Enter there begins a new one or runs it", function()
      open { columns = 40 } -- the second line takes two rows
      enter("for i = 1, 2 do", "print('a rather long line of text', ix)")
      term:expect "\n *>>$"
      term:press("Up", "End", "Left", "BSpace")
      term:expect "text\n', i%)\n *>>$"
      term:press("Down", "End"):type "end"
      term:press "Enter"
      term:expect "\na rather long line of text +1\na rather long line of text +2\n%[2%]>$"
    end)

    it("is edited as a whole also if it was pasted as if it were typed", function()
      open()
      term:paste_unmarked "for i = 1, 2 do\n  print('first', i)\n  print('second', i)\n"
      term:expect "'second', i%)\n *>>$"
      -- Further ones have no effect; one may be lost while the terminal's mode changes.
      for _ = 1, 6 do
        term:press "Up"
        os.execute "sleep 0.05"
      end
      term:expect "i%)\n *>>\n%[1%]> for i = 1, 2 do\n *>>   print%('first', i%)\n *>>   print%('second', i%)\n *>>$"
      term:press("Left", "Left", "Left", "BSpace"):type "1" -- from the end of its first line
      term:press("Down", "Down", "Down", "End"):type "end":press "Enter"
      term:expect "> for i = 1, 1 do\n *>>   print[^\n]+\n *>>   print[^\n]+\n *>> end\nfirst +1\nsecond +1\n%[2%]>$"
    end)

    it("keeps what was typed when Down is pressed in it, and gives way to older chunks", function()
      open()
      term:enter "'older'"
      term:enter "f = function()"
      term:expect "\n *>>$"
      term:type("g()"):press("Down", "Down")
      term:expect "> f = function%(%)\n *>>   g%(%)$"
      term:press("Up", "Up")
      term:expect "%[2%]> 'older'$"
      term:press "Down"
      term:expect "%[2%]> f = function%(%)\n *>>   g%(%)$"
      term:press "C-c"
      term:expect "g%(%)%^C\n%[2%]>$"
    end)

    it("gets another line by Alt-Enter, also where it is complete; Home and End keep to the line", function()
      open()
      term:type "x = 1":press("Escape", "Enter"):type "y = 2"
      term:press "Home":type "z = 3 "
      term:expect "> x = 1\n *>> z = 3 y = 2$"
      term:press("Home", "Home"):type "w = 4 "
      term:expect "> w = 4 x = 1\n *>> z = 3 y = 2$"
      term:press "Enter"
      term:enter "w + x + y + z"
      term:expect "\n10\n%[3%]>$"
    end)

    it("may be higher than the screen: the rows around the cursor are shown", function()
      open { rows = 10 }
      enter "t = {"
      for i = 1, 20 do
        term:expect ">>$"
        term:enter(i .. ",")
      end
      term:expect "^ *>>   1[0-9],\n.*\n *>>   20,\n *>>$"
      for _ = 1, 20 do term:press "Up" end
      term:expect "%[1%]> t = {\n *>>   1,"
      for _ = 1, 20 do term:press "Down" end
      term:type("}"):press "Enter"
      term:enter "#t"
      term:expect "\n20\n%[3%]>$"
    end)

    it("stays while go blocks print above it", function()
      open()
      term:enter "rn.go(function() for i = 1, 20 do rn.sleep(10) print('tick', i) end end) return"
      enter("for i = 1, 2 do", "print('turn', i)")
      term:expect_once("tick +20\n%[2%]> for i = 1, 2 do\n *>>   print%('turn', i%)\n *>>$", "%[2%]> for")
    end)

    it("is found by Ctrl-R, which an arrow key ends", function()
      open()
      enter("s = [[", "two", "lines]]")
      term:expect "%[2%]>$"
      term:press "C-r":type "two"
      term:expect "> s = %[%[\n *>> two\n *>> lines%]%]\n.*bck:two"
      term:press "End":type " n = 1"
      term:expect "> s = %[%[\n *>> two n = 1\n *>> lines%]%]$"
    end)

    it("goes with Ctrl-C in the middle, or from the screen with Ctrl-L, which leaves the line", function()
      open()
      enter("f(", "1,")
      term:press("Up", "C-c")
      term:expect "%^C\n%[1%]>$"
      enter("f(")
      term:expect "\n *>>$"
      term:press "C-l"
      term:expect "^%[1%]> f%(\n *>>$"
    end)
  end)

  describe("colours", function()
    it("show keywords, strings, numbers and comments as they are typed, and errors in red", function()
      open()
      term:type "local x = 'a' .. 12 -- note"
      term:expect "note$"
      local screen = term:screen(true)
      assert.matches("\27%[35mlocal\27%[39m x = \27%[32m'a'\27%[39m .. \27%[36m12\27%[39m \27%[90m%-%- note", screen)
      term:press "Enter"
      term:enter "error 'oops'"
      term:expect "in main chunk\n%[3%]>$"
      assert.matches("\27%[31m%[2%]:1: oops[\27%[39m]*\n *\27%[90mstack traceback:", term:screen(true))
      term:enter "rn.go(function() error 'late' end) return"
      term:expect "late\nstack traceback:.*\n%[4%]>$"
      assert.matches("\27%[31mrunnel: error in %[3%]:1: %[3%]:1: late[\27%[39m]*\n", term:screen(true))
      term:type ":ps"
      term:expect ":ps$"
      assert.matches("\27%[1m:ps", term:screen(true))
    end)

    it("are left out with NO_COLOR, and on terminals that have none", function()
      for _, environment in ipairs { "NO_COLOR=1", "TERM=vt100" } do
        open { environment = environment }
        term:enter "local x = 'a' -- note"
        term:enter "error 'oops'"
        term:expect "oops\n.*%[3%]>$"
        assert.not_matches("\27%[[39]%d", term:screen(true))
      end
    end)
  end)

  it("mistyped names are answered with the one that was probably meant", function()
    open()
    term:enter "jobs = rn.chan(1)"
    term:enter "jbos:put(1)"
    term:expect "global 'jbos'%)\n.*\ndid you mean jobs%?\n%[3%]>$"
    term:enter "jobs:putt(1)"
    term:expect "method 'putt'%)\n.*\ndid you mean jobs:put%?\n%[4%]>$"
    term:enter "rn.pmpa"
    term:expect "\nnil\ndid you mean rn.pmap%?\n%[5%]>$"
    term:enter ":chasn"
    term:expect "\nthere is no command :chasn; did you mean :chans%?\n%[5%]>$"
    term:enter "rn.go(function() pritn(1) end) return"
    term:expect "global 'pritn'%)\n.*\ndid you mean print%?\n%[6%]>$"
  end)

  it("a function shows how it is called and what is said about it; name? shows all of it", function()
    open()
    term:paste "-- Greets.\nfunction greet(name, ...)\n  return 'hi ' .. name\nend\ngreet('you')\n"
    term:expect '\n"hi you"\n%[2%]>$'
    term:enter "_"
    term:expect '\n"hi you"\n%[3%]>$'
    term:enter "greet"
    term:expect "\nfunction: greet%(name, ...%)  %[1%]:2\n    Greets.\n%[4%]>$"
    term:enter "rn.alts"
    term:expect("\nfunction: rn.alts%(ops, %[opts%]%)\n    Performs one of the operations; waits until one can "
      .. "complete. %(rn.alts%?")
    term:enter "ch:offer?"
    term:expect "\nch:offer%(v%)\n    What put returns, or nil if it would have to wait\n%[5%]>$"
    term:type('require "runnel.sche'):press "Tab"
    term:press("C-u"):type('require "runnel.fl'):press "Tab"
    term:expect '> require "runnel.flow"$'
  end)
end)
