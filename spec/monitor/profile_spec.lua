-- runnel.monitor without a browser: the profiles that its page records, and the leaks that it shows.

local json = require "dkjson"
local monitored = require "spec.support.monitored"
local patience = require "spec.support.patience"

describe("profiles in runnel.monitor", function()
  local start, stop = monitored.starter()
  after_each(stop)

  -- Computes and waits.
  local PROGRAM = [[
    local m = listen(0, { control = true })
    local jobs = rn.chan():name "jobs"
    rn.go(function()
      rn.rename "worker"
      for _ in jobs do
        local began = os.clock()
        repeat until os.clock() - began > 0.002
      end
    end)
    rn.go(function() while true do jobs:put(1) rn.sleep(3) end end)
  ]]

  -- An open page. ask(known, seconds) posts a command and returns its answer.
  local function page_of(p)
    local path = os.tmpname()
    local finish = p:stream("cat <&3 >" .. path)
    local page = {}
    local function text()
      local file <close> = assert(io.open(path))
      return file:read "a"
    end
    assert(patience.wait_until(function() return text():find "\ndata" end)) -- later ones have results
    function page.close()
      finish()
      os.remove(path)
    end
    function page.answers()
      local list = {}
      for _, message in ipairs(monitored.messages(text())) do
        for _, result in ipairs(message.r) do
          list[#list + 1] = { ok = result[2], head = json.decode(result[3]) or result[3],
            data = result[4] and json.decode(result[4]) }
        end
      end
      return list
    end
    -- Waits for the answer to the nth command.
    function page.answer(n)
      assert(patience.wait_until(function() return #page.answers() >= n end))
      return page.answers()[n]
    end
    local count = 0
    function page.ask(known, seconds)
      count = count + 1
      assert.equal(202, (p:post("/profile?", ("id=%s&text=%s"):format(known, seconds))))
      return page.answer(count)
    end
    -- Asks until the answer fulfils a condition.
    function page.ask_until(condition)
      local answer
      assert(patience.wait_until(function()
        answer = page.ask("", "")
        return condition(answer.head)
      end))
      return answer
    end
    return page
  end

  it("are recorded for some seconds, for all pages, and kept", function()
    local p = start(PROGRAM .. [[
      local recorder = require "runnel.profile.profile_recorder"
      local passed = recorder.passed
      function recorder.passed() return passed() and (told() and 30000 or 10) end -- ends when told
      while #m.url > 0 do rn.sleep(20) end]])
    local page = page_of(p)
    assert.same({ number = 0 }, page.ask("", "").head)
    local begun = page.ask("", "30")
    assert.same({ true, 30, 10, 0 }, { begun.ok, begun.head.recording, begun.head.passed, begun.head.number })
    assert.equal(30, page.ask("", "1").head.recording) -- of another page: joins
    p:tell()
    local done = page.ask_until(function(head) return not head.recording end)
    assert.equal(1, done.head.number)
    assert.is_nil(done.head.note)
    assert.matches("^%d%d:%d%d:%d%d$", done.head.at)
    assert.is_true(done.data.elapsed > 0)
    assert.equal("running", done.data.running[1])
    assert.matches("Look first", done.data.sentence)
    assert.matches("take from jobs", json.encode(done.data.waiting))
    assert.is_nil(page.ask("1", "").data) -- the page has it
    local again = page.ask("1", "2")
    assert.same({ false, "a profile takes 1, 5 or 30 seconds" }, { again.ok, again.head })
    p:close()
    page.close()
  end)

  it("give way to one of the program's own, and wait for its end", function()
    local p = start(PROGRAM .. [[
      local profile = require("runnel.core").internal.profile
      while not profile.passed() do rn.sleep(5) end
      print((rn.profile(function()
        while not told() do rn.sleep(20) end
        return "made"
      end)))
      repeat rn.sleep(20) until not told()
      rn.exit(0)]])
    local page = page_of(p)
    assert.equal(30, page.ask("", "30").head.recording)
    local other = page.ask_until(function(head) return head.other end)
    assert.same({ 1, "It ended early, because the program has begun a profile of its own." },
      { other.head.number, other.head.note })
    assert.is_table(other.data)
    local refused = page.ask("", "5").head
    assert.equal("a profile is being made already", refused.problem)
    assert.is_true(refused.other)
    p:tell()
    page.ask_until(function(head) return not head.other end)
    local begun = page.ask("", "1").head
    assert.equal(1, begun.recording)
    assert.is_nil(begun.problem)
    os.remove(p.sign)
    assert.matches("Look first", p:wait())
    page.close()
  end)

  it("end when their time is up, even if no page is open any more, and with the monitor #ci", function()
    local p = start(PROGRAM .. [[
      local profile = require("runnel.core").internal.profile
      local function wait(f) while not f() do rn.sleep(5) end end
      wait(profile.passed)
      wait(function() return not profile.passed() end)
      print "over"
      wait(profile.passed)
      m:close()
      print(profile.passed() == nil)
      rn.exit(0)]])
    assert.equal(202, (p:post("/profile?", "id=&text=1"))) -- no page has ever been open
    assert.equal("over", p.out:read())
    assert.equal(202, (p:post("/profile?", "id=&text=30")))
    assert.equal("true\n", p:wait())
  end)
end)

describe("leaks in runnel.monitor", function()
  local start, stop = monitored.starter()
  after_each(stop)

  local LEAKY = [[
    local m = listen(0, { control = %s })
    local function ask()
      local answers = rn.chan():name "answers\tof all"
      for i = 1, 3 do rn.go(function() answers:put(i) end) end
      return answers:take()
    end
    for _ = 1, 5 do ask() end
    while not told() do rn.sleep(20) end
    rn.exit(0)
  ]]

  it("are counted by line, and looked for where control = true", function()
    local p = start(LEAKY:format "true")
    local stream = p:open_stream "answers?of all"
    p:post("/leaks?", "id=")
    p:post("/collect?", "id=")
    local got = {}
    for _, message in ipairs(monitored.messages(stream())) do
      for _, result in ipairs(message.r) do got[result[1]] = table.move(result, 2, #result, 1, {}) end
    end
    assert.is_true(got[1][1])
    assert.same({ true, "10\t1" }, { got[2][1], got[2][2] })
    assert.matches("^10\t[^\t]+:%d+\t[^\t]+:%d+\tput\tput on chan: answers%?of all$", got[2][3])
    assert.is_nil(got[2][4])
    p:finish()
  end)

  it("are not looked for without control", function()
    local p = start(LEAKY:format "false")
    assert.equal(403, (p:post("/collect?", "id=")))
    assert.equal(202, (p:post("/leaks?", "id=")))
    p:finish()
  end)
end)
