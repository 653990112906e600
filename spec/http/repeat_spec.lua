-- What libcurl does on its own, and what becomes of a body, when a connection ends before its response: each kind of
-- request, on a connection that was kept and on a new one.

local rn = require "runnel"
local http_stage = require "spec.support.http.http_stage"
local uv_stage = require "spec.support.uv_stage"

describe("a connection that ends before the response", function()
  if http_stage.missing then return pending(http_stage.missing) end
  local http = require "runnel.http"

  before_each(http_stage.open)
  after_each(http_stage.close)

  local KEPT = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nkept"

  -- How a server ends a connection: after the head of a request has come.
  local ENDS = {
    closed = function(conn) conn:close() end,
    reset = function(conn)
      conn.handle:close_reset(function() end)
      conn.handle = nil
    end,
  }

  -- A server that answers GET /keep, and ends the connection of any other request. Returns its URL, and a table of how
  -- often each request has come, by its first line.
  local function server(how)
    local seen = {}
    local port = http_stage.serve(function(conn)
      local held = ""
      for chunk in conn:read() do
        held = held .. chunk
        if held:find("\r\n\r\n", 1, true) then
          local line = held:match "^[^\r]*"
          seen[line] = (seen[line] or 0) + 1
          held = ""
          if line ~= "GET /keep HTTP/1.1" then return ENDS[how](conn) end
          conn:write(KEPT)
        end
      end
    end)
    return ("http://127.0.0.1:%d/"):format(port), seen
  end

  local BODIES = {
    none = function() return {} end,
    string = function() return { body = "x" } end,
    json = function() return { json = { 1 } } end,
    form = function() return { form = { a = 1 } } end,
    multipart = function() return { multipart = { { name = "a", data = "b" } } } end,
    file = function() return { body = assert(io.open(uv_stage.path "in a file")) } end,
    channel = function() return { body = rn.to_chan { "x" } } end,
  }

  local REPEATED = { GET = true, HEAD = true, PUT = true, DELETE = true, OPTIONS = true, TRACE = true }

  -- Makes a request; returns how often it came, and its error.
  local function try(method, body, how, is_kept, headers)
    local url, seen = server(how)
    if is_kept then assert.equal("kept", assert(http.get(url .. "keep")).body) end
    local opts = BODIES[body]()
    opts.url, opts.method, opts.headers = url .. "order", method, headers
    local response, err = http.request(opts)
    assert.is_nil(response)
    return seen[method .. " /order HTTP/1.1"], err
  end

  for _, how in ipairs { "closed", "reset" } do
    for method in pairs { POST = 1, PATCH = 1, LOCK = 1, GET = 1, PUT = 1, DELETE = 1, OPTIONS = 1 } do
      local comes = REPEATED[method] and "again on a new connection, since it is idempotent"
        or "once, and may have been done"
      it(("is %s: %s comes %s"):format(how, method, comes), function()
        for body in pairs(BODIES) do
          for _, is_kept in ipairs { true, false } do
            local what = ("%s with %s, kept: %s"):format(method, body, is_kept)
            local n, err = try(method, body, how, is_kept)
            local may_be_two = REPEATED[method] and is_kept
            if (body == "channel" or body == "file") and may_be_two then
              -- 1 if a piece of the channel had been sent, or if the connection was reset before the file was sent.
              assert.is_true(n == 1 or n == 2, what)
            else
              assert.equal(may_be_two and 2 or 1, n, what)
            end
            if not REPEATED[method] then assert.matches("may have been done", err, 1, false, what) end
          end
        end
      end)
    end
  end

  -- Makes a request that is answered by these bytes, after which the connection is closed.
  local function answered(method, bytes)
    local port = http_stage.serve(function(conn)
      local held = ""
      for chunk in conn:read() do
        held = held .. chunk
        if held:find("\r\n\r\n", 1, true) then break end
      end
      conn:write(bytes)
      conn:close()
    end)
    return http.request { url = ("http://127.0.0.1:%d/"):format(port), method = method }
  end

  for _, first in ipairs { "", "HTTP/1.1 100 Continue\r\n\r\n" } do
    it("is an error after any part of a response" .. (first == "" and "" or " that comes after a 100"), function()
      local head, body = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "ok"
      assert.equal("ok", assert(answered("POST", first .. head .. body)).body)
      for n = 0, #head + #body - 1 do
        local part = first .. (head .. body):sub(1, n)
        local response, err = answered("POST", part)
        assert.is_nil(response, ("%q"):format(part))
        -- For libcurl since 8.2x a head that lacks the last byte is whole.
        if n < #head - 1 then assert.matches("may have been done", err, 1, false, ("%q"):format(part)) end
        assert.is_nil((answered("GET", part)))
      end
    end)
  end

  it("lets a POST with Idempotency-Key come again", function()
    assert.equal(2, (try("POST", "json", "closed", true, { ["idempotency-key"] = "17" })))
    assert.equal(1, (try("POST", "json", "closed", true, { ["idempotency"] = "17" })))
  end)

  it("lets a GET come again that was a POST before a redirect", function()
    local seen = {}
    local port = http_stage.serve(function(conn)
      local held = ""
      for chunk in conn:read() do
        held = held .. chunk
        if held:find("\r\n\r\n", 1, true) then
          local line = held:match "^%u+ %S+"
          seen[line] = (seen[line] or 0) + 1
          held = ""
          if line == "GET /end" and seen[line] == 1 then return conn:close() end
          conn:write(line ~= "POST /" and KEPT
            or "HTTP/1.1 303 See Other\r\nLocation: /end\r\nContent-Length: 0\r\n\r\n")
        end
      end
    end)
    assert.equal("kept", assert(http.request { url = ("http://127.0.0.1:%d/"):format(port), method = "POST" }).body)
    assert.same({ ["POST /"] = 1, ["GET /end"] = 2 }, seen)
  end)
end)

describe("a redirect of runnel.http", function()
  if http_stage.missing then return pending(http_stage.missing) end
  local http = require "runnel.http"

  before_each(http_stage.open)
  after_each(http_stage.close)

  it("is a response 301, 302, 303, 307 or 308 with Location, and no other status from 300 to 399", function()
    local port = http_stage.serve(function(conn)
      for chunk in conn:read() do
        local status = chunk:match "^GET /(%d+)"
        conn:write(status and ("HTTP/1.1 %s X\r\nLocation: /target\r\n%s\r\n"):format(status,
          status == "304" and "" or "Content-Length: 0\r\n") or "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
      end
    end)
    local followed = { [301] = true, [302] = true, [303] = true, [307] = true, [308] = true }
    for status = 300, 310 do
      local response = assert(http.get(("http://127.0.0.1:%d/%d"):format(port, status)))
      assert.equal(followed[status] and 200 or status, response.status)
      assert.equal(followed[status] and "/target" or "/" .. status, response.url:match "/[^/]*$")
    end
  end)
end)
