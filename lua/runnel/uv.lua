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

---@class runnel.uv.processes: runnel.uv.process, runnel.uv.run

---@class runnel.uv.files: runnel.uv.dir, runnel.uv.file, runnel.uv.follow, runnel.uv.watch

---@class runnel.uv: runnel.uv.event, runnel.uv.files, runnel.uv.processes, runnel.uv.socket
local uv = {}

for _, name in ipairs { "dir", "event", "file", "follow", "process", "run", "socket", "watch" } do
  for key, value in pairs(require("runnel.uv." .. name)) do uv[key] = value end
end

return uv
