-- req:form: fields and files of forms, limits, and malformed forms.

local http_stage = require "spec.support.http.http_stage"
local raises = require "spec.support.raises"
local rn = require "runnel"
local sim = require "runnel.sim"

if http_stage.missing then
  describe("req:form", function() pending(http_stage.missing) end)
  return
end

local http = require "runnel.http"
local uv = require "runnel.uv"
local MULTIPART <const> = "multipart/form-data; boundary=b"

-- What `f(req)` returns for a request with this body, whose pieces have a size.
local function with_body(content_type, body, f, size)
  local result
  local before = http.fake(function(req)
    result = table.pack(pcall(f, req))
    return 200
  end)
  local ch
  if size then
    ch = rn.chan(#body // size + 1)
    for at = 1, #body, size do ch:put(body:sub(at, at + size - 1)) end
    ch:close()
  end
  assert(http.request { url = "http://x/", body = ch or body, headers = { ["Content-Type"] = content_type } })
  http.fake(before)
  if not result[1] then error(result[2], 0) end
  return table.unpack(result, 2, result.n)
end

local function form_of(content_type, body, opts, size)
  return with_body(content_type, body, function(req) return req:form(opts) end, size)
end

-- A part; `head` are its headers.
local function part(head, body) return ("--b\r\n%s\r\n\r\n%s\r\n"):format(head, body) end
local function field(name, body) return part(('Content-Disposition: form-data; name="%s"'):format(name), body) end
local function file(name, filename, body)
  return part(('Content-Disposition: form-data; name="%s"; filename="%s"\r\nContent-Type: text/plain'):format(name,
    filename), body)
end

-- Files as a table of their bytes.
local function keep(files)
  return function(p)
    local pieces = {}
    for piece in p.read, p do pieces[#pieces + 1] = piece end
    files[#files + 1] = { p.name, p.filename, p.type, table.concat(pieces) }
  end
end

-- The names in a folder, in a line.
local function names_in(dir)
  local names = {}
  for entry in uv.list(dir) do names[#names + 1] = entry.name end
  return table.concat(names, " ")
end

describe("req:form", function()
  before_each(http_stage.open)
  after_each(http_stage.close)

  it("reads the fields of an encoded form, with all values of each", function()
    local form = form_of("application/x-www-form-urlencoded; charset=utf-8", "a=1&b=x+y%21&a=2&c")
    assert.same({ a = "1", b = "x y!", c = "" }, form.fields)
    assert.same({ a = { "1", "2" }, b = { "x y!" }, c = { "" } }, form.lists)
    form = form_of("application/x-www-form-urlencoded", "=5&&a==b&=&&c=d=e%3D&")
    assert.same({ [""] = { "5", "" }, a = { "=b" }, c = { "d=e=" } }, form.lists)
  end)

  it("reads fields and files of a multipart form, wherever the pieces of the body are cut", function()
    local body = field("a", "1\r\n--not b\r\n") .. file("f", "C:\\\\dir\\x.txt", ("\r\n--"):rep(20)) .. field("a", "")
      .. '--b\r\ncontent-disposition: form-data; name=none\r\n\r\n--b--\r\nepilogue'
    for size = 1, #body, 7 do
      local files = {}
      local form = assert(form_of(MULTIPART, body, { file = keep(files) }, size))
      assert.same({ a = { "1\r\n--not b\r\n", "" }, f = { true }, none = { "" } }, form.lists)
      assert.same({ { "f", "x.txt", "text/plain", ("\r\n--"):rep(20) } }, files)
    end
  end)

  it("has no path in the name of a file", function()
    for sent, expected in pairs { ["../../etc/passwd"] = "passwd", ["."] = "", [".."] = "", ["a/"] = "",
      ["x\\\"y"] = 'x"y' } do
      local files = {}
      assert(form_of(MULTIPART, file("f", sent, "") .. "--b--", { file = keep(files) }))
      assert.equal(expected, files[1][2])
    end
  end)

  it("drops what the function for files does not read, and takes what it returns as the value", function()
    local form = form_of(MULTIPART, file("f", "x", ("z"):rep(200000)) .. field("a", "1") .. "--b--\r\n",
      { file = function(p) return "kept " .. p.filename end })
    assert.same({ f = "kept x", a = "1" }, form.fields)
  end)

  it("takes names in any case, encodings that are none, an empty form, and a line end before the first part", function()
    local function fields(content_type, body) return assert(form_of(content_type, body)).fields end
    assert.same({ a = "1" }, fields("APPLICATION/X-WWW-FORM-URLENCODED", "a=1"))
    assert.same({ a = "1" }, fields("Multipart/Form-Data; BOUNDARY=b", part('CONTENT-DISPOSITION: FORM-DATA; NAME="a"',
      "1") .. "--b--"))
    for _, encoding in ipairs { "7bit", "8BIT", "Binary" } do
      assert.same({ a = "1" }, fields(MULTIPART, part('Content-Disposition: form-data; name="a"\r\n'
        .. "Content-Transfer-Encoding: " .. encoding, "1") .. "--b--"))
    end
    assert.same({}, fields(MULTIPART, "--b--"))
    assert.same({ a = "1" }, fields(MULTIPART, "\r\n" .. field("a", "1") .. "--b--"))
    local longest = ("x"):rep(70)
    assert.same({ a = "1" }, fields('multipart/form-data; boundary="' .. longest .. '"',
      (field("a", "1") .. "--b--"):gsub("%-%-b", "--" .. longest)))
  end)

  it("gives nothing more of a file when its function has returned", function()
    local kept
    local body = file("f", "x", "data") .. file("f", "y", "other") .. "--b--"
    assert(form_of(MULTIPART, body, { file = function(p)
      if kept then assert.is_nil(kept:read()) end
      raises("save: a path expected, got a number", function() p:save(7) end)
      raises("save: the path has a zero byte", function() p:save "a\0.png" end)
      kept = p
    end }))
    assert.is_nil(kept:read())
    raises("read: call it with a colon: part:read", function() kept.read(7) end)
    raises("save: call it with a colon: part:save", function() kept.save(7) end)
  end)

  it("raises the error with which a body ends early", function()
    for kind, text in pairs {
      [MULTIPART] = field("a", "1"), ["application/x-www-form-urlencoded"] = "a=1&b=",
    } do
      local form, why
      local before = http.fake(function(req)
        local _
        _, why = pcall(function() form = req:form() end)
        return 200
      end)
      local ch = rn.chan(1)
      ch:put(text)
      ch:close "the network is gone"
      http.request { url = "http://x/", body = ch, headers = { ["Content-Type"] = kind } }
      http.fake(before)
      assert.is_nil(form)
      assert.matches("the network is gone", tostring(why))
    end
  end)

  it("refuses a form whose compressed body is damaged, of either kind", function()
    local lib = require "runnel.http.curl"
    for kind, text in pairs {
      [MULTIPART] = field("a", "1") .. "--b--", ["application/x-www-form-urlencoded"] = "a=1&b=2",
    } do
      local before = http.fake(http.compress(function(req)
        local form, err, status = req:form()
        return status or 200, nil, err or form.fields.a
      end))
      local function send(body)
        local res = assert(http.request { url = "http://x/", body = body, headers = { ["Content-Type"] = kind,
          ["Content-Encoding"] = "gzip" } })
        return res.status .. " " .. res.body
      end
      local packed = lib.deflater(6):deflate(text, "finish")
      assert.equal("200 1", send(packed))
      assert.equal("400 400: the compressed body is damaged", send(packed:sub(1, -2)))
      http.fake(before)
    end
  end)

  it("has the files of the option multipart in a fake, too", function()
    local path = os.tmpname()
    local made = assert(io.open(path, "wb"))
    made:write("a\0b"):close()
    local files = {}
    local before = http.fake(function(req)
      assert(req:form { file = keep(files) })
      return 200
    end)
    assert(http.request { url = "http://x/", multipart = { { name = "f", file = path, type = "image/png" } } })
    http.fake(before)
    os.remove(path)
    assert.same({ { "f", path:match "[^/]*$", "image/png", "a\0b" } }, files)
  end)

  it("reads what follows a form, so that its connection goes on with the next request", function()
    local pieces = { field("a", "1") .. "--b--", "\r\nmore", "and more" }
    local reader = require "runnel.http.form.multipart_reader".new(function() return table.remove(pieces, 1) end, "b")
    reader:begin()
    while reader:next_part() do end
    assert.same({}, pieces)
  end)

  it("refuses malformed forms", function()
    local FORM = 'Content-Disposition: form-data; name="a"'
    for body, expected in pairs {
      [""] = "cut", ["--b\r\n"] = "cut", [field("a", "1")] = "cut", [field("a", "1") .. "--b"] = "cut",
      [field("a", "1") .. "--c--\r\n"] = "cut", ["x" .. field("a", "1") .. "--b--"] = "does not begin",
      [field("a", "1") .. "--bx\r\n\r\n--b--"] = "delimiter of the form is malformed",
      [part("X: y", "1") .. "--b--"] = "has no name",
      [part("Content-Disposition: form-data", "1") .. "--b--"] = "no name",
      [part('Content-Disposition: file; name="a"', "1") .. "--b--"] = "has no name",
      [part(FORM .. "; name=b", "1") .. "--b--"] = "has no name", [part(FORM .. ' x', "1") .. "--b--"] = "has no name",
      [part(FORM .. "\r\n" .. FORM, "1") .. "--b--"] = "malformed header",
      [part("a b: c", "1") .. "--b--"] = "malformed header", [part("a(b: c", "1") .. "--b--"] = "malformed header",
      [part(FORM .. "\r\n" .. FORM:upper(), "1") .. "--b--"] = "malformed header",
      [part(FORM .. "\r\nX: a\1b", "1") .. "--b--"] = "malformed header",
      [part(FORM .. '; NAME="c"', "1") .. "--b--"] = "has no name", [part(FORM .. ';', "1") .. "--b--"] = "has no name",
      [part(FORM .. "\r\n folded", "1") .. "--b--"] = "malformed header",
      [part(FORM .. "\r\nX: " .. ("y"):rep(9000), "1") .. "--b--"] = "more than 8192 bytes",
      [part(FORM .. "\r\nContent-Transfer-Encoding: base64", "1") .. "--b--"] = "has an encoding",
      [file("f", "x", "") .. "--b--"] = "takes none",
    } do
      local form, err, status = form_of(MULTIPART, body)
      assert.is_nil(form, body)
      assert.match(expected, err)
      assert.equal(400, status)
    end
    for _, kind in ipairs { "multipart/form-data", "multipart/form-data; boundary=", 'multipart/form-data; boundary="a',
      "multipart/form-data; boundary=" .. ("x"):rep(71), "multipart/form-data; boundary=a; boundary=b" } do
      assert.same({ nil, "the form has no valid boundary", 400, n = 3 }, table.pack(form_of(kind, "--b--")))
    end
    assert.same({ nil, "the request is no form", 415, n = 3 }, table.pack(form_of("text/plain", "a=1")))
  end)

  it("has limits: of fields, of bytes, of a file", function()
    local ENCODED = "application/x-www-form-urlencoded"
    for _, case in ipairs {
      { ENCODED, "a=1&b=2", { max_fields = 1 }, "more than 1 fields" },
      { ENCODED, "a=12345", { max = 6 }, "more than 6 bytes" },
      { MULTIPART, field("a", "1"):rep(3) .. "--b--", { max_fields = 2 }, "more than 2 fields" },
      { MULTIPART, field("a", ("1"):rep(10)) .. "--b--", { max = 10 }, "more than 10 bytes" },
      { MULTIPART, file("f", "x", ("1"):rep(10)) .. "--b--", { max_file = 9, file = keep {} },
        'field "f" is too long' },
      { MULTIPART, file("f", "x", "1") .. "--b--", { max_file = 0, file = keep {} }, 'field "f" is too long' },
      { MULTIPART, file("f", ("x"):rep(10), "") .. "--b--", { max = 10, file = keep {} }, "more than 10 bytes" },
      { ENCODED, ("a=&"):rep(1001), {}, "more than 1000 fields" },
      { ENCODED, ("x"):rep(1048577), {}, "more than 1048576 bytes" },
    } do
      local form, err, status = form_of(case[1], case[2], case[3])
      assert.same({ nil, 413 }, { form, status })
      assert.match(case[4], err)
    end
    assert(form_of(ENCODED, "a=1&b=2", { max_fields = 2, max = 7 }))
    assert(form_of(ENCODED, ("a=&"):rep(1000)))
    assert(form_of(ENCODED, ("x"):rep(1048576)))
    assert(form_of(MULTIPART, file("f", ("x"):rep(9), "") .. "--b--", { max = 10, max_file = 0, file = keep {} }))
    assert(form_of(MULTIPART, file("f", "x", ("1"):rep(10)) .. "--b--", { max_file = 10, file = keep {} }))
  end)

  it("writes a file to a path only when it is complete, in a simulated world, too", function()
    sim.run(function()
      local world, answers = sim.world(), {}
      local function has(path)
        local opened <close> = io.open(path)
        return opened and opened:read "a"
      end
      world:host("server", function()
        assert(http.serve(80, function(req)
          local form, err, status = req:form { max_file = 100, file = function(p) return p:save("/" .. p.filename) end }
          local names = names_in "/"
          if not form then return status, nil, names:find "long" and names or err end
          return 200, nil, ("%d %s %s"):format(form.fields.f, form.fields.title, has "/x" or "none")
        end, { host = "0.0.0.0" }))
      end)
      world:host("client", function()
        rn.yield()
        for i, data in ipairs { "some\r\ntext", ("x"):rep(101) } do
          local parts = { { name = "title", data = "T" },
            { name = "f", data = data, filename = i == 1 and "x" or "long" } }
          answers[i] = assert(http.request { url = "http://server/", multipart = parts }).body
        end
      end)
      world:run()
      assert.same({ "10 T some\r\ntext", 'the file of the field "f" is too long' }, answers)
    end)
  end)

  it("keeps the files of several calls apart that write to one path: the last that ends is there, whole", function()
    sim.run(function()
      local world, answers = sim.world(), {}
      world:host("server", function()
        assert(http.serve(80, function(req)
          local form, err, status = req:form { file = function(p) return p:save "/home/photo" end }
          if not form then return status, nil, err end
          local saved <close> = assert(io.open "/home/photo")
          return 200, nil, saved:read "a" .. " " .. names_in "/home"
        end, { host = "0.0.0.0" }))
      end)
      -- Sends a file of four letters within 40 ms.
      local function send(letter)
        local body = rn.chan()
        rn.go(function()
          body:put(file("f", "x", ""):sub(1, -3))
          for _ = 1, 4 do
            body:put(letter)
            rn.sleep(10)
          end
          body:put "\r\n--b--"
          body:close()
        end)
        local headers = { ["Content-Type"] = MULTIPART }
        answers[letter] = assert(http.request { url = "http://server/", headers = headers, body = body }).body
      end
      world:host("client", function()
        rn.yield()
        rn.go(send, "a")
        rn.sleep(5)
        rn.go(send, "b")
        local cut = rn.go(send, "c")
        rn.sleep(15)
        rn.cancel(cut)
        cut:take()
      end)
      world:run()
      assert.match("^aaaa photo photo%.%x+%.part$", answers.a)
      assert.same({ "bbbb photo" }, { answers.b, answers.c })
    end)
  end)

  it("takes forms of libcurl", function()
    local path = os.tmpname()
    local server <close> = assert(http.serve(0, function(req)
      local form = assert(req:form { file = function(p) return p:save(path) end })
      return 200, nil, ("%s %d"):format(form.fields.title, form.fields.photo)
    end))
    local res = assert(http.request { url = server.url, multipart = {
      { name = "title", data = 'a "b" \\' }, { name = "photo", data = ("1"):rep(300000), filename = 'p".jpg' } } })
    assert.equal('a "b" \\ 300000', res.body)
    local saved <close> = assert(io.open(path))
    assert.equal(300000, saved:seek "end")
    os.remove(path)
  end)

  it("refuses the form if a file cannot be written, and passes errors of the function on", function()
    local body = file("f", "x", "1") .. "--b--"
    local form, err, status = form_of(MULTIPART, body, { file = function(p) return p:save "/nowhere/x" end })
    assert.same({ nil, 500 }, { form, status })
    assert.match("/nowhere/x", err)
    local luv, folder = require "luv", os.tmpname()
    os.remove(folder)
    assert(luv.fs_mkdir(folder, tonumber("700", 8)))
    form, err = form_of(MULTIPART, body, { file = function(p) return p:save(folder) end })
    assert(luv.fs_rmdir(folder))
    assert.is_nil(form)
    assert.equal(folder .. ": ", err:sub(1, #folder + 2)) -- it cannot replace a folder
    local odd = setmetatable({}, { __tostring = function() error("no text", 0) end })
    form, err, status = form_of(MULTIPART, body, { file = function() return nil, odd end })
    assert.same({ nil, "(error object whose text cannot be made: no text)", 500 }, { form, err, status })
    assert.equal("mine", select(2, pcall(form_of, MULTIPART, body, { file = function() error("mine", 0) end })))
  end)

  it("has errors at the caller's line", function()
    with_body(MULTIPART, "", function(req)
      raises('form: unknown option "limit"', function() req:form { limit = 1 } end)
      raises("form: max: an integer of at least 0 expected, got %-1", function() req:form { max = -1 } end)
      req:body()
      raises("form: the body of this request has been read already", function() req:form() end)
    end)
    with_body("application/json", "{}", function(req)
      req:pieces():take()
      for _, name in ipairs { "body", "json", "pieces" } do
        raises(name .. ": the body of this request has been read already", function() local _ = req[name](req) end)
      end
    end)
  end)
end)
