---runnel.lite in Neovim: go blocks run in its main loop, where its API may be called. Each function returns
---a channel, and may be called outside go blocks.
---
---    local nvim = require "runnel.lite.nvim"
---    local rn = nvim.rn

local vim = vim -- luacheck: ignore 113
local uv, rn = vim.uv or vim.loop, require "runnel.lite"

local timer = uv.new_timer()

rn.host {
  now = function() return uv.hrtime() / 1e6 end,
  schedule = vim.schedule,
  after = function(ms, f) timer:start(math.ceil(ms), 0, vim.schedule_wrap(f)) end,
  turn = function(ms, is_ready)
    return select(2, vim.wait(ms and math.ceil(ms) or 1e9, is_ready)) ~= -2 -- Ctrl-C
  end,
  can_wait = function() return not vim.in_fast_event() end, -- a callback of vim.uv
}

local function report(err, trace, where)
  -- An object's __tostring may raise.
  local text = ("runnel: error in %s: %s\n%s"):format(where, tostring(select(2, pcall(tostring, err))), trace or "")
  vim.schedule(function() vim.notify(text, vim.log.levels.ERROR) end)
end
rn.on_error(rn.on_error(report) or report) -- the program's own comes first

local M = { rn = rn }

local function call(is_error_first, f, ...)
  local ch, args, n = rn.chan(1), { ... }, select("#", ...)
  args[n + 1] = function(value, err)
    if is_error_first then value, err = err, value end
    if value ~= nil then ch:offer(value) end
    ch:close(value == nil and err or nil)
  end
  f(unpack(args, 1, n + 1)) -- luacheck: ignore 113 143
  return ch
end

---Calls f(..., callback). The channel gives the first argument of the callback, and closes; if that is nil, it closes
---with the second one as its error, if there is one.
---@param f function
---@return runnel.Channel<any>
function M.callback(f, ...) return call(false, f, ...) end

---The same for a callback that gets the error first, as those of vim.uv and of language servers.
---@param f function
---@return runnel.Channel<any>
function M.error_first(f, ...) return call(true, f, ...) end

---vim.ui.input: the text; closed without one if the user cancels.
---@param opts? table
---@return runnel.Channel<string>
function M.input(opts) return M.callback(vim.ui.input, opts or {}) end

---vim.ui.select: the item; closed without one if the user cancels.
---@param items any[]
---@param opts? table
---@return runnel.Channel<any>
function M.select(items, opts) return M.callback(function(f) vim.ui.select(items, opts or {}, f) end) end

---The lines of a command: see runnel.lite.process. Closing the channel kills it.
---@type fun(command: string[], opts?: { cwd?: string, env?: string[] }): runnel.Channel<string>
M.lines = require "runnel.lite.process"(uv)

---vim.system (Neovim 0.10): the table with code, signal, stdout and stderr. Closing the channel kills the process.
---@param command string[]
---@param opts? table
---@return runnel.Channel<table>
function M.system(command, opts)
  if not vim.system then error("nvim.system: this Neovim has no vim.system (it came with 0.10); use nvim.lines", 2) end
  local ch = rn.chan(1)
  local process = vim.system(command, opts or {}, function(result)
    ch:offer(result)
    ch:close()
  end)
  ch:done():take_async(function() if not process:is_closing() then process:kill "sigterm" end end)
  return ch
end

---Events of nvim_create_autocmd: the tables that its callback gets. opts: what to watch, as { buffer = 0 }. Closing the
---channel ends it. By default it keeps the newest event only.
---@param names string|string[]
---@param opts? table
---@param ch? runnel.Channel<any>
---@return runnel.Channel<table>
function M.events(names, opts, ch)
  ch = ch or rn.chan(rn.sliding_buffer(1))
  local id = vim.api.nvim_create_autocmd(names, vim.tbl_extend("force", opts or {}, {
    callback = function(event) return ch:offer(event) == false end, -- true deletes it
  }))
  ch:done():take_async(function() pcall(vim.api.nvim_del_autocmd, id) end)
  return ch
end

---Changes of a buffer: { first, last, new_last } of nvim_buf_attach's on_lines; a reload (:edit!) changes all lines.
---Closes with the buffer; closing it ends it. By default it keeps the newest change only.
---@param buffer integer
---@param ch? runnel.Channel<any>
---@return runnel.Channel<integer[]>
function M.changes(buffer, ch)
  if buffer == 0 then buffer = vim.api.nvim_get_current_buf() end
  if not vim.api.nvim_buf_is_loaded(buffer) then
    error(("changes: no buffer %d is loaded; for a file that is not shown, call vim.fn.bufload"):format(buffer), 2)
  end
  ch = ch or rn.chan(rn.sliding_buffer(1))
  local n
  local function attach()
    n = vim.api.nvim_buf_line_count(buffer)
    vim.api.nvim_buf_attach(buffer, false, {
      on_lines = function(_, _, _, first, last, new_last)
        n = n + new_last - last
        return ch:offer { first, last, new_last } == false
      end,
      -- Neovim detaches for a reload, too.
      on_detach = vim.schedule_wrap(function()
        if ch:closed() then return end
        if not vim.api.nvim_buf_is_loaded(buffer) then return ch:close() end
        local before = n
        attach()
        ch:offer { 0, before, n }
      end),
    })
  end
  attach()
  return ch
end

return M
