-- runnel.prompt: Lua evaluated in a program that runs, over a socket.

local rn = require "runnel"
local raises = require "spec.support.raises"
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
    local client = { conn = conn }
    -- Sends lines; returns what comes until the next prompt, without it.
    function client.say(text, mark)
      if text then conn:write(text .. "\n") end
      mark = mark or "> "
      while held:sub(-#mark) ~= mark or held:sub(-#mark - 1, -#mark - 1):find "[^\n ]" do
        local chunk = chunks:take()
        if not chunk then return held, "end" end
        held = held .. chunk
      end
      local answer = held:sub(1, -#mark - 1)
      held = ""
      return answer
    end
    client.say()
    return client
  end

  it("prints values of expressions, and what is printed", function()
    local say = connect(path).say
    assert.equal("2\n", say "1 + 1")
    assert.equal("1\tnil\tx\n", say '1, nil, "x"')
    assert.equal("", say "local nothing = 1")
    assert.equal("a\tb\n", say 'print("a", "b")')
    assert.equal("42\n", say "answer")
    assert.equal("", say "")
  end)

  it("goes on with incomplete lines, which an empty one abandons", function()
    local say = connect(path).say
    assert.equal("", say("for i = 1, 2 do", ">> "))
    assert.equal("", say("print(i)", ">> "))
    assert.equal("1\n2\n", say "end")
    assert.equal("", say("x = {", ">> "))
    assert.matches("prompt:2: unexpected symbol near <eof>", say "")
    assert.equal("1\n", say "1")
  end)

  it("shows errors with a traceback of the chunk, and lives on", function()
    local say = connect(path).say
    assert.equal("prompt:1: oh\nstack traceback:\n\t[C]: in function 'error'\n\tprompt:1: in main chunk\n",
      say 'error "oh"')
    assert.matches("^table: ", say "error {}")
    assert.equal("nil\n", say "error(nil)")
    assert.matches("^prompt:1: unexpected symbol near '1'\n$", say "1 +* 2")
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

  it("runs chunks that wait, while all else goes on", function()
    local first, second = connect(path), connect(path)
    first.conn:write "ch = rn.chan() return ch:take()\n"
    assert.equal("true\n", second.say 'ch:put "from the other one"')
    assert.equal("from the other one\n", first.say())
    first.say "ch = nil"
  end)

  it("writes what is printed later, and drops it when nobody reads", function()
    local client = connect(path)
    client.say "rn.go(function() for i = 1, 3 do rn.sleep(1) print(i) end end)"
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
    assert.matches("> 1\n> > x+\n> $", text)
    assert.is_true(#text > 500000)
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

  it("listens on loopback when asked", function()
    local there <close> = assert(prompt.listen(0))
    local port = there.place:match "^127.0.0.1, port (%d+)$"
    assert.equal("1\n", connect("127.0.0.1", tonumber(port)).say "1")
  end)

  it("reports what it expects, and where it cannot be", function()
    raises("^listen: a path or a port expected, got nothing$", function() prompt.listen() end)
    raises("^listen: a path or a port expected, got 70000$", function() prompt.listen(70000) end)
    raises("^listen: env: a table expected, got a number$", function() prompt.listen(path, 1) end)
    local none, err = prompt.listen "/no/such/directory/socket"
    assert.is_nil(none)
    assert.matches("^/no/such/directory/socket: E", err)
    none, err = prompt.listen("/tmp/" .. ("x"):rep(200))
    assert.is_nil(none)
    assert.matches("is too long for the path of a socket$", err)
  end)
end)
