-- Sends the mails of a folder, one file each, by a command that reads it, such as sendmail -t -i. Each is sent once;
-- only one whose command runs when the program is killed may be sent again. A mail that fails is tried again every hour
-- for three days, also after a restart of the program. Needs luv and libsqlite3.
--
--     runnel examples/recipes/mailer.lua outbox mails.db sendmail -t -i

local rn = require "runnel"
local uv = require "runnel.uv"

local dir, store = arg[1], require("runnel.store").open(arg[2])
local PAUSE <const>, LONGEST <const> = tonumber(os.getenv "PAUSE") or 3600, 3 * 24 * 3600 -- seconds
local began = store:once("began", function() return os.time() end)
local places = rn.chan(8) -- at most 8 at a time

local function send(name)
  local since = began(name)
  while true do
    places:put(name)
    local ran, err = uv.run { "sh", "-c", 'exec "$@" <"$0"', dir .. "/" .. name, table.unpack(arg, 3) }
    places:take()
    if ran and ran.code == 0 then return "sent" end
    err = (err or ran.stderr):gsub("\n$", "")
    if os.time() - since > LONGEST then return "given up: " .. err end
    io.stderr:write(("%s: %s\n"):format(name, err))
    rn.sleep(PAUSE * 1000)
  end
end

io.stdout:setvbuf "line"
local deliver, begun = store:once("mail", send), {}
while true do
  for name in uv.run({ "ls", dir }).stdout:gmatch "[^\n]+" do
    begun[name] = begun[name] or rn.go(function() print(name .. ": " .. deliver(name)) end)
  end
  rn.sleep(1000)
end
