---What happens to the file of a store, work.db in a directory of process.directory: for the specs of adversity.

local assert = require "luassert"
local process = require "spec.support.process"

local adversity = {}

---Runs a program in the directory.
---@param dir table
---@param text string
---@param before? string a shell's limits, or another command before the interpreter
---@return { out: string, err: string, status: integer }
function adversity.run(dir, text, before)
  dir:write("program.lua", text)
  return process.run(dir.path, ("%s %s program.lua"):format(before or "", os.getenv "LUA" or "lua5.4"))
end

---Runs a program that calls its function `step` until that raises an error, with a limit for the size of files: as on a
---full disk.
---@param dir table
---@param blocks integer the limit, as for the shell's `ulimit -f`
---@param text string
---@return integer count how many calls have not raised an error
---@return string err the first line of the error
function adversity.fill(dir, blocks, text)
  local full = adversity.run(dir, text .. [[
    local n, ok, err = 0, true, nil
    while true do
      ok, err = pcall(step, n + 1)
      if not ok then break end
      n = n + 1
    end
    print(n, (err:gsub("\n.*", "")))
  ]], ("trap '' XFSZ; ulimit -f %d;"):format(blocks))
  local n, err = full.out:match "^(%d+)\t(.*)\n$"
  assert.is_truthy(n, full.out .. full.err)
  return math.tointeger(tonumber(n)), err
end

---Overwrites pages in the middle of the file.
---@param dir table
---@param pages integer
function adversity.overwrite(dir, pages)
  local file <close> = assert(io.open(dir.path .. "/work.db", "r+b"))
  file:seek("set", file:seek "end" // 2 // 4096 * 4096)
  file:write(("\255"):rep(pages * 4096))
end

return adversity
