-- Visits the pages of some sites for as long as it takes, a week for example: the sites at the same time, but each one
-- not more often than every 30 s. It goes on after any restart. Needs libcurl and libsqlite3.
--
--     runnel examples/recipes/polite.lua crawl.db http://one.example/ http://two.example/

local http = require "runnel.http"
local PAUSE <const>, ENDS <const> = 30000, 24 * 3600 * 1000 -- ms; a site without a new page for a day is done
local urls = { select(2, ...) }
local store, sites, wanted = require("runnel.store").open((...)), nil, {}
store.db:exec "create table if not exists page(url text primary key, status text)"

local function host_of(url) return url:match "^https?://([^/?#]+)" end

-- Tells the run of a site of a page that is new. It may hear of it twice, if the program is killed in between.
local function add(url)
  local host = host_of(url)
  if not wanted[host] or store.db:one("select 1 from page where url = ?", url) then return end
  assert(assert(sites:start(host)):signal("page", url))
  store.db:exec("insert or ignore into page(url) values (?)", url)
end

local visit = store:once("visit", function(url)
  local page, err = http.get(url, { timeout = 30000 })
  for link in (page and page.body or ""):gmatch 'href="(https?://[^"#]+)' do add(link) end
  store.db:exec("update page set status = ? where url = ?", page and page.status or err, url)
end)

sites = store:runs("site", function(run)
  for n = 1, math.huge do
    local url = run:wait("page", { timeout = ENDS })
    if not url then return n - 1 .. " pages" end
    run:note(("page %d: %s"):format(n, url))
    visit(url)
    run:sleep(PAUSE)
  end
end, { n = 1000 })

for _, url in ipairs(urls) do wanted[host_of(url)] = true end
for _, url in ipairs(urls) do add(url) end
