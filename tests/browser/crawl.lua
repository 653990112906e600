-- The program of the pictures in the documents: a crawler without a network, whose parser is too slow for it.
local rn = require "runnel"

local function chan(n, name) return rn.chan(n):name(name) end
local urls, pages = chan(20, "urls"), chan(10, "pages")
local links, images, unseen = chan(10, "links"), chan(5, "images"), chan(5, "to store")

-- A stage: n go blocks that call f with each value of `from`.
local function stage(name, n, from, f)
  for _ = 1, n do
    rn.go(function()
      rn.rename(name)
      for value in from do f(value) end
    end)
  end
end

local function pause(least, most) rn.sleep(least + (most - least) * math.random()) end

rn.go(function()
  rn.rename "seed"
  for i = 1, math.huge do urls:put(("https://example.org/%d"):format(i)) end
end)
stage("fetch", 8, urls, function(url) pause(8, 24) pages:put(url) end)
stage("parse", 2, pages, function(url)
  pause(8, 12)
  links:put(url)
  if math.random() < 0.3 then images:put(url .. "/image") end
end)
stage("deduplicate", 1, links, function(url) unseen:put(url) end)
stage("thumbnail", 1, images, function() pause(4, 8) end)
stage("store", 3, unseen, function() pause(6, 12) end)
rn.run()
