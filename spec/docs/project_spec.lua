-- What the project shows to the outside: its addresses are in one file, and its pages and their links exist.

local pages = require "spec.support.docs.pages"

local LUA <const> = os.getenv "LUA" or "lua5.4"

-- The output of a command, and whether it has succeeded.
local function run(command)
  local pipe = assert(io.popen(command .. " 2>&1"))
  local text = pipe:read "a"
  return text, pipe:close() == true
end

local function lines_of(command)
  local list = {}
  for line in run(command):gmatch "[^\n]+" do list[#list + 1] = line end
  return list
end

describe("the files of the project", function()
  it("with its addresses are those that make project writes", function()
    local text, ok = run(("'%s' scripts/project.lua --check"):format(LUA))
    assert.is_true(ok, text)
  end)

  it("have its addresses from packaging/project only, and a release sees each placeholder", function()
    local text, ok = run(("'%s' scripts/project.lua --placeholders"):format(LUA))
    local left = {}
    for name, value in pages.read "packaging/project":gmatch "\n([%u_]+)=([^\n]+)" do
      if value:find("example.invalid", 1, true) then left[#left + 1] = name end
    end
    assert.equal(#left == 0, ok)
    for _, name in ipairs(left) do assert.is_truthy(text:find("\n  " .. name .. "=", 1, true), text) end
    local known = { ["packaging/project"] = true, ["scripts/project.lua"] = true,
      ["spec/docs/project_spec.lua"] = true }
    for _, target in ipairs(lines_of(("'%s' scripts/project.lua --list"):format(LUA))) do known[target] = true end
    for _, path in ipairs(lines_of "grep -rlF example.invalid . --exclude-dir=build --exclude-dir=.git") do
      assert.is_true(known[path:gsub("^%./", "")], path .. " has an address that packaging/project does not set")
    end
  end)

  for _, path in ipairs { "SECURITY.md", "docs/threats.md", "docs/support.md", "docs/porting.md" } do
    it("link only to what exists: " .. path, function() assert.same({}, pages.broken_links(path)) end)
  end

  it("name only files and folders that exist: docs/porting.md", function()
    local count = 0
    for code in pages.read "docs/porting.md":gmatch "`([%w_]+/[%w_/.*]+)`" do
      if code:find "^csrc/" or code:find "^lua/runnel" or code:find "^scripts/" then
        count = count + 1
        assert.is_true(select(2, run("ls " .. code)), code)
      end
    end
    assert.is_true(count > 20, count)
  end)

  it("name each file that is written for one system: docs/porting.md", function()
    local text, missing = pages.read "docs/porting.md", {}
    -- A file that only asks the headers for more names is not written for a system.
    local command = [[grep -rlE '^ *#(ifdef (__linux__|O_PATH)|if.*(__APPLE__|__GLIBC__|defined\(__linux__\)))' ]]
      .. "csrc --include='*.[ch]'"
    for _, path in ipairs(lines_of(command)) do
      local is_special = false
      for line in io.lines(path) do
        is_special = is_special or line:find "__APPLE__" or line:find "__GLIBC__" or line:find "O_PATH$"
          or line:find "__linux__" and not line:find "_SOURCE%)$"
      end
      local folder, name = path:match "^(.*)/([^/]*)%.[ch]$"
      local is_named = text:find(name .. ".", 1, true) or text:find(folder .. "/*.c", 1, true)
      if is_special and not is_named then missing[#missing + 1] = path end
    end
    assert.same({}, missing)
  end)
end)
