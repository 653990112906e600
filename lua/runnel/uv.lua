---Processes, files, sockets and signals as channels. Needs luv.
---
---    local uv = require "runnel.uv"
---    for line in uv.lines "/etc/passwd" do print(line) end
---    local listing = uv.spawn { "ls", "-l", stdout = "lines" }
---    for line in listing.stdout do print(line) end
---    print(listing.exit:take().code)
---
---Requiring it makes luv's loop the scheduler's driver (runnel.driver.luv). A program that uses luv as well needs
---another name for it: `local luv = require "luv"`.

local package, require = package, require

---@class runnel.uv.processes: runnel.uv.process, runnel.uv.run

---@class runnel.uv.files: runnel.uv.dir, runnel.uv.file, runnel.uv.follow, runnel.uv.watch

---@class runnel.uv: runnel.uv.event, runnel.uv.files, runnel.uv.processes, runnel.uv.reader, runnel.uv.socket,
---runnel.uv.udp
local uv = {}

for _, name in ipairs { "dir", "event", "file", "follow", "process", "run", "socket", "watch" } do
  for key, value in pairs(require("runnel.uv." .. name)) do uv[key] = value end
end

-- The rest is loaded when it is first used, because few programs need it.
local HOMES = { reader = "reader", udp = "udp" }

local function load_late(_, name)
  local home = HOMES[name]
  if not home then return nil end
  uv[name] = require("runnel.uv." .. home)[name]
  return uv[name]
end

local function load_all()
  for name in pairs(HOMES) do load_late(nil, name) end
  return next, uv, nil
end

require "runnel.internal.living".load_uv = load_all
if package.loaded["runnel.all"] then load_all() end

return setmetatable(uv, { __index = load_late, __pairs = load_all })
