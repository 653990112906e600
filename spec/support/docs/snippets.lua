---Runs the Lua code in Markdown files, so that the documentation stays correct.
---
---A snippet is the text between ```lua and ```. It must run without an error and print, line by line, the text of its
---comments that begin with an arrow (`-->`), or of a block ```text that follows at once. Snippets may use `rn`, and
---share nothing else. A blank in the expected text stands for a tab that print writes.

local rn = require "runnel"

local snippets = {}

---The snippets of a file.
---@param path string
---@return { name: string, path: string, line: integer, code: string, expected: string[] }[]
function snippets.of(path)
  local list, block, snippet, number = {}, nil, nil, 0
  for line in io.lines(path) do
    number = number + 1
    local fence = line:match "^```(%a*)"
    if not fence then
      if block then
        block[#block + 1] = line
      elseif line ~= "" then
        snippet = nil
      end
    elseif block then
      if block.kind == "lua" then
        snippet = {
          name = ("line %d of %s"):format(block.line, path), path = path, line = block.line,
          code = table.concat(block, "\n"), expected = {},
        }
        for expected in snippet.code:gmatch "%-%->%s?([^\n]*)" do table.insert(snippet.expected, expected) end
        list[#list + 1] = snippet
      elseif block.kind == "text" and snippet then
        snippet.expected, snippet = table.move(block, 1, #block, 1, {}), nil
      end
      block = nil
    else
      block = { kind = fence, line = number }
    end
  end
  return list
end

-- Whether the code loads a module that sets luv's driver.
local function sets_driver(code)
  return code:find('require "runnel.uv"', 1, true) or code:find("http.files", 1, true)
    or code:find("http.websocket", 1, true) or code:find("part:save", 1, true) or code:find("http.download", 1, true)
end

local has_luv = pcall(require, "luv")

---Whether what a snippet needs is installed.
---@param snippet { code: string }
---@return boolean
function snippets.can_run(snippet)
  return has_luv or not (sets_driver(snippet.code) or snippet.code:find('require "luv"', 1, true))
end

---Runs a snippet; an error in it is raised.
---@param snippet { path: string, line: integer, code: string }
---@param code? string in place of its code
---@return string[] lines what it printed
function snippets.run(snippet, code)
  code = code or snippet.code
  local lines = {}
  local function print_line(...)
    local words = table.pack(...)
    for i = 1, words.n do words[i] = tostring(words[i]) end
    for line in (table.concat(words, " ") .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  end
  local env = setmetatable({ rn = rn, print = print_line }, { __index = _G })
  -- Blank lines before the code, so that errors have the line numbers of the file.
  local chunk = assert(load(("\n"):rep(snippet.line) .. code, "@" .. snippet.path, "t", env))
  local handler, driver = rn.on_error(nil), rn.driver(nil) -- before a snippet that asks for them
  rn.on_error(handler)
  rn.driver(driver)
  -- runnel.uv, http.files, http.websocket and part:save set their driver only once, when they are loaded.
  if package.loaded["runnel.uv.loop"] and sets_driver(code) then
    rn.driver(require "runnel.driver.luv")
  end
  local ok, err = xpcall(chunk, debug.traceback)
  rn.on_error(handler)
  rn.driver(driver)
  if not ok then error(err, 0) end
  return lines
end

return snippets
