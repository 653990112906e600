-- http.files: the files of a folder over HTTP, and no others.

local rn = require "runnel"
local raises = require "spec.support.raises"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

describe("http.files", function()
  if not pcall(require, "luv") then return pending "luv is not installed" end
  local luv = require "luv"
  local http = require "runnel.http"
  local files = require("runnel.http.files").files -- sets the driver

  local dir

  local function write(name, text)
    local file = assert(io.open(dir .. "/" .. name, "wb"))
    file:write(text)
    file:close()
  end

  local LARGE <const> = 300000
  local large = {}
  for i = 1, LARGE // 10 do large[i] = ("%09d\n"):format(i) end
  large = table.concat(large)

  setup(function()
    dir = assert(luv.fs_mkdtemp((os.getenv "TMPDIR" or "/tmp") .. "/runnel-files-XXXXXX"))
    for _, name in ipairs { "www", "www/sub", "www/empty", "www/.git", "private" } do
      assert(luv.fs_mkdir(dir .. "/" .. name, 448))
    end
    write("www/a.txt", "hello")
    write("www/nothing", "")
    write("www/large.bin", large)
    write("www/sp ace.HTML", "<p>")
    write("www/.secret", "secret")
    write("www/.git/config", "secret")
    write("www/sub/index.html", "index")
    write("www/sub/..b", "dots")
    write("private/key", "secret")
    write("www-private", "secret")
    for to, from in pairs { ["../private/key"] = "out", ["../private"] = "outdir", ["a.txt"] = "in", sub = "indir",
      loop = "loop", ["/nowhere"] = "dangling",
      ["../www-private"] = "sibling" } do
      assert(luv.fs_symlink(to, dir .. "/www/" .. from))
    end
    os.execute(("mkfifo '%s/www/fifo'"):format(dir))
  end)

  teardown(function() os.execute(("rm -rf '%s'"):format(dir)) end)

  local has_http = pcall(require, "runnel.http.server") and pcall(require, "runnel.http.curl")

  -- `it`, where files can be opened in place, and where they cannot: on an old system, or a slow disk.
  local function both(name, f)
    it(name, f)
    it(name .. ", by luv's threads", function()
      local has_lib, lib = pcall(require("runnel.core").internal.require, "runnel.http.core")
      if not has_lib then return end
      local before <close> = setmetatable({ lib.open }, { -- luacheck: ignore 211
        __close = function(t) lib.open = t[1] end,
      })
      lib.open = function() end
      f()
    end)
  end

  before_each(function()
    if has_http then -- they have descriptors of their own
      assert(http.serve(0, print)):close()
      http.get "http://127.0.0.1:1/"
    end
    uv_stage.open()
  end)
  after_each(uv_stage.close)

  -- What a request gets. `target` without a method is a GET.
  local function ask(target, headers, opts)
    local method, path = target:match "^(%u+) (.*)$"
    local f = files(dir .. "/www", opts)
    return f { method = method or "GET", target = path or target, headers = headers }
  end

  local function body_of(target, ...)
    local status, _, body = ask(target, ...)
    return status == 200 and body or status
  end

  both("gives files with their type, length, tag and date", function()
    local status, headers, body = ask "/a.txt"
    assert.same({ 200, "hello" }, { status, body })
    local stat = luv.fs_stat(dir .. "/www/a.txt")
    assert.same({ ["Content-Type"] = "text/plain; charset=utf-8", ["Content-Length"] = 5, ["Accept-Ranges"] = "bytes",
      ["Last-Modified"] = os.date("!%a, %d %b %Y %H:%M:%S GMT", stat.mtime.sec), ETag = headers.ETag,
      ["X-Content-Type-Options"] = "nosniff" }, headers)
    assert.match('^"[%x-]+"$', headers.ETag)
    assert.same({ "", "<p>", "dots" },
      { body_of "/nothing", body_of "/sp%20ace.HTML?x=1", body_of("/sub/..b", nil, { dotfiles = true }) })
    assert.equal("text/html; charset=utf-8", (select(2, ask "/sp%20ace.HTML"))["Content-Type"])
    assert.equal("application/octet-stream", (select(2, ask "/nothing"))["Content-Type"])
  end)

  both("has another tag when the file has changed", function()
    write("www/changing", "one")
    local _, before = ask "/changing"
    luv.fs_utime(dir .. "/www/changing", 1, 1)
    local _, after = ask "/changing"
    assert.not_equal(before.ETag, after.ETag)
    assert.equal("Thu, 01 Jan 1970 00:00:01 GMT", after["Last-Modified"])
  end)

  both("gives large files in pieces", function()
    local _, headers, ch = ask "/large.bin"
    assert.equal(LARGE, headers["Content-Length"])
    local parts = {}
    for piece in ch do
      assert.is_true(#piece <= 65536)
      parts[#parts + 1] = piece
    end
    assert.is_true(large == table.concat(parts))
  end)

  both("reads a large file no faster than the client, and closes it when the client goes away", function()
    local _, _, ch = ask "/large.bin"
    assert.equal(65536, #ch:take())
    ch:close() -- the file closes: uv_stage counts descriptors
  end)

  both("closes the file of a channel that was dropped", function()
    ask "/large.bin"
  end)

  both("cuts the response if the file becomes shorter", function()
    write("www/shrinking", large)
    local _, _, ch = ask "/shrinking"
    assert.equal(65536, #ch:take())
    write("www/shrinking", "")
    local err
    repeat
      local piece
      piece, err = ch:take()
    until piece == nil
    assert.match("/?shrinking: the file has become shorter", err)
  end)

  both("gives ranges, of small and large files", function()
    local status, headers, body = ask("/a.txt", { range = "bytes=1-2" })
    assert.same({ 206, "el", 2, "bytes 1-2/5" }, { status, body, headers["Content-Length"], headers["Content-Range"] })
    local _, _, ch = ask("/large.bin", { range = "bytes=100-200099" })
    assert.is_true(large:sub(101, 200100) == table.concat(rn.into({}, ch):take()))
    status, headers = ask("/a.txt", { range = "bytes=5-" })
    assert.same({ 416, "bytes */5" }, { status, headers["Content-Range"] })
    status, _, body = ask("/a.txt", { range = "bytes=1-2", ["if-range"] = '"other"' })
    assert.same({ 200, "hello" }, { status, body })
    status, headers = ask("HEAD /a.txt", { range = "bytes=1-2" })
    assert.same({ 200, 5 }, { status, headers["Content-Length"] })
  end)

  both("answers 304 if the client has the file, 412 if it means another one", function()
    local _, headers = ask "/a.txt"
    for name, value in pairs { ["if-none-match"] = headers.ETag, ["if-modified-since"] = headers["Last-Modified"] } do
      for _, method in ipairs { "GET", "HEAD" } do
        local status, again, body = ask(method .. " /a.txt", { [name] = value },
          { headers = { ["Cache-Control"] = "x" } })
        assert.same({ 304, headers.ETag, "x" }, { status, again.ETag, again["Cache-Control"] })
        assert.is_nil(body)
      end
    end
    assert.equal(412, (ask("/a.txt", { ["if-match"] = '"x"' })))
  end)

  both("answers HEAD with the length and no body", function()
    local status, headers, ch = ask "HEAD /large.bin"
    assert.same({ 200, LARGE }, { status, headers["Content-Length"] })
    assert.is_nil((ch:take()))
  end)

  both("follows links within the folder, absolute ones too", function()
    assert(luv.fs_symlink(dir .. "/www/a.txt", dir .. "/www/absolute"))
    assert(luv.fs_symlink("../a.txt", dir .. "/www/sub/up"))
    assert.same({ "hello", "hello" }, { body_of "/absolute", body_of "/sub/up" })
    for _, path in ipairs { "/www/absolute", "/www/sub/up" } do assert(luv.fs_unlink(dir .. path)) end
  end)

  both("refuses other methods", function()
    local status, headers = ask "POST /a.txt"
    assert.same({ 405, "GET, HEAD" }, { status, headers.Allow })
  end)

  both("gives index.html for a folder, after a redirect to the path with a slash", function()
    assert.equal("index", body_of "/sub/")
    for target, location in pairs { ["/sub"] = "./sub/", ["/sub?a=/b"] = "./sub/?a=/b", ["/%73ub"] = "./%73ub/",
      ["/indir"] = "./indir/" } do
      local status, headers = ask(target)
      assert.same({ 301, location }, { status, headers.Location })
    end
    assert.same({ 404, 404, 404 }, { body_of "/empty/", body_of "/", body_of("/sub/", nil, { index = false }) })
    assert.equal("hello", body_of("/", nil, { index = "a.txt" }))
  end)

  both("gives nothing that is not in the folder, or whose name begins with a dot", function()
    for _, target in ipairs { "/../private/key", "/sub/../../private/key", "/..%2fprivate/key", "/%2e%2e/private/key",
      "/%2e%2e%2fprivate%2fkey", "/../www-private", "/sub/../a.txt", "/./a.txt", "//a.txt", "/sub//index.html",
      "/a.txt%00", "/%00", "/a.txt/", "/a.txt%00.html", "/out", "/outdir", "/outdir/", "/outdir/key", "/dangling",
      "/sibling", "/loop", "/fifo", "/.secret", "/.git/config", "/%2egit/config", "/.git", "/.", "/..", "/sub/..",
      "/%5c..", "/" .. ("x"):rep(300), "/" .. ("x/"):rep(5000), "/nowhere", dir .. "/private/key", "*",
      "http://x/../private/key" } do
      assert.equal(404, (ask(target)), target)
    end
    assert.same({ "hello", "index", "hello" }, { body_of "/in", body_of "/indir/", body_of "http://x:1/a.txt" })
  end)

  both("follows links that lead out, and gives names with dots, if the options say so", function()
    assert.same({ "secret", "secret" }, { body_of("/out", nil, { symlinks = true }),
      body_of("/outdir/key", nil, { symlinks = true }) })
    assert.same({ "secret", "secret", 404 }, { body_of("/.secret", nil, { dotfiles = true }),
      body_of("/.git/config", nil, { dotfiles = true }), body_of("/../private/key", nil, { dotfiles = true }) })
    local all = { dotfiles = true, symlinks = true }
    for _, target in ipairs { "/../private/key", "/sub/../../private/key", "/..%2fprivate/key", "/sub/../a.txt",
      "/." } do
      assert.equal(404, (ask(target, nil, all)), target)
    end
  end)

  both("has more headers and types if the options say so", function()
    local _, headers = ask("/nothing", nil, { headers = { ["Cache-Control"] = "max-age=60" }, types = { txt = "x/y" } })
    assert.equal("max-age=60", headers["Cache-Control"])
    _, headers = ask("/a.txt", nil, { headers = { ["content-type"] = "x/y", ["LAST-MODIFIED"] = "never" } })
    assert.same({ "x/y", nil, "never", nil }, { headers["content-type"], headers["Content-Type"],
      headers["LAST-MODIFIED"], headers["Last-Modified"] })
    _, headers = ask("/a.txt", nil, { types = { txt = "x/y" } })
    assert.equal("x/y", headers["Content-Type"])
  end)

  both("gives the rest of a route's path", function()
    local router = http.router { ["/static/*file"] = files(dir .. "/www") }
    local function get(target) return select(3, router { method = "GET", target = target }) end
    assert.same({ "hello", "index" }, { get "/static/a.txt", get "/static/sub/" })
    assert.equal("there is no such file\n", get "/static/..%2fprivate/key")
  end)

  both("knows a path by its target only if that has nothing else", function()
    local f = files(dir .. "/www")
    local function get(target, rest) return select(3, f { method = "GET", target = target, rest = rest }) end
    for _ = 1, 2 do
      assert.same({ "hello", "hello", "hello" }, { get "/a.txt?b", get "/a.txt", get "http://host/a.txt" })
      assert.same({ "hello", "index" }, { get("/a.txt", "a.txt"), get("/a.txt", "sub/") })
      assert.same({ "there is no such file\n", "there is no such file\n" }, { get("/x", "/a.txt"), get "//a.txt" })
    end
  end)

  it("keeps nothing of queries", function()
    local f = files(dir .. "/www")
    local function kilobytes(from, to)
      for i = from, to do f { method = "GET", target = ("/a.txt?%d"):format(i), headers = {} } end
      collectgarbage()
      collectgarbage()
      return collectgarbage "count"
    end
    local before = kilobytes(1, 1000)
    assert.is_true(kilobytes(1001, 6000) - before < 100) -- each would take 0.1
  end)

  both("follows its folder when that is a link whose target changes", function()
    local link = dir .. "/current"
    assert(luv.fs_symlink("www", link))
    local f = files(link)
    local function get(target) return select(3, f { method = "GET", target = target, headers = {} }) end
    assert.equal("hello", get "/a.txt")
    assert(luv.fs_unlink(link))
    assert(luv.fs_symlink("private", link))
    assert.equal("secret", get "/key")
    assert(luv.fs_unlink(link))
  end)

  both("keeps its folder when the program changes its working directory", function()
    local before = assert(luv.cwd())
    assert(luv.chdir(dir))
    local f = files "www"
    assert(luv.chdir(before))
    assert.equal("hello", (select(3, f { method = "GET", target = "/a.txt", headers = {} })))
  end)

  it("raises errors of the server, such as too many open files", function()
    local output = stage.script(([[
      require "runnel"
      local files, luv = require("runnel.http").files %q, require "luv"
      local held = {}
      while true do
        local fd = luv.fs_open("/dev/null", "r", 0)
        if not fd then break end
        held[#held + 1] = fd
      end
      print(pcall(files, { method = "GET", target = "/a.txt", headers = {} }))
      for _, fd in ipairs(held) do luv.fs_close(fd) end
      print(select(3, files { method = "GET", target = "/a.txt", headers = {} }))]]):format(dir .. "/www"),
      "ulimit -n 64;")
    assert.match("^false\t[^\n]*EMFILE[^\n]*\nhello\n$", output)
  end)

  both("serves many files at once through a server", function()
    if not has_http then return pending "the server or the client of runnel.http is not there" end
    local server <close> = assert(http.serve(0, files(dir .. "/www")))
    local urls = {}
    for i = 1, 50 do urls[i] = server.url .. (i % 2 == 0 and "large.bin" or "a.txt") end
    local n = 0
    for page in rn.pmap(10, http.get, urls) do
      n = n + 1
      assert.is_true(page.body == (n % 2 == 0 and large or "hello"))
    end
    assert.equal(50, n)
    local res = assert(http.request { url = server.url .. "large.bin", method = "HEAD" })
    assert.equal(tostring(LARGE), res.headers["content-length"])
    http.close_idle()
  end)

  describe("with precompressed files", function()
    local function get(name, accepted, more, opts)
      opts = opts or { precompressed = true }
      local headers = { ["accept-encoding"] = accepted }
      for key, value in pairs(more or {}) do headers[key] = value end
      return ask("/" .. name, headers, opts)
    end

    setup(function()
      local names = "c.js c.js.gz c.js.br c.js.zst d.js d.js.br d.js.zst old.js.gz old.js one.js one.js.gz"
      for name in names:gmatch "%S+" do
        write("www/" .. name, name)
        luv.fs_utime(dir .. "/www/" .. name, 1000, 1000)
      end
      luv.fs_utime(dir .. "/www/old.js", 1000, 1001)
      write("www/alone.js.gz", "x")
      assert(luv.fs_symlink("../private/key", dir .. "/www/one.js.br"))
      assert(luv.fs_mkdir(dir .. "/www/one.js.zst", 448))
    end)

    both("gives the one that the client prefers, with a tag of its own", function()
      local cases = {
        { "c.js", nil, "c.js" }, { "c.js", "", "c.js" }, { "c.js", "identity", "c.js" }, { "c.js", "gzip", "c.js.gz" },
        { "c.js", "GZIP", "c.js.gz" }, { "c.js", "gzip, deflate, br", "c.js.br" },
        { "c.js", "gzip, br, zstd", "c.js.zst" },
        { "c.js", "gzip;q=1.0, br;q=0.8", "c.js.gz" }, { "c.js", "gzip;q=0, br;q=0", "c.js" },
        { "c.js", "br;q=0.5;x=1", "c.js" }, { "c.js", "*", "c.js.zst" }, { "c.js", "*;q=0.1, zstd;q=0", "c.js.br" },
        { "c.js", "*;q=0, gzip", "c.js.gz" }, { "c.js", "gzip;q=0.5, identity;q=0.7", "c.js" },
        { "c.js", "gzip ; q = 0.5 ,, br;q=x", "c.js.gz" }, { "c.js", "gzip;q=0.001", "c.js.gz" },
        { "one.js", "gzip, br, zstd", "one.js.gz" }, { "one.js", "br", "one.js" }, { "old.js", "gzip", "old.js" },
      }
      local names = { gz = "gzip", br = "br", zst = "zstd" }
      local tags = {}
      for _, case in ipairs(cases) do
        local name, accepted, body = table.unpack(case, 1, 3)
        local status, headers, got = get(name, accepted)
        assert.same({ 200, body }, { status, got }, accepted)
        assert.equal(names[body:match "%.(%w+)$"], headers["Content-Encoding"])
        assert.same({ "text/javascript; charset=utf-8", "Accept-Encoding" }, { headers["Content-Type"], headers.Vary })
        assert.is_true(not tags[headers.ETag] or tags[headers.ETag] == body)
        tags[headers.ETag] = body
      end
      assert.equal(404, (get("alone.js", "gzip")))
      assert.equal("c.js", (select(3, get("c.js", "gzip", nil, {}))))
      assert.is_nil((select(2, get("c.js", "gzip", nil, {}))).Vary)
    end)

    both("gives each of several clients at a time its own", function()
      local f = files(dir .. "/www", { precompressed = true })
      local function ask_for(accepted)
        local _, headers, body = f { method = "GET", target = "/d.js", headers = { ["accept-encoding"] = accepted } }
        return headers["Content-Encoding"] .. " " .. body
      end
      for _ = 1, 20 do -- the first looks for a form that is not there, after it has found one
        local first, second = rn.go(ask_for, "br;q=0.5, gzip"), rn.go(ask_for, "zstd")
        assert.same({ "br d.js.br", "zstd d.js.zst" }, { first:take(), second:take() })
      end
    end)

    both("judges conditions and ranges of the compressed file", function()
      local _, plain = get "c.js"
      local _, packed = get("c.js", "gzip")
      for _, way in ipairs { { nil, plain.ETag, 304 }, { nil, packed.ETag, 200 }, { "gzip", packed.ETag, 304 },
        { "gzip", plain.ETag, 200 } } do
        local status, headers = get("c.js", way[1], { ["if-none-match"] = way[2] })
        assert.equal(way[3], status)
        assert.equal("Accept-Encoding", headers.Vary)
      end
      local status, headers, body = get("c.js", "gzip", { range = "bytes=5-" })
      assert.same({ 206, "gz", "bytes 5-6/7", "gzip" },
        { status, body, headers["Content-Range"], headers["Content-Encoding"] })
      status, headers = ask("HEAD /c.js", { ["accept-encoding"] = "br" }, { precompressed = true })
      assert.same({ 200, 7, "br" }, { status, headers["Content-Length"], headers["Content-Encoding"] })
      assert.same({ 416, "Accept-Encoding" }, { (function(code, more) return code, more.Vary end)(
        get("c.js", "gzip", { range = "bytes=9-" })) })
    end)

    it("keeps the program's own Vary", function()
      local function vary(value)
        return select(2, get("c.js", "gzip", nil, { precompressed = true, headers = value })).Vary
      end
      assert.same({ "Origin, Accept-Encoding", "A, B, Accept-Encoding" },
        { vary { vary = "Origin" }, vary { Vary = { "A", "B" } } })
    end)
  end)

  both("lists a folder, if it is told to: only what a request would get, escaped, and sorted", function()
    local function names_of(target, opts)
      local status, headers, body = ask(target, {}, opts)
      assert.same({ 200, "text/html; charset=utf-8" }, { status, headers["Content-Type"] })
      local names = {}
      for href, name in body:gmatch '<a href="([^"]*)">([^<]*)</a>' do
        names[#names + 1] = name
        names[href] = true
      end
      return table.concat(names, " "), names, body
    end
    local listed = { list = true, index = "none" }
    assert.equal(404, (ask("/empty/")))
    assert.equal(404, (ask("/nowhere/", {}, listed)))
    assert.equal(301, (ask("/empty", {}, listed)))
    assert.equal("../", (names_of("/empty/", { list = true })))
    assert.equal("index", body_of("/sub/", {}, { list = true }))
    assert.equal("../ index.html", (names_of("/sub/", listed)))
    assert.equal("../ index.html", (names_of("/indir/", listed)))
    assert.equal("../ ..b index.html", (names_of("/sub/", { list = true, index = false, dotfiles = true })))
    local text, names = names_of("/", listed)
    text = text:gsub("[%w.]+%.js[%w./]* ", ""):gsub("%w+ing ", function(name) -- what other specs have written
      return name ~= "nothing " and "" or nil
    end)
    assert.equal("a.txt empty/ in indir/ large.bin nothing sp ace.HTML sub/", text)
    assert.is_true(names["./sp%20ace.HTML"])
    assert.match(" out outdir/ ", (names_of("/", { list = true, symlinks = true })))
    assert.equal(404, (ask("/outdir/", {}, listed)))
    local odd = dir .. '/www/empty/"><b>&'
    assert(luv.fs_mkdir(odd, 448))
    local _, links, body = names_of("/empty/", listed)
    assert.is_true(links["./%22%3E%3Cb%3E%26/"])
    assert.is_nil(body:find("<b>", 1, true))
    assert.match("<h1>/empty/&quot;&gt;&lt;b&gt;&amp;/</h1>", select(3, names_of("/empty/%22%3E%3Cb%3E%26/", listed)))
    assert(luv.fs_rmdir(odd))
    local status, headers = ask("HEAD /empty/", {}, { list = true, headers = { ["X-A"] = "b" } })
    assert.same({ 200, "b" }, { status, headers["X-A"] })
  end)

  it("lists a folder in a simulated world", function()
    local sim = require "runnel.sim"
    local body
    sim.run(function()
      local world = sim.world()
      world:host("a", function()
        local twin = require("runnel.uv.loop").uv
        assert(twin.fs_mkdir("/www", 448))
        for _, name in ipairs { "b", "a" } do assert(io.open("/www/" .. name, "w")):close() end
        local _
        _, _, body = files("/www", { list = true }) { method = "GET", target = "/", headers = {} }
      end)
      world:run()
    end, { leaks = true })
    assert.match('<li><a href="./a">a</a>\n<li><a href="./b">b</a>\n', body)
  end)

  it("checks its arguments at the caller's line", function()
    raises("files: a folder expected, got nothing", function() local _ = files() end)
    raises("files: .*/nowhere", function() local _ = files "/nowhere" end)
    raises("files: a folder expected, and .* is a file", function() local _ = files(dir .. "/www/a.txt") end)
    raises("files: unknown option \"dots\"; known: dotfiles", function() local _ = files(dir, { dots = true }) end)
    raises("files: index: the name of a file", function() local _ = files(dir, { index = "../a" }) end)
    raises("files: headers: a table expected", function() local _ = files(dir, { headers = 1 }) end)
    raises("files: precompressed: true or false expected", function()
      local _ = files(dir, { precompressed = "gz" })
    end)
    raises("files: symlinks: true or false expected", function() local _ = files(dir, { symlinks = 1 }) end)
    raises("files: types: a table expected", function() local _ = files(dir, { types = 1 }) end)
    require("runnel.sim").run(function()
      raises("files: real I/O needs real time", function() local _ = files(dir) end)
    end)
  end)
end)
