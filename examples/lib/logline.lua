-- Requests out of the lines of a web server's log, and counts of them: examples/logstat.lua uses this, in its own state
-- and in those of its threads.

local logline = {}

-- The request of a line in the common or combined format, or nil.
function logline.parse(line)
  local address, request, status, bytes = line:match '^(%S+) %S+ %S+ %[[^%]]*%] "(.-)" (%d%d%d) (%S+)'
  local method, path = (request or ""):match "^(%u+) ([^%s?]+)"
  if not method then return nil end
  return { address = address, method = method, path = path, status = status, bytes = tonumber(bytes) or 0 }
end

-- Counts: requests and bytes of each key, requests in all, and lines that are not requests.
function logline.counts() return { requests = {}, bytes = {}, total = 0, skipped = 0 } end

function logline.add(counts, key, requests, bytes)
  counts.requests[key] = (counts.requests[key] or 0) + requests
  counts.bytes[key] = (counts.bytes[key] or 0) + bytes
  counts.total = counts.total + requests
end

-- The counts of the lines of a text whose status begins with `status`, by a field of the request.
function logline.count(text, field, status)
  local counts = logline.counts()
  for line in require("runnel").each_line(text) do
    local request = logline.parse(line)
    if not request then
      counts.skipped = counts.skipped + 1
    elseif request.status:sub(1, #status) == status then
      logline.add(counts, request[field], 1, request.bytes)
    end
  end
  return counts
end

-- Adds the counts of another text.
function logline.merge(counts, other)
  for key, requests in pairs(other.requests) do logline.add(counts, key, requests, other.bytes[key]) end
  counts.skipped = counts.skipped + other.skipped
end

return logline
