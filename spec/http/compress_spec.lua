-- http.compress: gzip for responses and requests of a server.

local http_stage = require "spec.support.http.http_stage"
local process = require "spec.support.process"
local raises = require "spec.support.raises"
local rn = require "runnel"
local web = require "spec.support.http.web"

if http_stage.missing then
  describe("http.compress", function() pending(http_stage.missing) end)
  return
end

local http = require "runnel.http"
local lib = require "runnel.http.curl"
local LONG <const> = ("some text "):rep(1000)

local function gzip(text) return lib.deflater(9):deflate(text, "finish") end
local function gunzip(text) return (lib.inflater():inflate(text, 1 << 30)) end

-- The response of a function to a request with these headers; its body as a string.
local function ask(f, headers)
  local status, sent, body = f { method = "GET", path = "/", headers = headers }
  if not rn.is_chan(body) then return status, sent or {}, body end
  local pieces = {}
  for piece in body do pieces[#pieces + 1] = piece end
  return status, sent or {}, table.concat(pieces)
end

local function channel(pieces, err)
  local ch = rn.chan(#pieces)
  for _, piece in ipairs(pieces) do ch:put(piece) end
  ch:close(err)
  return ch
end

local GZIP <const> = { ["accept-encoding"] = "gzip, deflate, br" }

describe("http.compress", function()
  before_each(http_stage.open)
  after_each(http_stage.close)

  it("compresses strings, tables and channels, for clients that accept it", function()
    for _, make in ipairs {
      function() return LONG, LONG end, function() return { LONG }, '["' .. LONG .. '"]' end,
      function() return channel { LONG, "", "x", LONG }, LONG .. "x" .. LONG end, function() return channel {}, "" end,
    } do
      local body, text = make()
      local mine = { ETag = '"a"', ["Content-Length"] = 5, ["accept-ranges"] = "bytes", Vary = "Origin" }
      local f = http.compress(function() return 200, mine, body end)
      local status, headers, sent = ask(f, GZIP)
      assert.same({ 200, "gzip", 'W/"a"', "Origin, Accept-Encoding" },
        { status, headers["Content-Encoding"], headers.ETag, headers.Vary })
      assert.same({}, { headers["Content-Length"], headers["accept-ranges"] })
      assert.equal(text, gunzip(sent))
      assert.equal('"a"', mine.ETag)
      for _, accepted in ipairs { "", "br", "gzip;q=0", "gzip;q=0.1, identity", "*;q=0" } do
        local _, plain = ask(http.compress(function() return 200, nil, LONG end), { ["accept-encoding"] = accepted })
        assert.same({ Vary = "Accept-Encoding" }, plain, accepted)
      end
    end
  end)

  it("compares the weights of what the client accepts", function()
    local f = http.compress(function() return 200, nil, LONG end)
    for accepted, encoding in pairs { ["gzip;q=0.5"] = "gzip", ["x-gzip"] = "gzip", ["*"] = "gzip",
      ["*;q=0.1"] = "gzip",
      ["gzip;q=0.5, identity;q=0.5"] = "gzip", ["gzip;q=0.4, identity;q=0.5"] = "none", ["identity"] = "none",
      ["gzip;q=0, *"] = "none" } do
      local _, headers = ask(f, { ["accept-encoding"] = accepted })
      assert.equal(encoding, headers["Content-Encoding"] or "none", accepted)
    end
  end)

  it("says what the body is, and does not weaken a tag twice", function()
    local function sent(headers, body)
      return select(2, ask(http.compress(function() return 200, headers, body end), GZIP))
    end
    assert.equal("text/plain; charset=utf-8", sent(nil, LONG)["Content-Type"])
    assert.equal("application/json", sent(nil, { LONG })["Content-Type"])
    assert.equal("application/ld+json", sent({ ["Content-Type"] = "application/ld+json" }, { LONG })["Content-Type"])
    assert.same({ nil, "text/html" }, { sent({ ["content-type"] = "text/html" }, LONG)["Content-Type"],
      sent({ ["content-type"] = "text/html" }, LONG)["content-type"] })
    assert.equal('W/"a"', sent({ ETag = 'W/"a"' }, LONG).ETag)
    assert.equal('W/"a"', sent({ ETag = { '"a"' } }, LONG).ETag) -- a list of one
  end)

  it("passes on what is no response: that of a WebSocket, and what the server refuses", function()
    for _, response in ipairs { { n = 0 }, { n = 3, "200", nil, LONG }, { n = 3, 200, "headers", LONG },
      { n = 3, 200, 7, { LONG } } } do
      local f = http.compress(function() return table.unpack(response, 1, response.n) end)
      local status, headers, body = f { method = "GET", headers = GZIP }
      assert.same({ response[1], response[2], response[3] }, { status, headers, body })
    end
  end)

  it("leaves alone what is short, compressed, a part, or of another kind", function()
    for _, response in ipairs {
      { 200, nil, ("x"):rep(1023) }, { 204, nil, LONG }, { 205, nil, LONG }, { 200, nil, nil },
      { 200, { ["Cache-Control"] = "No-Transform" }, LONG },
      { 200, nil, { print } },
      { 200, { ["content-encoding"] = "br" }, LONG }, { 200, { ["Content-Type"] = "image/png" }, LONG },
      { 200, { ["Cache-Control"] = "public, no-transform" }, LONG },
      { 200, { ["Cache-Control"] = { "public", "no-transform" } }, LONG },
      { 200, { ["Content-Type"] = { "image/png" } }, LONG },
      { 200, { ["Content-Range"] = "bytes 0-9/9" }, LONG },
      { 200, { ["Content-Type"] = "application/gzip" }, channel { LONG } },
    } do
      local _, headers, body = ask(http.compress(function() return table.unpack(response, 1, 3) end), GZIP)
      assert.same({ response[2] or {}, rn.is_chan(response[3]) and LONG or response[3] }, { headers, body })
    end
    for _, status in ipairs { 206, 304 } do
      local _, headers, body = ask(http.compress(function() return status, nil, LONG end), GZIP)
      assert.same({ { Vary = "Accept-Encoding" }, LONG }, { headers, body })
    end
    for _, kind in ipairs { "text/html; charset=utf-8", "application/json", "application/ld+json", "image/svg+xml",
      "text/javascript", "APPLICATION/XML" } do
      local _, headers = ask(http.compress(function() return 200, { ["content-type"] = kind }, LONG end), GZIP)
      assert.equal("gzip", headers["Content-Encoding"], kind)
    end
  end)

  it("compresses nothing that may have a secret of the user, unless it is told to", function()
    local function page(headers) return function() return 200, headers, LONG end end
    for _, case in ipairs {
      { { cookie = "a=b" } }, { { authorization = "Basic x" } }, { {}, { ["Set-Cookie"] = "a=b" } },
    } do
      local sent = { ["accept-encoding"] = "gzip", cookie = case[1].cookie, authorization = case[1].authorization }
      assert.is_nil(select(2, ask(http.compress(page(case[2])), sent))["Content-Encoding"])
      assert.equal("gzip", select(2, ask(http.compress(page(case[2]), { secrets = true }), sent))["Content-Encoding"])
    end
  end)

  it("sends what has come before it waits for more", function()
    local from = rn.chan()
    local f = http.compress(function() return 200, { ["Content-Type"] = "text/event-stream" }, from end)
    local _, _, to = f { method = "GET", headers = GZIP }
    local inflater = lib.inflater()
    for _, piece in ipairs { "data: 1\n\n", "data: 2\n\n" } do
      from:put(piece)
      assert.equal(piece, inflater:inflate(to:take(), 1000))
    end
    from:close "broken"
    assert.same({ n = 2, [2] = "broken" }, table.pack(to:take()))
  end)

  it("has levels and a least length", function()
    local file <close> = assert(io.open "README.md")
    local prose = file:read "a"
    local function size(opts, text)
      return #select(3, ask(http.compress(function() return 200, nil, text or LONG end, opts), GZIP))
    end
    assert.equal(size({ level = 6 }, prose), size({}, prose))
    assert.is_true(size({ level = 5 }, prose) > size({}, prose))
    assert.is_true(size { level = 9 } < size { level = 1 })
    assert.equal(#LONG, size { min = #LONG + 1 })
    assert.is_true(size { min = #LONG } < #LONG)
    local f = http.compress(function() return 200, nil, ("x"):rep(1024) end)
    assert.equal("gzip", select(2, ask(f, GZIP))["Content-Encoding"])
    f = http.compress(function() return 200, nil, "" end, { min = 0 })
    assert.equal("gzip", select(2, ask(f, GZIP))["Content-Encoding"])
  end)

  it("decompresses requests while they are read, and refuses bombs and damaged ones #ci", function()
    local sent_length, sent_how
    local f = http.compress(function(req)
      sent_length, sent_how = req.headers["content-length"], req.headers["transfer-encoding"]
      return 200, nil, tostring(req.headers["content-encoding"]) .. req:body()
    end, { max = 1000 })
    local server <close> = assert(http.serve(0, f))
    local function send(body, coding)
      local status, answer = web.ask(server, "POST /", ("Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s"):format(
        coding or "gzip", #body, body))
      return status .. " " .. answer
    end
    assert.equal("200 nilabc", send(gzip "abc"))
    assert.same({ nil, "chunked" }, { sent_length, sent_how }) -- that there is a body, not how long it is
    assert.equal("200 nilabcd", send(gzip "ab" .. gzip "cd")) -- two members
    assert.equal("200 nil" .. ("x"):rep(1000), send(gzip(("x"):rep(1000))))
    assert.equal("413 413: the decompressed body is longer than 1000 bytes\n", send(gzip(("x"):rep(1001))))
    assert.equal("413 413: the decompressed body is longer than 1000 bytes\n", send(gzip(("\0"):rep(20000000))))
    local DAMAGED <const> = "400 400: the compressed body is damaged\n"
    for _, body in ipairs { "abc", "", gzip("abc"):sub(1, -2), gzip "abc" .. "x", "\31\139" } do
      assert.equal(DAMAGED, send(body))
    end
    assert.equal("200 nilabc", send(gzip "abc", "GZIP"))
    assert.equal("200 nilabc", send(gzip "abc", "X-Gzip"))
    assert.equal("415 415: the body has an unknown encoding\n", send("abc", "br"))
    assert.equal("200 nilabc", send("abc", "identity"):gsub("identity", "nil"))
  end)

  it("counts the bytes of all pieces of a request #ci", function()
    local function send(n, opts)
      local bytes, pieces = {}, {}
      for i = 1, n // 8 + 1 do bytes[i] = string.pack("I8", math.random(0)) end
      local packed = gzip(table.concat(bytes):sub(1, n))
      local size = math.max(400, n // 5)
      for at = 1, #packed, size do pieces[#pieces + 1] = packed:sub(at, at + size - 1) end
      local before = http.fake(http.compress(function(req) return 200, nil, #req:body() .. "" end, opts))
      local response = http.request { url = "http://x/", body = channel(pieces), headers = {
        ["Content-Encoding"] = "gzip" } }
      http.fake(before)
      return response.status == 200 and response.body or response.status
    end
    assert.same({ "1000", 413, "0", 413 }, { send(1000, { max = 1000 }), send(1001, { max = 1000 }),
      send(0, { max = 0 }), send(1, { max = 0 }) })
    assert.same({ "1048576", 413 }, { send(1048576), send(1048577) })
  end)

  it("is understood by libcurl, for files as well", function()
    local dir = os.tmpname()
    os.remove(dir)
    assert(os.execute("mkdir " .. dir))
    local file = assert(io.open(dir .. "/a.txt", "w"))
    file:write(LONG:rep(20)):close()
    local server <close> = assert(http.serve(0, http.compress(http.files(dir))))
    local res = assert(http.get(server.url .. "a.txt"))
    assert.same({ "gzip", LONG:rep(20) }, { res.headers["content-encoding"], res.body })
    local again = assert(http.get(server.url .. "a.txt", { headers = { ["If-None-Match"] = res.headers.etag } }))
    assert.equal(304, again.status)
    assert.equal(206, assert(http.get(server.url .. "a.txt", { range = "0-9" })).status)
    local head = assert(http.request { url = server.url .. "a.txt", method = "HEAD" })
    assert.equal("gzip", head.headers["content-encoding"])
    os.execute("rm -r " .. dir)
  end)

  it("gives 304 and 206 the same Vary and ETag as 200", function()
    local dir <close> = process.directory()
    dir:write("a.txt", LONG)
    dir:write("a.png", LONG)
    local f = http.compress(http.files(dir.path))
    local function get(path, headers)
      local status, sent, body = f { method = "GET", path = path, target = path, headers = headers }
      if rn.is_chan(body) then body:close() end
      return { status, sent.ETag, sent.Vary }
    end
    local tag = get("/a.txt", {})[2]
    local weak, vary = "W/" .. tag, "Accept-Encoding"
    local function case(...)
      local headers = { ["accept-encoding"] = "gzip" }
      for name, value in pairs(...) do headers[name] = value end
      return get("/a.txt", headers)
    end
    assert.match('^"', tag)
    assert.same({ 200, weak, vary }, case {})
    assert.same({ 304, weak, vary }, case { ["if-none-match"] = weak })
    assert.same({ 304, weak, vary }, case { ["if-none-match"] = '"other", ' .. weak })
    assert.same({ 304, weak, vary }, case { ["if-modified-since"] = "Fri, 01 Jan 2100 00:00:00 GMT" })
    assert.same({ 304, tag, vary }, case { ["if-none-match"] = tag }) -- the client has it uncompressed
    assert.same({ 304, tag, vary }, case { ["if-none-match"] = weak, cookie = "a=b" }) -- 200 is not compressed
    assert.same({ 304, tag, vary }, case { ["if-none-match"] = weak, ["accept-encoding"] = "br" })
    assert.same({ 206, tag, vary }, case { range = "bytes=0-1" })
    local other = get("/a.png", GZIP)
    assert.same({ 304, other[2], nil }, get("/a.png", { ["accept-encoding"] = "gzip", ["if-none-match"] = other[2] }))
  end)

  it("has errors at the caller's line", function()
    raises("compress: f: a function expected", function() http.compress() end)
    raises("compress: level: an integer from 1 to 9 expected", function() http.compress(print, { level = 10 }) end)
    raises("compress: level: an integer of at least 1 expected", function() http.compress(print, { level = 0 }) end)
    raises('compress: unknown option "types"', function() http.compress(print, { types = {} }) end)
  end)
end)
