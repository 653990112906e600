-- runnel.lua URL N AT_ONCE: N requests, or a stream if N is 0. Prints how many bytes came.

local rn = require "runnel"
local http = require "runnel.http"

local url, n, at_once = arg[1], tonumber(arg[2]), tonumber(arg[3])
local size = 0
if n == 0 then
  for piece in http.stream(url) do size = size + #piece end
else
  local urls = {}
  for i = 1, n do urls[i] = url end
  for page in rn.pmap_unordered(at_once, http.get, urls) do size = size + #page.body end
end
print(size)
