-- Fetching pages: fetch(url) is a channel, so that pmap and
-- alts work with it. It needs WebAssembly.Suspending.
local rn = require "runnel"

local function size(url)
  local page, err = fetch(url):take()
  return url .. ": " .. (page and #page .. " bytes" or err)
end

local urls = { "../index.html", "../docs/tutorial.html",
  "../no-such-page.html" }
for line in rn.pmap(2, size, urls) do print(line) end
