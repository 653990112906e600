---docs/testing-lua.md, for the specs that run its programs.

local pages = require "spec.support.docs.pages"

local RIGHT = "right in every order\n"

---The programs of the page whose output it shows, each with the files that there are then; and all files. An indented
---block that begins with the name of a file is that file. Behind a second version of a file its test passes.
---@param page string
---@return { test: string, files: table<string, string>, expected: string, is_mended: boolean? }[]
---@return table<string, string> files
return function(page)
  local list, files, block, text, test = {}, {}, nil, nil, nil
  local function copy()
    local all = {}
    for name, code in pairs(files) do all[name] = code end
    return all
  end
  local function finish()
    if not block then return end
    local name, code = block[1]:match "^%-%- (%S+%.lua)$", table.concat(block, "\n") .. "\n"
    if name then
      local mended = files[name]
      files[name], test = code, name:find "_test" and name or test
      if mended then
        local its_test = name:gsub("%.lua$", "_test.lua")
        list[#list + 1] = { test = its_test, files = copy(), expected = RIGHT, is_mended = true }
      end
    end
    block = nil
  end
  for line in pages.read(page):gmatch "([^\n]*)\n" do
    if line == "```text" then
      finish()
      text = {}
    elseif text and line == "```" then
      list[#list + 1] = { test = test, files = copy(), expected = table.concat(text, "\n") .. "\n" }
      text = nil
    elseif text then
      text[#text + 1] = line
    elseif line:find "^    " then
      if line:find "^    %-%- %S+%.lua$" then finish() end
      block = block or {}
      block[#block + 1] = line:sub(5)
    elseif line == "" then
      if block then block[#block + 1] = "" end
    else
      finish()
    end
  end
  return list, files
end
