-- What is made from the documentation for other readers: llms.txt and doc.json for models, the addon for editors.

local json = require "runnel.json"
local luacats = require "spec.support.docs.luacats"
local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"

local LUA <const> = os.getenv "LUA" or "lua5.4"

describe("the text for models", function()
  local dir

  setup(function()
    dir = process.directory()
    assert(os.execute(("LUA='%s' '%s' scripts/docs/llms.lua '%s'"):format(LUA, LUA, dir.path)))
  end)

  teardown(function() dir:remove() end)

  local function read(name) return pages.read(dir.path .. "/" .. name) end

  it("links to every page of the manual, and to nothing that is missing #ci", function()
    local text = read "llms.txt"
    assert.same({}, pages.broken_links(dir.path .. "/llms.txt"))
    for _, path in ipairs(pages.of "docs/manual") do
      local is_index = path:find "README%.md$"
      assert.is_truthy(is_index or text:find("(" .. path .. "):", 1, true), path)
    end
    assert.is_truthy(text:find("## What to reach for", 1, true))
    assert.is_truthy(text:find("\n**10. ", 1, true))
  end)

  it("names, as it is called, all that the ten programs of docs/why.md use", function()
    local guide = read "llms.txt":match "\n## Programs that use runnel\n(.-)\n## The manual\n"
    local programs = 0
    for name in pages.read "docs/why.md":gmatch "\n| (%l+) | [^|\n]+ | %d+, %d+, %d+, %d+ |" do
      programs = programs + 1
      local code = pages.read("examples/why/" .. name .. ".lua"):gsub("%-%-[^\n]*", "")
      for used in code:gmatch "%f[%w]%l+%.[%l_]+%f[%W]" do
        local module = used:match "^%l+"
        assert.is_truthy(module ~= "rn" and module ~= "uv" or guide:find(used, 1, true), name .. ": " .. used)
      end
      for method in code:gmatch ":([%l_]+)%(" do
        assert.is_truthy(guide:find(":" .. method .. "(", 1, true), name .. ": " .. method)
      end
    end
    assert.equal(10, programs)
  end)

  it("has all code of the manual as it is, and all names", function()
    local whole = read "llms-full.txt"
    for _, path in ipairs(pages.of "docs/manual") do
      for code in pages.read(path):gmatch "\n```lua\n(.-)\n```" do
        assert.is_truthy(whole:find(code, 1, true), path .. ":\n" .. code)
      end
    end
    assert.is_truthy(whole:find("\nfunction rn.pmap(", 1, true))
  end)

  it("has what :doc shows as JSON", function()
    local found
    for _, entry in ipairs(json.decode(read "doc.json")) do
      if entry.calls[1] and entry.calls[1]:find("rn.retry(", 1, true) == 1 then found = entry end
    end
    local names = {}
    for _, option in ipairs(found.options) do names[#names + 1] = option.name end
    table.sort(names)
    assert.same({ "backoff", "timeout", "tries" }, names)
  end)
end)

describe("the addon for editors", function()
  it("has the types of the sources, without the bodies of functions #ci", function()
    local dir <close> = setmetatable({ folder = process.directory() }, { __close = function(self)
      self.folder:remove()
    end })
    local folder = dir.folder.path
    assert(os.execute(("'%s' scripts/docs/addon.lua '%s'"):format(LUA, folder)))
    local list <close> = assert(io.popen(("find '%s' -name '*.lua' | sort"):format(folder)))
    local paths = {}
    for path in list:lines() do paths[#paths + 1] = path end
    local world = luacats.read(paths)
    assert.same({}, world.problems)
    assert.same({ "runnel.Channel<integer>" }, { luacats.call(world, "runnel", "pmap", "integer",
      "fun(v: string): integer", "runnel.Channel<string>") })
    local retry = pages.read(folder .. "/runnel/rn/retry.lua")
    assert.is_truthy(retry:find("function retry.retry(f, opts, ...) end", 1, true))
    assert.equal("runnel", json.decode(pages.read "packaging/addon/config.json").name)
    assert.same({ "./runnel/library" }, json.decode(pages.read "packaging/addon/emmyrc.json").workspace.library)
  end)
end)
