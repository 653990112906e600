---Programs that the notion `processes` starts: in reality each is a process (child.lua), in the world a function.

local rn = require "runnel"
local uv = require "runnel.uv"

local children = {}

-- Waits until the first signal of those comes, or for ever.
local function wait_for(stdout, ...)
  local ch = uv.signal(...)
  stdout:put "ready\n"
  local name = ch:take()
  ch:close()
  return name
end

function children.says(_, _, stdout, stderr)
  stdout:put "hello\n"
  stderr:put "oops\n"
  return 3
end

function children.cat(_, stdin, stdout)
  for text in stdin do
    if not stdout:put(text) then return 5 end
  end
  return 0
end

function children.sleeps() rn.sleep(1000000) end

function children.heeds_term(_, _, stdout)
  stdout:put(wait_for(stdout, "term", "usr1") .. "\n")
  return 7
end

function children.ignores_term(_, _, stdout)
  local signals = uv.signal "term"
  stdout:put "ready\n"
  for name in signals do stdout:put(name .. "\n") end
end

function children.ends_with_input(_, stdin)
  for _ in stdin do end -- luacheck: ignore 542
  return 9
end

function children.writes_much(_, _, stdout)
  if not stdout:put(("c"):rep(300000)) then return 4 end
  return 0
end

function children.exits() rn.exit(260) end

return children
