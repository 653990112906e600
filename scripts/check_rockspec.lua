-- lua check_rockspec.lua ROCKSPEC FILE...: checks that the rockspec's modules consist of exactly these files, and that
-- each Lua module has the name by which `require` finds its file.
local rockspec = {}
assert(loadfile(arg[1], "t", rockspec))()

local complaints = {}
local function complain(...) complaints[#complaints + 1] = string.format(...) end

local listed = {}
for name, module in pairs(rockspec.build.modules) do
  for _, file in ipairs(type(module) == "table" and module.sources or { module }) do
    if listed[file] then complain("%s is listed twice", file) end
    listed[file] = true
    if file:find "%.lua$" then
      local right = file:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/init$", ""):gsub("/", ".")
      if name ~= right then complain("%s is listed as %s, not as %s", file, name, right) end
    end
  end
end

for i = 2, #arg do
  if not listed[arg[i]] then complain("%s is not listed", arg[i]) end
  listed[arg[i]] = nil
end
for file in pairs(listed) do complain("%s is listed and does not exist", file) end

table.sort(complaints)
for _, complaint in ipairs(complaints) do io.stderr:write(arg[1], ": ", complaint, "\n") end
os.exit(#complaints == 0)
