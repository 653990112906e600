-- Checks the links of a site: visits its pages, N at a time, and lists the links that do not work, each with the first
-- page that has it. Needs libcurl.
--
--     runnel examples/recipes/crawler.lua http://127.0.0.1:8080/ [N]

local rn = require "runnel"
local http = require "runnel.http"

local start, n = arg[1] or "", tonumber(arg[2] or 16)
local site = assert(start:match "^https?://[^/]+", "usage: crawler.lua URL [N]")
local broken, found_on = 0, { [start] = "the command line" }

-- The URL that a link on a page means, or nil for one that is not on the web.
local function absolute(link, page)
  link = link:gsub("#.*", "")
  if link:find "^%a+:" then return link:find "^https?:" and link or nil end
  if link:sub(1, 2) == "//" then return page:match "^%a+:" .. link end
  if link:sub(1, 1) == "/" then return site .. link end
  if link == "" then return nil end
  return (page:gsub("[^/]*$", "") .. link):gsub("/[^/]+/%.%./", "/"), nil
end

local function visit(url, add)
  local page = assert(http.get(url, { fail = true }))
  local is_here = url:sub(1, #site + 1) == site .. "/"
  if is_here and (page.headers["content-type"] or ""):find "html" then
    for link in page.body:gmatch 'href="([^"]*)"' do
      local to = absolute(link, url)
      if to and add(to) then found_on[to] = url end
    end
  end
  return true
end

local function failed(err, url)
  broken = broken + 1
  print(("%s: %s (on %s)"):format(url, err, found_on[url]))
end

local options = { tries = 3, retry = 200, timeout = 10000, ex_handler = failed }
local visited = #rn.into({}, rn.frontier(n, visit, { start }, options)):take()
print(("%d links work, %d do not"):format(visited, broken))
os.exit(broken == 0)
