-- What occurs most often in a log: counts what a pattern finds in each line, on all cores. Needs luv.
--
--     runnel examples/recipes/toplog.lua examples/access.log "^%S+" 20

local rn = require "runnel"
local uv = require "runnel.uv"

local path, pattern, most = arg[1], arg[2] or "^%S+", tonumber(arg[3] or "20")

-- Counts in a piece of whole lines. This runs in the threads of the pool.
local count <close> = rn.threads(rn.cores(), function(job)
  local line_pattern, counts = job.pattern, {}
  for line in require("runnel").each_line(job.text) do
    local key = line:match(line_pattern)
    if key then counts[key] = (counts[key] or 0) + 1 end
  end
  return counts
end)

local pieces = rn.chan(1, rn.xf.map(function(text) return { text = text, pattern = pattern } end))
rn.pipe(uv.lines(path, { pieces = 1 << 20 }), pieces)

local totals, keys = {}, {}
for counts in rn.pmap_unordered(2 * rn.cores(), count, pieces) do
  for key, n in pairs(counts) do
    if not totals[key] then keys[#keys + 1] = key end
    totals[key] = (totals[key] or 0) + n
  end
end
table.sort(keys, function(a, b)
  if totals[a] ~= totals[b] then return totals[a] > totals[b] end
  return a < b
end)
for i = 1, math.min(most, #keys) do print(("%8d  %s"):format(totals[keys[i]], keys[i])) end
