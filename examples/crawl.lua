-- Follows links from a page to all pages that can be reached, and ends by itself when there are no more.
--
--     lua5.4 examples/crawl.lua [START]
--
-- The web is a table here, so that the example needs no network: `fetch` is where a program asks a server. A page that
-- fails is tried three times; pages that cannot be fetched are listed at the end.
--
-- "fetch >> new" is an edge that grows: its puts never wait, so that the cycle cannot fill up and stop. The flow ends
-- when nothing leads into the cycle any more and no page is under way in it.

local rn = require "runnel"
local flow = require "runnel.flow"

local WEB = {
  home = { "news", "about", "shop" },
  about = { "home", "team" },
  news = { "home", "news/1", "news/2" },
  ["news/1"] = { "news", "news/2" },
  ["news/2"] = { "news", "gone" },
  shop = { "home", "cart" },
  team = {},
  cart = { "shop", "home" },
}

local USAGE = "usage: lua5.4 examples/crawl.lua [START]\n  START: a page of the table above; home by default\n"
if arg[1] == "--help" then
  io.write(USAGE)
  os.exit()
end
local start = arg[1] or "home"
if arg[2] or not WEB[start] then
  io.stderr:write(USAGE)
  os.exit(2)
end

local asked = 0

-- The links of a page. Stands for a request to a server, which takes a while, and fails now and then.
local function fetch(page)
  asked = asked + 1
  rn.sleep(20)
  if asked % 5 == 0 then error("connection reset", 0) end
  return WEB[page] or error("404 Not Found", 0)
end

local seen, pages, failed = {}, {}, {}

local f = flow("crawl", {
  start = { from = { start } },
  new = function(page)
    if seen[page] then return nil end
    seen[page] = true
    return page
  end,
  fetch = {
    n = 4, tries = 3, backoff = 10,
    step = function(page, put)
      for _, link in ipairs(fetch(page)) do put(link) end
      pages[#pages + 1] = page
    end,
  },
  failed = function(e) failed[#failed + 1] = ("%s (%s)"):format(e.value, e.error) end,
  "start > new > fetch >> new",
  "fetch.error > failed",
})
f:wait()

table.sort(pages)
print(("%d pages: %s"):format(#pages, table.concat(pages, ", ")))
for _, text in ipairs(failed) do print("failed: " .. text) end
