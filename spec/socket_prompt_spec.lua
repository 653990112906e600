-- runnel.prompt: Lua evaluated in a program that runs, over a socket.

local flow = require "runnel.flow"
local rn = require "runnel"
local patience = require "spec.support.patience"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

local has_luv, luv = pcall(require, "luv")
if not has_luv then
  describe("runnel.prompt", function() pending "luv is not installed" end)
  return
end
local prompt = require "runnel.prompt"
local uv = require "runnel.uv"

describe("runnel.prompt", function()
  local path, listening, conns

  before_each(function()
    uv_stage.open()
    path, conns = uv_stage.path(), {}
    listening = assert(prompt.listen(path, { rn = rn, answer = 42 }))
  end)
  after_each(function()
    for _, conn in ipairs(conns) do conn:close() end
    listening:close()
    uv_stage.close()
  end)

  local function connect(...)
    local conn = assert(uv.connect(...))
    conns[#conns + 1] = conn
    local chunks, held = conn:read(), ""
    local client = { conn = conn, chunks = chunks }
    -- Sends lines; returns what comes until the next prompt, or what else matches `mark`, without it.
    function client.say(text, mark)
      if text then conn:write(text .. "\n") end
      mark = mark or "%[%d+%]> $"
      while not held:find(mark) do
        local chunk = chunks:take()
        if not chunk then return held, "end" end
        held = held .. chunk
      end
      local answer = held:sub(1, held:find(mark) - 1)
      held = ""
      return answer
    end
    client.say()
    return client
  end

  it("prints values of expressions, and what is printed", function()
    local say = connect(path).say
    assert.equal("2\n", say "1 + 1")
    assert.equal('1\tnil\t"x"\n', say '1, nil, "x"')
    assert.equal("", say "local nothing = 1")
    assert.equal("a\tb\n", say 'print("a", "b")')
    assert.equal("42\n", say "answer")
    assert.equal("", say "")
  end)

  it("continues incomplete input on the next line; an empty line drops it", function()
    local say = connect(path).say
    assert.equal("", say("for i = 1, 2 do", ">> "))
    assert.equal("", say("print(i)", ">> "))
    assert.equal("1\n2\n", say "end")
    assert.equal("", say("x = {", ">> "))
    assert.equal("abandoned\n", say "")
    assert.equal("1\n", say "1")
  end)

  it("shows errors with a traceback of the chunk, and lives on", function()
    local say = connect(path).say
    local trace = "stack traceback:\n\t" .. stage.call_of_error .. "\n\t[1]:1: in main chunk\n"
    assert.equal("[1]:1: oh\n" .. trace, say 'error "oh"')
    assert.matches("^{ code = 1, list = { 1, 2 } }\nstack traceback:", say "error { code = 1, list = { 1, 2 } }")
    assert.matches("^%(error object is a nil value%)\nstack", say "error(nil)")
    assert.equal("[4]:1: unexpected symbol near '*'\n", say "1 +* 2")
    assert.equal("3\n", say "3")
  end)

  it("has the program's globals", function()
    local say = connect(path).say
    say "prompt_spec_global = 7"
    assert.equal(7, rawget(_G, "prompt_spec_global"))
    assert.equal("8\n", connect(path).say "prompt_spec_global + 1")
    say "prompt_spec_global = nil"
    assert.is_nil(rawget(_G, "prompt_spec_global"))
  end)

  it("runs chunks that wait while the program continues", function()
    local first, second = connect(path), connect(path)
    first.conn:write "ch = rn.chan() return ch:take()\n"
    assert.equal("true\n", second.say 'ch:put "from the other one"')
    assert.equal('"from the other one"\n', first.say())
    first.say "ch = nil"
  end)

  it("writes what is printed later, and drops it when the client does not read", function()
    local client = connect(path)
    client.say "prompt_spec_begin = rn.chan()"
    client.say "rn.go(function() prompt_spec_begin:take() for i = 1, 3 do rn.sleep(1) print(i) end end)"
    rawget(_G, "prompt_spec_begin"):put(true) -- not before the prompt has come, which say waits for
    rawset(_G, "prompt_spec_begin", nil)
    local text = ""
    for chunk in client.conn:read() do
      text = text .. chunk
      if text:find "3" then break end
    end
    assert.equal("1\n2\n3\n", text)
    client.conn:write 'for i = 1, 3e5 do print "a line that is so long that there are some megabytes in all" end\n'
    rn.sleep(300)
    local size, lost = 0, nil
    for chunk in client.conn:read() do
      size = size + #chunk
      lost = lost or chunk:find("(output is lost)", 1, true)
      if chunk:find "> $" then break end
    end
    assert.is_truthy(lost)
    assert.is_true(size < 12e6, size)
  end)

  it("writes everything before it ends with a client that has sent all", function()
    local conn = assert(uv.connect(path))
    conns[1] = conn
    conn:write "1\nrn.sleep(20)\n('x'):rep(500000)"
    conn:shutdown()
    local text = table.concat(rn.into({}, conn:read()):take())
    assert.matches('%[1%]> 1\n%[2%]> %[3%]> "x+" … %(500000 bytes%)\n%[4%]> $', text)
  end)

  it("cancels what still waits when its client has gone, so that it takes no more values", function()
    local jobs = rn.chan()
    rawset(_G, "socket_prompt_jobs", jobs)
    local function wait_for_takes(n)
      patience.wait_for(function() return jobs:stats().takes_waiting == n end)
    end
    local lost <close> = assert(uv.connect(path))
    lost:write "socket_prompt_jobs:take()\nsocket_prompt_more = 1\n"
    wait_for_takes(1)
    lost:close()
    wait_for_takes(0)
    assert.is_nil(jobs:offer "for nobody")
    assert.is_nil(rawget(_G, "socket_prompt_more")) -- nor what comes after it

    local client = connect(path)
    client.conn:write "pcall(function() socket_prompt_jobs:take() end) return socket_prompt_jobs:take()\n"
    wait_for_takes(1)
    listening:close()
    wait_for_takes(0)
    rawset(_G, "socket_prompt_jobs", nil)
  end)

  it("tells errors of a metatable of the globals with the chunk's line", function()
    local before = debug.getmetatable(_G)
    finally(function() debug.setmetatable(_G, before) end)
    local other = uv_stage.path()
    local plain <close> = assert(prompt.listen(other)) -- luacheck: ignore 211
    local client = connect(other)
    debug.setmetatable(_G, { __index = function(_, name) error("no global " .. name, 2) end })
    assert.matches("^%[1%]:1: no global nope\n", client.say "nope")
    assert.equal("1\n", client.say "1")
  end)

  it("keeps locals, last values and numbers of each client", function()
    local first, second = connect(path), connect(path)
    first.say "local n = 1"
    first.say "local function add() n = n + 1 return n end"
    assert.equal("2\n", first.say "add()")
    assert.equal("2\n", first.say "n")
    assert.equal("4\n", first.say "_ + _1")
    assert.equal("nil\tnil\n", second.say "n, _")
    assert.matches("^%[2%]:1: oops\n", second.say "error 'oops'")
  end)

  it("closes variables when the client ends", function()
    local client = connect(path)
    client.say "socket_prompt_closed = false"
    client.say "local c <close> = setmetatable({}, { __close = function() socket_prompt_closed = true end })"
    assert.is_false(rawget(_G, "socket_prompt_closed"))
    client.conn:write ":quit\n"
    for _ in client.chunks do end
    assert.is_true(rawget(_G, "socket_prompt_closed"))
    rawset(_G, "socket_prompt_closed", nil)
  end)

  it("has the commands of the other prompt", function()
    local say = connect(path).say
    assert.matches("\n:ps +list the go blocks", say ":help")
    assert.matches("\n:quit", say "help")
    assert.equal("", say "jobs = rn.chan(2):name 'jobs' jobs:put(1)")
    assert.matches("id  name .*\n *%d+  jobs +1/2 +fixed +0 +0 +1 +0\n", say ":chans")
    say "c = rn.chan() g = rn.go(function() rn.rename 'worker' c:take() end) rn.yield()"
    local id = say(":ps"):match "\n *(%d+)  worker +parked"
    assert.matches("^#%d+ %(worker%), parked\nstack traceback:\n\t%[C%]: in method 'take'\n\t%[2%]:1: in function",
      say(":bt " .. id))
    assert.equal("", say(":cancel " .. id))
    assert.equal('nil\t"cancelled at the prompt"\n', say "g:take()")
    assert.equal("there is no command :nope; :help lists them\n", say ":nope")
    assert.matches("^string.rep%(s, n, %[sep%]%)\n", say ":doc string.rep")
    assert.matches("^6\n%d+%.%d+ ms", say ":time 1 + 5")
    say "g, c, jobs = nil"
  end)

  it("shows go blocks and channels until a line comes, and the values on a channel", function()
    local client = connect(path)
    client.say "jobs = rn.chan(1):name 'jobs'"
    client.say "g = rn.go(function() while true do rn.sleep(5) jobs:offer(1) jobs:poll() end end)"
    client.conn:write ":watch 10\n"
    client.say(nil, "jobs")
    client.say ""
    client.conn:write ":tap jobs\n"
    client.say(nil, "jobs <%- ")
    assert.matches("%d+ put and %d+ taken meanwhile; values shown: %d+\n", client.say "")
    client.say "rn.cancel(g) g, jobs = nil"
  end)

  it("ends a command that shows something when its client has gone", function()
    local tapped = rn.chan():name "socket_prompt_tapped"
    local f = flow("job", {
      source = { source = function() rn.chan():take() end },
      save = function() end,
      "source > save",
    }):start()
    local others = #rn.ps()
    local recorded = uv_stage.path() .. ".json"
    for _, command in ipairs { ":watch 10", ":trace " .. recorded, ":tap socket_prompt_tapped", ":tap source" } do
      local client = connect(path)
      client.conn:write(command .. "\n")
      client.say(nil, "any key ends this")
      client.conn:close()
      patience.wait_for(function() return #rn.ps() == others, command end)
    end
    assert.is_true(os.remove(recorded))
    assert.is_nil(rn.trace(false)) -- it has ended the recording
    f:stop()
    tapped:close()
  end)

  it("is for this user only", function()
    assert.equal("600", ("%o"):format(luv.fs_stat(path).mode & 511))
  end)

  it("takes the place of a program that has ended, and no other's", function()
    local other, err = prompt.listen(path)
    assert.is_nil(other)
    assert.equal(path .. " is in use by another program", err)
    local file = uv_stage.path "precious"
    other, err = prompt.listen(file)
    assert.is_nil(other)
    assert.equal(file .. " exists, and is no socket", err)
    assert.equal("precious", uv_stage.contents(file))

    local stale = uv_stage.path()
    local bind_and_end = ("require[[luv]].new_pipe():bind[[%s]] os.exit()"):format(stale)
    assert(os.execute(("%s -e '%s'"):format(os.getenv "LUA" or "lua5.4", bind_and_end)))
    assert.equal("socket", luv.fs_stat(stale).type)
    local now <close> = assert(prompt.listen(stale))
    assert.equal("1\n", connect(stale).say "1")
    now:close()
  end)

  it("removes its socket, and ends its clients, when it is closed", function()
    local client = connect(path)
    listening:close()
    for _ in client.conn:read() do end
    rn.run()
    assert.is_nil(luv.fs_stat(path))
  end)

  it("tells what it expects, and where it cannot be", function()
    raises("^listen: the path of a socket expected, got nothing$", function() prompt.listen() end)
    raises("^listen: the path of a socket expected, got 7000$", function() prompt.listen(7000) end)
    raises("^listen: env: a table expected, got a number$", function() prompt.listen(path, 1) end)
    local none, err = prompt.listen "/no/such/directory/socket"
    assert.is_nil(none)
    assert.matches("^/no/such/directory/socket: E", err)
    none, err = prompt.listen("/tmp/" .. ("x"):rep(200))
    assert.is_nil(none)
    assert.matches("is too long for the path of a socket$", err)
  end)
end)
