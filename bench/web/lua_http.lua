-- lua_http.lua URL N AT_ONCE: N requests with lua-http, on cqueues. Prints how many bytes came. It has no keep-alive
-- for requests, so each is a connection.

local cqueues = require "cqueues"
local request = require "http.request"

local url, n, at_once = arg[1], tonumber(arg[2]), tonumber(arg[3])
local started, size = 0, 0
local loop = cqueues.new()
for _ = 1, at_once do
  loop:wrap(function()
    while started < n do
      started = started + 1
      local _, stream = assert(request.new_from_uri(url):go())
      size = size + #assert(stream:get_body_as_string())
      stream:shutdown()
      stream.connection:close()
    end
  end)
end
assert(loop:loop())
print(size)
