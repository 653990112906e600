-- What docs/manual/http-strictness.md says that the server does with each kind of request.

local http = require "runnel.http"
local tables = require "scripts.docs.markdown_tables"
local has_luv, uv = pcall(require, "runnel.uv")

local PAGE <const> = "docs/manual/http-strictness.md"
local GET <const> = "GET / HTTP/1.1\r\nHost: x\r\n"
local POST <const> = "POST / HTTP/1.1\r\nHost: x\r\n"
local CHUNKED <const> = POST .. "Transfer-Encoding: chunked\r\n\r\n"

local function to(target) return ("GET %s HTTP/1.1\r\nHost: x\r\n\r\n"):format(target) end
local function host(value) return ("GET / HTTP/1.1\r\nHost: %s\r\n\r\n"):format(value) end

-- By the first cell of a row: requests of its kind. A row without requests here fails.
local KINDS <const> = {
  ["LF without CR at the end of a header line"] = { GET .. "A: b\n\r\n", "GET / HTTP/1.1\nHost: x\r\n\r\n" },
  ["the same at the end of a chunk's size, or of the last line"] = {
    CHUNKED .. "3\nabc\r\n0\r\n\r\n", CHUNKED .. "3\r\nabc\r\n0\n\r\n", CHUNKED .. "3\r\nabc\r\n0\r\n\n",
  },
  ["empty lines before a request"] = { "\r\n" .. GET .. "\r\n" }, -- and below
  ["LF or CR alone before a request"] = { "\n" .. GET .. "\r\n", "\r" .. GET .. "\r\n" },
  ["no version in the first line"] = { "GET /\r\nHost: x\r\n\r\n" },
  ["two spaces in the first line"] = { "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /  HTTP/1.1\r\nHost: x\r\n\r\n" },
  ["any method; HTTP/1.2"] = { "FROB / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.2\r\nHost: x\r\n\r\n" },
  ["`GET *`; `#` in a target"] = { to "*", to "/a#b" },
  ["bytes above 127 in a target"] = { to "/\xc3\xa4" },
  ["`GET x:80`, which is also a URL of the scheme x"] = { to "x:80" },
  ["`%` without two digits in a target"] = { to "/a%zzb", to "/%" },
  ["a URL without a host, or with a user, as the target"] = { to "http:///a", to "http://u@x/" },
  ["a URL with a query that has `@`, but no path"] = { to "http://x?a@b" },
  ["a URL of another scheme as the target"] = { to "ftp://x/" },
  ["two `Host`; blanks, `/` or `@` in it"] = { GET .. "Host: x\r\n\r\n", host "a b", host "a/b", host "a@b" },
  ["a port in `Host` that is no number; `[` without IPv6"] = { host "x:a", host "[x]" },
  ["a comma in `Host`, which could be two hosts"] = { host "a,b" },
  ["a header without a name"] = { GET .. ": a\r\n\r\n" },
  ["a header that is continued on the next line"] = { GET .. "A: b\r\n c\r\n\r\n" },
  ["two equal `Content-Length`"] = { POST .. "Content-Length: 1\r\nContent-Length: 1\r\n\r\na" },
  ["an empty `Content-Length`"] = { POST .. "Content-Length: \r\n\r\n" },
  ["both `Content-Length` and `Transfer-Encoding`"] = {
    POST .. "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
  },
  ["`Transfer-Encoding: gzip, chunked`"] = { POST .. "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" },
  ["`Transfer-Encoding` with HTTP/1.0"] = {
    "POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  },
  ["blanks around `;` and `=` of a chunk extension"] = { CHUNKED .. "1 ; a = b\r\nx\r\n0\r\n\r\n" },
  ["blanks before the CRLF of a chunk's size"] = { CHUNKED .. "1 \r\nx\r\n0\r\n\r\n" },
  ["other text in place of a chunk extension"] = {
    CHUNKED .. "1;=\r\nx\r\n0\r\n\r\n", CHUNKED .. "1 a\r\nx\r\n0\r\n\r\n",
  },
  ["`Content-Length` in trailers"] = { CHUNKED .. "1\r\nx\r\n0\r\nContent-Length: 1\r\n\r\n" },
  ["`Expect` with another value, or none"] = { GET .. "Expect: x\r\n\r\n", GET .. "Expect:\r\n\r\n" },
  ["`Connection: a close`"] = { GET .. "Connection: a close\r\n\r\n" },
  ["`Upgrade` to an unknown protocol"] = { GET .. "Connection: upgrade\r\nUpgrade: x\r\n\r\n" },
}

-- By what the page says is done here: the status, and whether the connection then stays open.
local function expected(cell)
  if cell:find "^yes" or cell:find "^one" or cell == "ignored" or cell == "stays open" then return "200", true end
  return cell:match "^%d+" or "400", false
end

describe(PAGE, function()
  if not has_luv then return pending "luv is not installed" end

  -- The status of the response, and whether the server answers another request on the connection.
  local function answer(server, request)
    local conn = assert(uv.connect("127.0.0.1", server.port))
    conn:write(request)
    conn:write(GET .. "\r\n")
    local statuses = {}
    for line in conn:lines() do
      local status = line:match "^HTTP/1.1 (%d+)"
      statuses[#statuses + 1] = status
      if #statuses == 2 then break end
    end
    conn:close()
    return statuses[1], statuses[2] == "200"
  end

  local rows = {}
  for _, one in ipairs(tables.of(PAGE)) do table.move(one.rows, 1, #one.rows, #rows + 1, rows) end

  it("has a request here for each row, and no others", function()
    local known = {}
    for _, row in ipairs(rows) do
      assert.is_table(KINDS[row[1]], row[1])
      known[row[1]] = true
    end
    for kind in pairs(KINDS) do assert.is_true(known[kind], kind) end
  end)

  for _, row in ipairs(rows) do
    it(("says what is done with %s: %s"):format(row[1], row[2]), function()
      local server <close> = assert(http.serve(0, function(req)
        req:body()
        return 200
      end))
      local status, goes_on = expected(row[2])
      for _, request in ipairs(KINDS[row[1]]) do
        assert.same({ status, goes_on }, { answer(server, request) }, request)
      end
    end)
  end

  it("says that one empty line before a request is accepted, and not two", function()
    local server <close> = assert(http.serve(0, function() return 200 end))
    assert.equal("400", (answer(server, "\r\n\r\n" .. GET .. "\r\n")))
  end)

  it("says that a percent sign without two digits is not decoded, and that trailers are dropped", function()
    local requests = {}
    local server <close> = assert(http.serve(0, function(req)
      requests[#requests + 1] = { path = req.path, body = req:body(), length = req.headers["content-length"] }
      return 200
    end))
    answer(server, to "/a%zzb%41")
    answer(server, CHUNKED .. "1\r\nx\r\n0\r\nContent-Length: 1\r\n\r\n")
    assert.same({ path = "/a%zzbA", body = "" }, requests[1])
    assert.same({ path = "/", body = "x" }, requests[3])
  end)
end)
