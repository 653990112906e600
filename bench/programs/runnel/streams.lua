-- Programs of make bench-programs that move values between stages (main.lua).

local rn = require "runnel"

local programs = {}

-- JSON lines in 4 stages, each a go block: read, decode, change, encode. Prints how many are left, and their bytes.
function programs.stages(path)
  local uv, json = require "runnel.uv", require "runnel.json"
  local decoded, changed, encoded = rn.chan(100), rn.chan(100), rn.chan(100)
  rn.go(function()
    for line in uv.lines(path) do decoded:put(json.decode(line)) end
    decoded:close()
  end)
  rn.go(function()
    for event in decoded do
      if event.value % 2 == 0 then changed:put { id = event.id, name = event.name, value = event.value * 2 } end
    end
    changed:close()
  end)
  rn.go(function()
    for event in changed do encoded:put(json.encode(event)) end
    encoded:close()
  end)
  local n, bytes = 0, 0
  for text in encoded do n, bytes = n + 1, bytes + #text end
  print(n, bytes)
end

-- n values, over 1,000 channels, joined by a mix.
function programs.mix(n)
  n = tonumber(n)
  local inputs, out, sum = {}, rn.chan(), 0
  local mix = rn.mix(out)
  for i = 0, 999 do
    inputs[i] = rn.chan()
    mix:admix(inputs[i])
  end
  rn.go(function()
    for i = 1, n do inputs[i * 7919 % 1000]:put(i) end
  end)
  for _ = 1, n do sum = sum + out:take() end
  print(sum)
end

-- n values to 100 go blocks by one channel, and back by one.
function programs.fan(n)
  local jobs, results, sum = rn.chan(), rn.chan(), 0
  for _ = 1, 100 do
    rn.go(function()
      for job in jobs do results:put(job * 2) end
    end)
  end
  rn.go(function()
    for i = 1, tonumber(n) do jobs:put(i) end
    jobs:close()
  end)
  for _ = 1, tonumber(n) do sum = sum + results:take() end
  print(sum)
end

-- The most frequent words of a file.
function programs.words(path)
  local uv = require "runnel.uv"
  local counts, list = {}, {}
  for line in uv.lines(path) do
    for word in line:gmatch "%a+" do counts[word] = (counts[word] or 0) + 1 end
  end
  for word, n in pairs(counts) do list[#list + 1] = { word = word, n = n } end
  table.sort(list, function(a, b) return a.n > b.n or a.n == b.n and a.word < b.word end)
  for i = 1, math.min(20, #list) do print(list[i].n, list[i].word) end
end

-- n requests to a local server, 8 at a time, of which at most 100 begin in 100 ms.
function programs.crawl(n, url)
  local http = require "runnel.http"
  local urls, bytes = {}, 0
  for i = 1, tonumber(n) do urls[i] = url .. "?" .. i end
  for page in rn.pmap_unordered(8, http.get, rn.rate(rn.to_chan(urls), 100, 100)) do bytes = bytes + #page.body end
  print(bytes)
end

return programs
