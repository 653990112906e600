-- Numbers that an int of C has no room for: it would be another number. So they are refused, at the caller's line; and
-- a limit that is larger than all that can be counted is none.

local missing = require "spec.support.missing"
local raises = require "spec.support.raises"
local rn = require "runnel"
local uv_stage = require "spec.support.uv_stage"

describe("a number that is too large", function()
  local reason = missing "luv runnel.http.core"
  if reason then return pending(reason) end
  local uv, http = require "runnel.uv", require "runnel.http"

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  it("is refused as a file descriptor", function()
    local fd <const> = 1 << 32 -- its last 32 bits are those of 0
    for _, f in ipairs {
      function() uv.read(fd) end,
      function() uv.lines(fd) end,
      function() uv.reader(fd) end,
      function() uv.write(fd, rn.chan()) end,
    } do
      raises("a file descriptor.* expected, got 4294967296$", f)
    end
    for _, name in ipairs { "stdin", "stdout", "stderr" } do
      local message = name .. ": .*a file descriptor expected, got 4294967296$"
      raises(message, function() uv.spawn { "true", [name] = fd } end)
      raises(message, function() uv.run { "true", [name] = fd } end)
    end
    raises("serve: fd: an integer from 0 to 2147483647 expected, got 4294967296$", function()
      http.serve(0, print, { fd = fd })
    end)
  end)

  it("is refused as a mode, as a number of networks, and as a number of datagrams", function()
    raises("listen: mode: an integer from 0 to 4095 expected, got 4294967680$", function()
      uv.listen("/tmp/none", nil, { mode = (1 << 32) + 384 })
    end)
    raises("serve: mode: an integer from 0 to 4095 expected, got 4096$", function()
      http.serve("/tmp/none", print, { mode = 4096 })
    end)
    raises("udp: ttl: an integer from 0 to 2147483647 expected, got 4294967297$", function()
      uv.udp { ttl = (1 << 32) + 1 }
    end)
    raises("udp: buffer: an integer from 1 to 2147483647 expected, got 2147483648$", function()
      uv.udp { buffer = 1 << 31 }
    end)
  end)

  it("is no limit, as a limit of http.serve", function()
    local opts = { timeout = 1e300, idle = 1e300, header_timeout = 1e300 }
    for _, name in ipairs { "max", "max_header", "max_connections", "max_per_address", "max_requests" } do
      opts[name] = math.maxinteger
    end
    local server <close> = assert(http.serve(0, function() return 200, nil, "text" end, opts))
    for _ = 1, 2 do
      local conn <close> = assert(uv.connect("127.0.0.1", server.port))
      assert.is_true(conn:write "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      local answer = ""
      for piece in uv.reader(conn):pieces() do answer = answer .. piece end
      assert.matches("^HTTP/1.1 200 .*text$", answer)
    end
  end)
end)
