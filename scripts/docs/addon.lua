-- lua scripts/docs/addon.lua FOLDER: writes the library of an addon for lua-language-server: the modules of runnel as
-- definitions, made from their annotations. The bodies of functions are left out, as are the modules that only the
-- executable has. Types in it are checked as those of the sources, which spec/annotations_spec.lua reads.

local folder = assert(arg[1], "a folder expected")

-- Modules that are no part of what programs see.
local WITHOUT <const> = { "^lua/runnel/host/", "^lua/runnel/prompt/" }

local function is_left_out(path)
  for _, pattern in ipairs(WITHOUT) do
    if path:find(pattern) then return true end
  end
  return false
end

-- The file without the bodies of functions at its left margin. What is there besides, the fields that are set and the
-- value that is returned, tells which module has what.
local function definitions(path)
  local lines, in_body = {}, false
  for line in io.lines(path) do
    if in_body then
      in_body = line ~= "end"
      if not in_body then lines[#lines] = lines[#lines] .. " end" end
    else
      lines[#lines + 1] = line
      in_body = line:find "^function [%w_.:]+%(.-%)%s*$" ~= nil or line:find "^local function [%w_]+%(.-%)%s*$" ~= nil
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

local files <close> = assert(io.popen "find lua -name '*.lua' | sort")
for path in files:lines() do
  if not is_left_out(path) then
    local target = folder .. "/" .. path:match "^lua/(.*)$"
    os.execute(("mkdir -p '%s'"):format(target:match "^(.*)/"))
    local text = definitions(path)
    assert(load(text, "@" .. path))
    local file <close> = assert(io.open(target, "w"))
    file:write(text:find "^%-%-%-@meta" and text or "---@meta\n" .. text)
  end
end
