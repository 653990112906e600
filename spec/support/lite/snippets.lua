---Runs the programs of Markdown pages on runnel.lite or on runnel, unchanged. Run: lua snippets.lua lite|runnel PAGE...
---For each it prints its place, then what it prints, and its error, with which it ends.

local engine = arg[1]
local rn
if engine == "lite" then
  rn = require "runnel.lite"
  package.loaded["runnel"], package.loaded["runnel.sim"] = rn, rn.sim
else
  rn = require "runnel"
  package.loaded["runnel.lite"] = setmetatable({ sim = require "runnel.sim" }, { __index = rn })
end

local function run(path, line, code)
  print(("## %s:%d"):format(path, line))
  local function print_line(...)
    local words = table.pack(...)
    for i = 1, words.n do words[i] = tostring(words[i]) end
    print(table.concat(words, " "))
  end
  local env = setmetatable({ rn = rn, print = print_line }, { __index = _G })
  local f = assert(load(("\n"):rep(line) .. code, "@" .. path, "t", env))
  local previous = rn.on_error(nil)
  rn.on_error(previous)
  local ok, err = pcall(f)
  rn.on_error(previous)
  if not ok then print("error: " .. tostring(err)) end
end

for i = 2, #arg do
  local number, block, first = 0, nil, nil
  for line in io.lines(arg[i]) do
    number = number + 1
    if block and line:find "^```" then
      run(arg[i], first, table.concat(block, "\n"))
      block = nil
    elseif block then
      block[#block + 1] = line
    elseif line == "```lua" then
      block, first = {}, number
    end
  end
end
