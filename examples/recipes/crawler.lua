-- Checks the links of a site: visits its pages, 16 at a time, and lists the links that do not work, each with the first
-- page that has it. The pages are kept in a store: when the program is started again, it goes on where it was. Needs
-- libcurl and libsqlite3.
--
--     runnel examples/recipes/crawler.lua http://127.0.0.1:8080/ crawl.db

local rn = require "runnel"
local http = require "runnel.http"

local start, path = arg[1] or "", arg[2]
local site = assert(path and start:match "^https?://[^/]+", "usage: crawler.lua URL STORE")
local broken, found_on = 0, { [start] = "the command line" }
local get = require("runnel.store").open(path):once("pages", function(url) return http.get(url, { fail = true }) end)

-- The URL that a link on a page means, or nil for one that is not on the web.
local function absolute(link, page)
  link = link:gsub("#.*", "")
  if link:find "^%a+:" then return link:find "^https?:" and link end
  if link:find "^//" then return page:match "^%a+:" .. link end
  if link:find "^/" then return site .. link end
  return link ~= "" and (page:gsub("[^/]*$", "") .. link):gsub("/[^/]+/%.%./", "/") or nil
end

local function visit(url, add)
  local page = get(url)
  local is_page = url:sub(1, #site + 1) == site .. "/" and (page.headers["content-type"] or ""):find "html"
  for link in (is_page and page.body or ""):gmatch 'href="([^"]*)"' do
    local to = absolute(link, url)
    if to and add(to) then found_on[to] = url end
  end
  return true
end

local function failed(err, url)
  broken = broken + 1
  print(("%s: %s (on %s)"):format(url, err, found_on[url]))
end

local options = { tries = 3, backoff = 200, timeout = 10000, ex_handler = failed }
local visited = #rn.frontier(16, visit, { start }, options):list()
print(("%d links work, %d do not"):format(visited, broken))
os.exit(broken == 0)
