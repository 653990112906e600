---The names of what functions of the library wait for, such as "http.get 127.0.0.1:80", in a profile.
---
---While go blocks wait in such a function, a profile reads their names from the function's own variables: so the
---library pays nothing for them.

local debug = debug

-- The value of a local variable of the function at `level` of a coroutine, or nil.
local function value_of(co, level, wanted)
  for i = 1, math.huge do
    local name, value = debug.getlocal(co, level, i)
    if name == nil then return nil end
    if name == wanted then return value end
  end
end

-- The host and the port of a URL, without a name and a password.
local function host_of(url)
  return (type(url) == "string" and url:match "^%a+://([^/?#]+)" or "?"):gsub("^.*@", "")
end

-- A namer for functions that have a local variable.
local function by_local(prefix, name)
  return function(co, level)
    local value = value_of(co, level, name)
    return type(value) == "string" and prefix .. value or nil
  end
end

---@type table<string, fun(co: thread, level: integer): string?> path below the library's folder -> namer
local namers = {}

namers["http/client.lua"] = function(co, level)
  local what = value_of(co, level, "what")
  return what and ("http.%s %s"):format(what, (host_of(value_of(co, level, "url")))) or nil
end

namers["http/stream.lua"] = function(co, level)
  local self = value_of(co, level, "self")
  if type(self) == "table" and self.url then return "http.stream " .. host_of(self.url) end
end

namers["http/websocket.lua"] = function(co, level)
  local place = value_of(co, level, "place")
  if type(place) == "table" then return ("websocket.connect %s"):format(place.authority) end
end

namers["uv/run.lua"] = function(co, level)
  local options = value_of(co, level, "options")
  if type(options) == "table" then return "uv.run " .. tostring(options[1]):match "[^/]*$" end
end

namers["uv/process.lua"] = function(co, level)
  local self = value_of(co, level, "self")
  if type(self) == "table" and self.exit then return "the end of a process" end
end

namers["uv/socket.lua"] = function(co, level)
  return by_local("uv.connect ", "name")(co, level) or by_local("uv.connect ", "host")(co, level)
end

namers["uv/stream.lua"] = function(co, level)
  local self = value_of(co, level, "self")
  if type(self) == "table" and value_of(co, level, "answer") then return "write to " .. tostring(self.name) end
end

namers["threads/pool.lua"] = function(co, level)
  local self = value_of(co, level, "self")
  if type(self) ~= "table" or not self.jobs then return nil end
  return (tostring(self.jobs:name()):gsub("^jobs of ", ""))
end

return namers
