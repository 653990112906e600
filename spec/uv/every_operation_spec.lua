-- Every function of runnel.uv that starts something, ended while it waits for the system or for a taker: by closing
-- what it returns, and by cancelling each of its go blocks. Nothing may stay behind or be reported.

local pages = require "spec.support.docs.pages"
local rn = require "runnel"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

local has_luv, luv = pcall(require, "luv")
local uv = has_luv and require "runnel.uv"
local certificates = has_luv and require "spec.support.tls"

local TEXT = ("a line\n"):rep(100000) -- more than the pipes and buffers of the system and of a channel hold

-- The read end of a pipe, and a function that closes its write end. With `text` a process fills it.
local function pipe()
  local fds = luv.pipe({ nonblock = true }, { nonblock = true })
  return fds.read, function() luv.fs_close(fds.write) end
end

local function closes(outs)
  return function()
    for _, ch in ipairs(outs) do ch:close() end
  end
end

-- A path of a file with TEXT, or of one without anything.
local function file(has_data) return uv_stage.path(has_data and TEXT or "") end

-- Reads by `open` from a file, or from a pipe into which nothing is written.
local function reads(open)
  return function(has_data)
    if has_data then
      local ch = open(file(true))
      return { outs = { ch }, close = closes { ch } }
    end
    local fd, close_other = pipe()
    local ch = open(fd)
    return {
      outs = { ch },
      close = function()
        ch:close()
        close_other()
      end,
      after = close_other,
    }
  end
end

local folder -- of certificates

-- Both ends of a connection, with TLS or without. With data, the other end has sent some that nothing has taken.
local function connection(has_data, is_secure)
  local server = is_secure and { tls = { cert = folder.path .. "/cert", key = folder.path .. "/key" } } or nil
  local client = is_secure and { tls = { ca = folder.path .. "/ca", name = "localhost" } } or nil
  local conns, port = assert(uv.listen("127.0.0.1", 0, server))
  local a = assert(uv.connect("127.0.0.1", port, client))
  local b = conns:take()
  conns:close()
  if has_data then
    rn.go(function()
      rn.rename "test sender"
      b:write(TEXT)
    end)
  end
  return a, b
end

-- What starts an operation: f(has_data) returns `outs`, the channels that it feeds, and `close`, which closes what it
-- returned; `after`, which closes what belongs to the test after a cancel; `fed`, a channel that it takes from; and
-- `goes_on` if the end of one of its channels does not end the others.
local operations = {
  lines = reads(function(from) return uv.lines(from) end),
  ["lines in pieces"] = reads(function(from) return uv.lines(from, { pieces = 1000 }) end),
  read = reads(function(from) return uv.read(from) end),
  follow = function(has_data)
    local ch = uv.follow(file(has_data))
    return { outs = { ch }, close = closes { ch } }
  end,
  list = function()
    local ch = uv.list("lua", { deep = true })
    return { outs = { ch }, close = closes { ch } }
  end,
  watch = function(has_data)
    local path = file(false)
    local ch = uv.watch(path)
    if has_data then
      for i = 1, 3 do
        local f = assert(io.open(path, "a"))
        f:write(i)
        f:close()
      end
    end
    return { outs = { ch }, close = closes { ch } }
  end,
  ["watch of a tree"] = function(has_data)
    local path = uv_stage.path()
    assert(luv.fs_mkdir(path, tonumber("700", 8)))
    assert(luv.fs_mkdir(path .. "/below", tonumber("700", 8)))
    local ch = uv.watch(path, { deep = true })
    if has_data then
      for i = 1, 3 do
        local f = assert(io.open(path .. "/below/" .. i, "w"))
        f:close()
      end
    end
    local function remove() os.execute("rm -rf " .. path) end
    return { outs = { ch }, close = function()
      ch:close()
      remove()
    end, after = remove }
  end,
  ticker = function(has_data)
    local ch = uv.ticker(has_data and 0.1 or 1e6)
    return { outs = { ch }, close = closes { ch } }
  end,
  signal = function(has_data)
    local ch = uv.signal "usr1"
    if has_data then luv.kill(luv.os_getpid(), "sigusr1") end
    return { outs = { ch }, close = closes { ch } }
  end,
  listen = function(has_data)
    local conns, port = assert(uv.listen("127.0.0.1", 0))
    local clients = {}
    for i = 1, has_data and 70 or 0 do clients[i] = assert(uv.connect("127.0.0.1", port)) end -- more than it holds
    local function after()
      for _, client in ipairs(clients) do client:close() end
    end
    return {
      outs = { conns },
      close = function()
        conns:close()
        after()
        for conn in conns do conn:close() end
      end,
      after = after,
    }
  end,
  udp = function(has_data)
    local sock, other = assert(uv.udp { host = "127.0.0.1" }), assert(uv.udp { host = "127.0.0.1" })
    local _, port = sock:address()
    for _ = 1, has_data and 100 or 0 do assert(other:send("datagram", "127.0.0.1", port)) end -- more than it holds
    local function close()
      sock:close()
      other:close()
    end
    return { outs = { sock:read() }, close = close, after = close }
  end,
  write = function(has_data)
    local ch = rn.chan()
    if has_data then
      rn.go(function()
        rn.rename "test sender"
        ch:put "a line\n"
      end)
    end
    local written = uv.write(file(false), ch)
    return { outs = { written }, close = closes { ch }, fed = ch }
  end,
}

for name, stdout in pairs { spawn = "chunks", ["spawn with lines"] = "lines" } do
  operations[name] = function(has_data)
    local ch = not has_data and rn.chan()
    local p = uv.spawn { "cat", has_data and file(true) or nil, stdin = ch, stdout = stdout }
    local function close() p:close() end
    return { outs = { p.stdout, p.stderr }, close = close, after = close, fed = ch, goes_on = true }
  end
end

local function reads_connection(of, is_secure)
  return function(has_data)
    local a, b = connection(has_data, is_secure)
    local ch = of(a)
    local function after()
      a:close()
      b:close()
    end
    return { outs = { ch }, close = after, after = after }
  end
end

local function writes_connection(is_secure)
  return function(has_data)
    local a, b = connection(false, is_secure)
    local ch = a:writer()
    if has_data then
      rn.go(function()
        rn.rename "test sender"
        for _ = 1, 100 do
          if not ch:put(TEXT) then return end
        end
      end)
    end
    local function after()
      a:close()
      b:close()
    end
    return { outs = {}, close = after, after = after, fed = ch }
  end
end

local can_encrypt = has_luv and pcall(require, "runnel.tls") and certificates.has "openssl"
for suffix, is_secure in pairs { [""] = false, [" with TLS"] = can_encrypt or nil } do
  operations["conn:read" .. suffix] = reads_connection(function(conn) return conn:read() end, is_secure)
  operations["conn:lines" .. suffix] = reads_connection(function(conn) return conn:lines() end, is_secure)
  operations["conn:writer" .. suffix] = writes_connection(is_secure)
end

operations.reader = function(has_data)
  local a, b = connection(has_data, false)
  local r, out = uv.reader(a), rn.chan()
  rn.go(function()
    rn.rename "test reader"
    r:read(has_data and #TEXT + 1 or 1)
    out:close()
  end)
  local function after()
    a:close()
    b:close()
  end
  return { outs = { out }, close = after, after = after }
end

-- The functions that the manual lists and that only wait in the caller's go block, or start nothing.
local IN_THE_CALLER = "resolve run connect stdin"

local function names()
  local list = {}
  for name in pairs(operations) do list[#list + 1] = name end
  table.sort(list)
  return list
end

describe("every operation of runnel.uv", function()
  if not has_luv then return pending "luv is not installed" end

  setup(function() folder = can_encrypt and certificates.folder() end)
  teardown(function()
    if folder then folder:remove() end
  end)
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  it("of the manual is among those that are tried here #ci", function()
    for name in pages.read("docs/manual/io.md"):gmatch "`uv%.([%l_]+)[%(%s{]" do
      assert.is_truthy(operations[name] or IN_THE_CALLER:find(name, 1, true), "uv." .. name .. " is not tried")
    end
  end)

  -- The go blocks of the library that wait.
  local function blocks()
    local list = {}
    for _, entry in ipairs(stage.entries()) do
      if not entry.name:find "^test " then list[#list + 1] = entry end
    end
    return list
  end

  -- Until the loop has nothing to do at once.
  local function settle()
    for _ = 1, 20 do rn.sleep(0.1) end
  end

  -- Waits until no go block of the library is left; the fixture sees handles and descriptors.
  local function assert_none(when)
    for _ = 1, 2000 do
      if #blocks() == 0 then return end
      collectgarbage()
      rn.sleep(1)
    end
    local entry = blocks()[1]
    error(("%s, a go block is left: %s: %s at %s"):format(when, entry.name, entry.operation or entry.state,
      entry.where or "?"), 0)
  end

  local function last_error(ch)
    local value, err
    repeat
      value, err = ch:take()
    until value == nil
    return err
  end

  for _, name in ipairs(names()) do
    for state, has_data in pairs { ["for the system"] = false, ["for a taker"] = true } do
      it(("%s ends once it is closed while it waits %s"):format(name, state), function()
        local started = operations[name](has_data)
        settle()
        started.close()
        for _, ch in ipairs(started.outs) do
          local err = last_error(ch)
          -- What a process that is being closed has written, and nothing takes, is dropped.
          if err and not (started.goes_on and err:find "were dropped") then error(err, 0) end
        end
        assert_none "closed"
      end)

      it(("%s ends with the reason if a go block of it is cancelled that waits %s"):format(name, state), function()
        local at, n = 1, 1
        while at <= n do
          stage.forget()
          local started = operations[name](has_data)
          settle()
          local list = blocks()
          n = #list
          if list[at] then
            local what = list[at].name
            rn.cancel(list[at].result, "killed")
            settle()
            if started.goes_on then started.close() end -- the process, whose other channels stay open
            local killed = 0
            for _, ch in ipairs(started.outs) do
              if last_error(ch) == "killed" then killed = killed + 1 end
            end
            if started.fed and started.fed:closed() then killed = killed + 1 end
            assert.is_true(killed > 0, what .. ": nothing was closed with the reason")
          else
            started.close()
          end
          if started.after then started.after() end
          if started.fed then started.fed:close() end
          assert_none "cancelled"
          at = at + 1
        end
      end)
    end
  end
end)
