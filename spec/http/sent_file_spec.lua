-- Files that change while a request sends them: a log grows, for example. Nothing but the bytes that were announced is
-- sent, since a server would take more bytes for another request.

local http_stage = require "spec.support.http.http_stage"
local raises = require "spec.support.raises"
local uv_stage = require "spec.support.uv_stage"

describe("a file that is sent", function()
  if http_stage.missing then return pending(http_stage.missing) end
  local http = require "runnel.http"
  local uv = require "runnel.uv"

  before_each(http_stage.open)
  after_each(http_stage.close)

  local SIZE <const> = 1000

  -- Starts a server that calls `change` when it has the first request, whose body it then wants again, and answers the
  -- others with the number of bytes in their bodies. Returns its URL, and a table whose fields are the last head and
  -- body.
  local function server(change)
    local got = {}
    return ("http://127.0.0.1:%d/"):format(http_stage.serve(function(conn)
      local input, held, n = conn:read(), "", 0
      while true do
        while not held:find("\r\n\r\n", 1, true) do
          local piece = input:take()
          if not piece then return end
          held = held .. piece
        end
        local head, rest = held:match "^(.-\r\n)\r\n(.*)$"
        local length = tonumber(head:match "\r\nContent%-Length: (%d+)") or 0
        while #rest < length do
          local piece = input:take()
          if not piece then return end
          rest = rest .. piece
        end
        n, held = n + 1, rest:sub(length + 1)
        got.head, got.body = head, rest:sub(1, length)
        if n == 1 then
          change()
          conn:write "HTTP/1.1 307 Again\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"
        else
          local text = head:match "^%u+" .. " " .. length
          conn:write(("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"):format(#text, text))
        end
      end
    end)), got
  end

  local function write(path, mode, text)
    local file <close> = assert(io.open(path, mode))
    file:write(text)
  end

  -- How requests send the file with a path, after a byte and a line of it.
  local WAYS = {
    PUT = function(path)
      local file = assert(io.open(path))
      return { method = "PUT", body = file }
    end,
    POST = function(path)
      local file = assert(io.open(path))
      return { body = file }
    end,
    form = function(path)
      return { multipart = { { name = "f", file = path }, { name = "after", data = "the end" } } }
    end,
  }

  it("has the size that it had when the request began, if it grows", function()
    for name, options_of in pairs(WAYS) do
      local path = uv_stage.path(("x"):rep(SIZE))
      local url, got = server(function() write(path, "a", "GET /evil HTTP/1.1\r\n\r\n" .. ("y"):rep(200000)) end)
      local opts = options_of(path)
      opts.url, opts.timeout = url, 10000
      local res = assert(http.request(opts))
      assert.matches("^P%u+ %d+$", res.body)
      if name == "form" then
        assert.matches("\r\n\r\n" .. ("x"):rep(SIZE) .. "\r\n%-%-.*the end\r\n%-%-[^\r]*%-%-\r\n$", got.body)
      else
        assert.equal(("x"):rep(SIZE), got.body)
        opts.body:close()
      end
      assert.equal("GET 0", assert(http.get(url)).body) -- on the same connection
    end
  end)

  it("is an error, at once, if it becomes shorter or goes away", function()
    for name, options_of in pairs(WAYS) do
      local path = uv_stage.path(("x"):rep(SIZE))
      local opts = options_of(path)
      opts.url, opts.timeout = server(function() write(path, "w", "short") end), 10000
      local res, err = http.request(opts)
      assert.is_nil(res)
      assert.matches("a file to send has become shorter since the request has begun$", err)
      if name == "form" then
        opts.url = server(function() os.remove(path) end)
        res, err = http.request(opts)
        assert.is_nil(res)
        assert.matches("a file to send cannot be read: No such file or directory$", err)
      else
        opts.body:close()
      end
    end
  end)

  it("in a form has a name and a type, if the program gives none", function()
    local folder = os.tmpname()
    os.remove(folder)
    local url, got = server(function() end)
    for ending, expected in pairs { [".PNG"] = "image/png", [".txt"] = "text/plain", [".unknown"] = "octet%-stream",
      [""] = "octet%-stream" } do
      local path = folder .. ending
      write(path, "w", "text")
      assert(http.request { url = url, multipart = { { name = "f", file = path } } })
      local name = path:match "[^/]*$"
      assert.matches(('filename="%s"\r\nContent%%-Type: %%l*/?%s\r\n\r\ntext\r\n'):format(name, expected), got.body)
      os.remove(path)
    end
  end)

  it("that is none cannot be sent, and nothing else is sent in its place", function()
    local called = 0
    local web <close> = assert(http.serve(0, function()
      called = called + 1
      return 200
    end))
    local function send(path) return http.request { url = web.url, multipart = { { name = "f", file = path } } } end
    raises("request: multipart: the file /tmp cannot be read: Is a directory", function() send "/tmp" end)
    local path = os.tmpname()
    os.remove(path)
    local conns <close> = assert(uv.listen(path))
    local res, err = send(path)
    assert.is_nil(res)
    assert.matches("a file to send cannot be read: No such device or address$", err)
    assert.equal(0, called)
    assert.is_not_nil(conns)
  end)

  it("that is a pipe is sent until its end", function()
    local path = os.tmpname()
    os.remove(path)
    assert(os.execute("mkfifo " .. path))
    assert(os.execute(("printf 'from a pipe' >%s &"):format(path)))
    local url = ("http://127.0.0.1:%d/"):format(http_stage.serve(function(conn)
      local input, held = conn:read(), ""
      while not held:find "%-%-\r\n\r\n0\r\n\r\n$" do held = held .. input:take() end
      local text = held:match "from a pipe" or "nothing"
      conn:write(("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"):format(#text, text))
    end))
    local res, err = http.request { url = url, multipart = { { name = "f", file = path } } }
    os.remove(path)
    assert.equal("from a pipe", assert(res, err).body)
  end)
end)
