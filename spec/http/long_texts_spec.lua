-- What the other end sends is read in a time in proportion to its length: no header and no body stops a program.

describe("the time to read what the other end sends", function()
  local http, json = require "runnel.http", require "runnel.json"
  local conditions, cookie = require "runnel.http.conditions", require "runnel.http.cookie"
  local handshake, multipart = require "runnel.http.websocket.handshake", require "runnel.http.form.multipart_reader"
  local forms, request = require "runnel.http.form.form_reader", require "runnel.http.request"
  local responses, proxies = require "runnel.http.response", require "runnel.http.proxy"

  -- The form reader's request with this body, which comes at once.
  local function read_form(body)
    local rest = { "--b\r\n" .. body .. "\r\n--b--\r\n" }
    local req = { headers = { ["content-type"] = "multipart/form-data; boundary=b" } }
    local form = forms.read(req, { file = function(part) return part.filename end },
      { reader = function() return function() return table.remove(rest) end end, fields = request.fields })
    return assert(form).fields.f
  end

  local function read_trailers(text)
    local req = request.new(nil, { head = function() return "GET", "/", "unix:", false end,
      trailers = function() return text end })
    return req:trailers()["x-a"]
  end

  local function log_address(forwarded)
    local line
    local f = http.log(function() return 200 end, { behind_proxy = true, to = function(text) line = text end })
    f { method = "GET", path = "/", headers = { ["x-forwarded-for"] = forwarded } }
    return line:match "^%S+"
  end

  -- Each reads a text with `n` times the same character in the middle, and returns what shows that it has been read.
  local CASES <const> = {
    ["a cookie"] = { " ", function(fill) return cookie.parse("a=x" .. fill .. "y; b=\t7 ").b end, "7" },
    ["the encodings that a client accepts"] = { " ",
      function(fill) return conditions.encodings("gzip ;" .. fill .. "x, br").br end, 1 },
    ["a list in a header"] = { " ", function(fill) return handshake.list("a" .. fill .. "b, \tc ")[2] end, "c" },
    ["a list of blanks"] = { " ", function(fill) return #handshake.list(fill .. "," .. fill) end, 0 },
    ["the answer to a handshake"] = { " ", function(fill)
      return select(2, handshake.read_head("HTTP/1.1 101 x\r\nA: x" .. fill .. "y\r\nB: \t7 ")).b
    end, "7" },
    ["the boundary of a form"] = { " ", function(fill) return multipart.boundary("a/b;" .. fill .. "boundary=c") end,
      "c" },
    ["a header in a form"] = { " ", function(fill)
      return read_form(('Content-Disposition: form-data; name="f"\r\nX: a%sb\r\n\r\n7'):format(fill:sub(1, 8000)))
    end, "7" },
    ["the name of a file in a form"] = { "a", function(fill)
      return read_form(('Content-Disposition: form-data; name="f"; filename="%s/x"\r\n\r\n7'):format(fill:sub(1, 8000)))
    end, "x" },
    ["trailers"] = { " ", function(fill) return read_trailers("X-A: b" .. fill .. "c\r\nX-A: \t7 \r\n\r"):sub(-1) end,
      "7" },
    ["the addresses that a proxy has added"] = { "a",
      function(fill) return log_address("1.2.3.4, " .. fill .. ", 5.6.7.8") end, "5.6.7.8" },
    ["addresses with nothing behind the last comma"] = { "a", function(fill) return log_address(fill .. ",") end, "-" },
    ["the host of a URL"] = { "a", function(fill) return responses.host("http://" .. fill .. "@x:80/") end, "x:80" },
    ["the host of a URL, for its proxy"] = { "a", function(fill)
      return proxies.of("http://" .. fill .. "@x:80/", { proxy = "http://y:7" }).name
    end, "y:7" },
    ["a text that is not JSON"] = { "a", function(fill)
      return select(2, json.decode('["' .. fill .. '"\n  ?'))
    end, nil },
  }

  -- The CPU time of a call, in s: the shortest of some.
  local function cost(f, fill)
    local best = math.huge
    for _ = 1, 3 do
      local began = os.clock()
      f(fill)
      best = math.min(best, os.clock() - began)
    end
    return best
  end

  for what, case in pairs(CASES) do
    local char, f, expected = table.unpack(case, 1, 3)
    it("is in proportion to the length of " .. what, function()
      if expected then assert.equal(expected, f(char:rep(1000))) end
      assert.is_true(cost(f, char:rep(15000)) < 40 * math.max(cost(f, char:rep(1000)), 0.0001))
    end)
  end

  it("says where a text is not JSON", function()
    for text, place in pairs {
      ["[1\n?"] = "byte 4 (line 2, byte 1)", ["[1\n\n ?"] = "byte 6 (line 3, byte 2)", ["[1?"] = "byte 3",
    } do
      assert.equal("not JSON: expected , or ] at " .. place, select(2, json.decode(text)))
    end
  end)
end)
