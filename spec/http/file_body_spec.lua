-- Files of http.files as bodies of responses: who reads them, and what happens to them on the way.

local patience = require "spec.support.patience"
local rn = require "runnel"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"
local web = require "spec.support.http.web"

if not (pcall(require, "luv") and pcall(require, "runnel.http.server")) then
  describe("the files of http.files", function() pending "luv, or the server of runnel.http, is not there" end)
  return
end

local luv = require "luv"
local http = require "runnel.http"
local uv = require "runnel.uv"

describe("the files of http.files", function()
  local dir
  local is_warm = false

  local SIZES <const> = { 0, 1, 1000, 65535, 65536, 65537, 131072, 400000 }
  local contents = {}

  local function write(name, text)
    local file <close> = assert(io.open(dir .. "/" .. name, "wb"))
    file:write(text)
  end

  setup(function()
    dir = assert(luv.fs_mkdtemp((os.getenv "TMPDIR" or "/tmp") .. "/runnel-bodies-XXXXXX"))
    for _, size in ipairs(SIZES) do
      local parts = {}
      for i = 1, size // 10 + 1 do parts[i] = ("%d %08d"):format(size % 10, i):sub(1, 10) end
      contents[size] = table.concat(parts):sub(1, size)
      write(size .. ".bin", contents[size])
    end
  end)
  teardown(function() os.execute(("rm -rf '%s'"):format(dir)) end)

  before_each(function()
    if not is_warm then assert(http.serve(0, print)):close() end -- opens the descriptor by which threads wake Lua
    is_warm = true
    uv_stage.open()
  end)
  after_each(uv_stage.close)

  -- Makes the system forget the bytes of a file, where it can.
  local function forget(name)
    os.execute(("dd if='%s/%s' iflag=nocache count=0 2>/dev/null"):format(dir, name))
  end

  local function body_of(server, path, more)
    local status, body = web.ask(server, "GET /" .. path, (more or "") .. "\r\n")
    return status == 200 and body or status
  end

  -- What middleware may do with a response, and get again: each returns what f has returned, as others do.
  local MIDDLEWARE = {
    none = function(f) return f end,
    log = function(f) return http.log(f, { to = function() end }) end,
    parks = function(f)
      return function(req)
        local status, headers, body = f(req)
        rn.sleep(1)
        return status, headers, body
      end
    end,
    ["reads all"] = function(f)
      return function(req)
        local status, headers, body = f(req)
        if not rn.is_chan(body) then return status, headers, body end
        return status, headers, table.concat(rn.into({}, body):take())
      end
    end,
    ["reads a piece and puts it back"] = function(f)
      return function(req)
        local status, headers, body = f(req)
        if not rn.is_chan(body) then return status, headers, body end
        local first, out = body:take(), rn.chan()
        rn.go(function()
          out:put(first)
          for piece in body do out:put(piece) end
          out:close()
        end)
        return status, headers, out
      end
    end,
    wraps = function(f)
      return function(req)
        local status, headers, body = f(req)
        return status, headers, rn.is_chan(body) and rn.pipe(body, rn.chan(2)) or body
      end
    end,
    ["removes the length"] = function(f)
      return function(req)
        local status, headers, body = f(req)
        headers["Content-Length"] = nil
        return status, headers, body
      end
    end,
    ["adds a header"] = function(f)
      return function(req)
        local status, headers, body = f(req)
        headers["X-More"] = "more"
        return status, headers, body
      end
    end,
  }

  for name, wrap in pairs(MIDDLEWARE) do
    for _, is_cold in ipairs { false, true } do
      it(("arrive whole, whatever is between: %s%s"):format(name, is_cold and ", from the disk" or ""), function()
        local server <close> = assert(http.serve(0, wrap(http.files(dir))))
        for _, size in ipairs(SIZES) do
          if is_cold then forget(size .. ".bin") end
          local status, body, headers = web.ask(server, ("GET /%d.bin"):format(size))
          if headers:find "chunked" then
            body = body:gsub("(%x+)\r\n()", "%1\r\n", 1)
            local parts, at = {}, 1
            repeat
              local n, from = body:match("^(%x+)\r\n()", at)
              n = tonumber(n, 16)
              parts[#parts + 1] = body:sub(from, from + n - 1)
              at = from + n + 2
            until n == 0
            body = table.concat(parts)
          end
          assert.equal(200, status)
          assert.is_true(body == contents[size], size)
          assert.equal(name == "adds a header", headers:find "X%-More: more" ~= nil)
        end
      end)
    end
  end

  it("are replaced, read twice or dropped without a trace", function()
    local files = http.files(dir)
    local kept
    local ways = {
      replaced = function(req)
        files(req)
        return 200, nil, "other"
      end,
      closed = function(req)
        local _, _, body = files(req)
        body:close()
        return 200, nil, "other"
      end,
      kept = function(req)
        local status, headers, body = files(req)
        kept = body
        return status, headers, body
      end,
      awaited = function(req) -- a piece goes elsewhere, so that the body is too short for its length
        local status, headers, body = files(req)
        body:take_async(function() end)
        return status, headers, body
      end,
    }
    local server <close> = assert(http.serve(0, function(req)
      local way = req.headers["x-way"]
      return ways[way](req)
    end))
    local function get(way) return body_of(server, "400000.bin", "X-Way: " .. way .. "\r\n") end
    assert.same({ "other", "other" }, { get "replaced", get "closed" })
    assert.is_true(get "kept" == contents[400000])
    assert.is_nil((kept:take()))
    assert.is_true(#get "awaited" < 400000)
    assert.match("the body is shorter than its header Content%-Length says", tostring(stage.heard()[1].err))
  end)

  it("give ranges, 304, HEAD and 416 over a connection that stays open", function()
    local server <close> = assert(http.serve(0, http.files(dir)))
    local function request(method, more)
      return ("%s /400000.bin HTTP/1.1\r\nHost: x\r\n%s\r\n"):format(method, more)
    end
    local tag = web.exchange(server, request("HEAD", "Connection: close\r\n")):match "ETag: ([^\r]+)"
    local answer = web.exchange(server, request("HEAD", "") .. request("GET", "Range: bytes=100-99999\r\n")
      .. request("GET", "If-None-Match: " .. tag .. "\r\n") .. request("GET", "Range: bytes=400000-\r\n")
      .. request("GET", "Range: bytes=0-1\r\nIf-Range: \"other\"\r\n") .. request("GET", "Connection: close\r\n"))
    local statuses, at = {}, 1
    for i, length in ipairs { 0, 99900, 0, 23, 400000, 400000 } do
      local status, head, from = answer:match("^HTTP/1.1 (%d+)(.-)\r\n\r\n()", at)
      statuses[i] = tonumber(status)
      local body = answer:sub(from, from + length - 1)
      if i == 1 then assert.match("Content%-Length: 400000", head) end
      if i == 2 then assert.is_true(body == contents[400000]:sub(101, 100000)) end
      if i > 4 then assert.is_true(body == contents[400000]) end
      at = from + length
    end
    assert.same({ 200, 206, 304, 416, 200, 200 }, statuses)
    assert.equal(#answer + 1, at)
  end)

  -- A file that is longer than all buffers between the two ends, and a client that has begun to read it.
  local LONG <const> = 64 << 20
  local function begin_long(server)
    write("long.bin", ("x"):rep(LONG))
    local conn = assert(uv.connect("127.0.0.1", server.port))
    conn:write "GET /long.bin HTTP/1.1\r\nHost: x\r\n\r\n"
    local input = conn:read()
    local first = input:take()
    return conn, input, #first:match "\r\n\r\n(.*)$"
  end

  it("are cut, which is reported, if they become shorter while they are sent #ci", function()
    local server <close> = assert(http.serve(0, http.files(dir)))
    local conn <close>, input, n = begin_long(server) -- luacheck: ignore 211
    write("long.bin", "")
    for piece in input do n = n + #piece end
    assert.is_true(n < LONG)
    local errors
    patience.wait_for(function()
      errors = stage.heard()
      return #errors > 0
    end)
    assert.match("^/long.bin: the file has become shorter while it was sent", tostring(errors[1].err))
  end)

  it("have the length that was promised if they become longer #ci", function()
    local server <close> = assert(http.serve(0, http.files(dir)))
    local conn <close>, input, n = begin_long(server)
    local file <close> = assert(io.open(dir .. "/long.bin", "ab"))
    file:write(("y"):rep(100000))
    file:flush()
    while n < LONG do
      local piece = input:take()
      assert.is_nil(piece:find("y", 1, true))
      n = n + #piece
    end
    conn:write "GET /1.bin HTTP/1.1\r\nHost: x\r\n\r\n"
    assert.equal(LONG, n)
    assert.match("^HTTP/1.1 200", input:take())
  end)

  -- Whether this process has a file open.
  local function is_open(name)
    for fd = 3, 200 do
      local path = luv.fs_readlink("/proc/self/fd/" .. fd)
      if path and path:sub(-#name) == name then return true end
    end
    return false
  end

  it("are closed when the client goes away, and when the server does #ci", function()
    local server = assert(http.serve(0, http.files(dir)))
    local conn = begin_long(server)
    conn:close()
    patience.wait_for(function() return not is_open "long.bin" end) -- it is written anew
    local other <close>, input = begin_long(server) -- luacheck: ignore 211
    server:close() -- uv_stage counts descriptors
    repeat until input:take() == nil -- the connection may be reset
  end)

  it("are closed when the client reads nothing within the limit #ci", function()
    if not uv_stage.can_count then return pending "there is no /proc" end
    local idle = math.ceil(50 * patience.factor())
    local server <close> = assert(http.serve(0, http.files(dir), { idle = idle, min_rate = 0 }))
    local conn <close>, input, n = begin_long(server) -- luacheck: ignore 211
    patience.wait_for(function() return not is_open "long.bin" end)
    local piece = input:take()
    while piece do
      n = n + #piece
      piece = input:take() -- at the end nil, and perhaps ECONNRESET: the system has dropped what was to be sent
    end
    assert.is_true(n < LONG)
  end)

  it("are closed if a header is not allowed, which is reported", function()
    local server <close> = assert(http.serve(0, http.files(dir, { headers = { ["Bad Name"] = "x" } })))
    for _, size in ipairs { 1000, 400000 } do
      assert.equal(500, body_of(server, size .. ".bin"))
      assert.match("the header \"Bad Name\" cannot be set", tostring(stage.heard()[1].err))
    end
  end)

  it("are what a link points to at the time of each request", function()
    local link = dir .. "/current"
    for _, name in ipairs { "one", "two" } do
      assert(luv.fs_mkdir(dir .. "/" .. name, 448))
      write(name .. "/a", name)
    end
    assert(luv.fs_symlink("one", link))
    local server <close> = assert(http.serve(0, http.files(link)))
    assert.equal("one", body_of(server, "a"))
    assert(luv.fs_unlink(link))
    assert(luv.fs_symlink("two", link))
    assert.equal("two", body_of(server, "a"))
    write("two/a", "changed")
    assert.equal("changed", body_of(server, "a"))
    assert(luv.fs_unlink(dir .. "/two/a"))
    assert.equal(404, body_of(server, "a"))
  end)

  it("arrive whole over TLS, from memory and from the disk #ci", function()
    local tls = require "spec.support.tls"
    if not (tls.has "openssl" and pcall(require, "runnel.tls")) then return pending "OpenSSL is not installed" end
    local folder <close> = tls.folder()
    local server <close> = assert(http.serve(0, http.files(dir), { tls = { cert = folder.path .. "/cert",
      key = folder.path .. "/key" } }))
    for _, is_cold in ipairs { false, true } do
      for _, size in ipairs(SIZES) do
        if is_cold then forget(size .. ".bin") end
        local conn <close> = assert(uv.connect("127.0.0.1", server.port, { tls = { ca = folder.path .. "/ca",
          name = "localhost" } }))
        conn:write(("GET /%d.bin HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"):format(size))
        local answer = table.concat(stage.drain(conn:read()))
        assert.is_true(answer:match "\r\n\r\n(.*)$" == contents[size])
      end
    end
  end)

  it("arrive whole at many clients at once, some of which go away, from memory and from the disk", function()
    local server <close> = assert(http.serve(0, http.files(dir)))
    local clients = {}
    for i = 1, 60 do
      clients[i] = rn.go(function()
        local size = SIZES[i % #SIZES + 1]
        if i % 3 == 0 then forget(size .. ".bin") end
        if i % 5 == 0 then
          local conn <close> = assert(uv.connect("127.0.0.1", server.port))
          conn:write(("GET /%d.bin HTTP/1.1\r\nHost: x\r\n\r\n"):format(size))
          return true
        end
        return body_of(server, size .. ".bin") == contents[size]
      end)
    end
    for i = 1, 60 do assert.is_true(clients[i]:take()) end
  end)
end)
