-- The echo server of examples/echo.lua in luv's callbacks, as the benchmark's floor. Prints its port.
--
--     lua5.4 bench/io/echo_luv.lua

local uv = require "luv"

local server = uv.new_tcp()
assert(server:bind("127.0.0.1", 0))
assert(server:listen(1024, function(err)
  assert(not err, err)
  local client = uv.new_tcp()
  assert(server:accept(client))
  client:read_start(function(failed, chunk)
    if failed or not chunk then return client:close() end
    client:write(chunk)
  end)
end))
io.stderr:write("listening on 127.0.0.1, port ", server:getsockname().port, "\n")
uv.run()
