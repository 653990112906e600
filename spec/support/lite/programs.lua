---The real programs in which runnel.lite runs, for its specs: Neovim, nginx, LÖVE and others.

local patience = require "spec.support.patience"
local process = require "spec.support.process"

local programs = {}

local ROOT = io.popen("pwd"):read "l"

---The path of Lua's modules of this tree, for LUA_PATH and the like.
programs.path = ROOT .. "/lua/?.lua"
programs.root = ROOT

---@param command string
---@return boolean
function programs.has(command) return os.execute(("command -v %s >/dev/null"):format(command)) == true end

---`it` if these programs are installed; otherwise `pending`, whose title says which is missing.
---@param busted { it: function, pending: function }
---@param ... string names of commands, or paths of files
function programs.it(busted, ...)
  for _, name in ipairs { ... } do
    if not programs.has(name) and not (name:find "^/" and io.open(name)) then
      return function(title) busted.pending(title .. ": " .. name .. " is not installed") end
    end
  end
  return busted.it
end

---Runs a shell command in a directory, with this tree's modules and the directory's. Fails if it fails.
---@param dir { path: string }
---@param command string
---@return string output
function programs.run(dir, command)
  local prefix = ("export LUA_PATH='%s/?.lua;%s;;' HOME='%s'\n"):format(dir.path, programs.path, dir.path)
  local result = process.run(dir.path, prefix .. command)
  if result.status ~= 0 then error(("status %d\n%s%s"):format(result.status, result.out, result.err), 2) end
  return result.out
end

---Runs a Lua file in Neovim without a terminal. It prints by `say`, and Neovim ends when `main`, a go block, has ended.
---@param dir { path: string, write: function }
---@param code string
---@return string output
function programs.nvim(dir, code)
  dir:write("spec.lua", code)
  dir:write("main.lua", [[
    function say(...)
      local words = {}
      for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
      io.stdout:write(table.concat(words, " "), "\n")
    end
    local ok, err = xpcall(function()
      local nvim = require "runnel.lite.nvim"
      local f = assert(loadfile "spec.lua")
      nvim.rn.run(f, nvim, nvim.rn)
    end, debug.traceback)
    if not ok then say(err) end
    vim.cmd(ok and "qa!" or "cq!")
  ]])
  return programs.run(dir, "exec nvim --headless -u NONE -i NONE -n +'luafile main.lua'")
end

return programs
