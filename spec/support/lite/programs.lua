---The real programs in which runnel.lite runs, for its specs: Neovim, nginx, LÖVE and others.

local free_port = require "spec.support.free_port"
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

---Runs Lua code in Neovim without a terminal, at its top. An error of it, or the code itself, ends Neovim.
---@param dir { path: string, write: function }
---@param code string
---@return string output
function programs.nvim_top(dir, code)
  dir:write("top.lua", code)
  dir:write("main.lua", [[
    local ok, err = xpcall(assert(loadfile "top.lua"), debug.traceback)
    if not ok then
      io.stdout:write(err, "\n")
      vim.cmd "cq!"
    end
  ]])
  return programs.run(dir, "exec nvim --headless -u NONE -i NONE -n +'luafile main.lua'")
end

---Runs Lua code in a go block of Neovim without a terminal. It prints by `say`, and Neovim ends when `main`, a go block, has ended.
---@param dir { path: string, write: function }
---@param code string
---@return string output
function programs.nvim(dir, code)
  dir:write("spec.lua", code)
  return programs.nvim_top(dir, [[
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
end

programs.nginx_modules = "/usr/lib/nginx/modules/"

local NGINX = [[
load_module MODULES/ndk_http_module.so;
load_module MODULES/ngx_http_lua_module.so;
worker_processes 1;
daemon off;
master_process off;
pid nginx.pid;
error_log error.log warn;
events { worker_connections 128; }
http {
  access_log off;
  client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
  lua_package_path "DIR/?.lua;PATH;/usr/share/lua/5.1/?.lua;;";
  lua_socket_log_errors off;
  server {
    listen 127.0.0.1:PORT;
    location = /ping { return 204; }
    SERVER
  }
}
]]

---Starts nginx with lua-nginx-module in a directory.
---@param dir { path: string, write: function, read: function }
---@param server string what is in the block `server` of its configuration
---@return { port: integer, get: fun(self, path: string, seconds?: number): string, stop: fun(self) }
function programs.nginx(dir, server)
  local nginx = { port = free_port() }
  local values = { MODULES = programs.nginx_modules, DIR = dir.path, PATH = programs.path, PORT = nginx.port,
    SERVER = server }
  dir:write("nginx.conf", (NGINX:gsub("%u%u+", values)))
  dir:write("error.log", "")
  local command = "cd '%s' && mkdir -p tmp && { nginx -p . -c nginx.conf >out 2>&1 & echo $! >pid; }"
  assert(os.execute(command:format(dir.path)))

  -- The answer to a request, with its status if that is not 200. The client goes after `seconds`.
  function nginx:get(path, seconds)
    local curl = "curl -s -w '%%{http_code}' --max-time %s 'http://127.0.0.1:%d%s'"
    local result = process.run(dir.path, curl:format(seconds or patience.seconds(20), self.port, path))
    local text, status = result.out:match "^(.*)(%d%d%d)$"
    return status == "200" and text or status .. " " .. text
  end

  function nginx:stop()
    os.execute(("kill $(cat '%s/pid') 2>/dev/null"):format(dir.path))
    local log = dir:read "error.log"
    if log ~= "" then error("nginx: " .. log, 2) end
  end

  patience.wait_for(function()
    local is_alive = os.execute(("kill -0 $(cat '%s/pid') 2>/dev/null"):format(dir.path))
    if not is_alive then error(dir:read "out" .. dir:read "error.log") end
    return nginx:get("/ping", 5) == "204 "
  end)
  return nginx
end

return programs
