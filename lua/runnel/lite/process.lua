---Processes of luv, for Neovim and luv alone: the lines that one writes, as a channel.

local rn = require "runnel.lite"

-- What a pipe gives next: a channel of one value, closed at the end. The pipe is read only when a value is asked for,
-- so that a slow reader slows the process down.
local function next_chunk(pipe)
  local ch = rn.chan(1)
  pipe:read_start(function(err, data)
    pipe:read_stop()
    if data then ch:offer(data) end
    ch:close(err)
  end)
  return ch
end

-- Puts a line unless the channel is closed, also while it waits.
local function put(ch, line)
  local ok, from = rn.alts({ { ch, line }, ch:done() }, { priority = true })
  return ok and from == ch
end

-- Puts the lines of a pipe on a channel until one of the two ends. Returns an error of the pipe.
local function copy_lines(pipe, ch)
  local parts = {} -- of a line that goes on in the next chunk
  while true do
    local data, err = next_chunk(pipe):take()
    if data == nil then
      local rest = table.concat(parts)
      if rest ~= "" then put(ch, rest) end
      return err
    end
    for part, newline in data:gmatch "([^\n]*)(\n?)" do
      parts[#parts + 1] = part
      local is_whole = newline ~= ""
      if is_whole and not put(ch, table.concat(parts)) then return end
      if is_whole then parts = {} end
    end
  end
end

---Makes the function `lines` for a luv. lines(command, opts) runs a command, a list of its words, and returns a channel
---of the lines that it writes to stdout. The channel closes when the process has ended, with an error if its status is
---not 0. Closing the channel kills the process.
---@param uv table
---@return fun(command: string[], opts?: { cwd?: string, env?: string[] }): runnel.Channel<string>
return function(uv)
  return function(command, opts)
    opts = opts or {}
    local words = table.concat(command) .. (opts.cwd or "") .. table.concat(opts.env or {})
    if words:find("\0", 1, true) then error("lines: the command, cwd or env has a zero byte", 2) end
    local ch, ended, pipe, args = rn.chan(), rn.promise_chan(), uv.new_pipe(false), {}
    for i = 2, #command do args[i - 1] = command[i] end
    local options = { args = args, stdio = { nil, pipe, 2 }, cwd = opts.cwd, env = opts.env }
    local process, why
    process, why = uv.spawn(command[1], options, function(status, signal)
      process:close()
      ended:offer(signal > 0 and ("%s: ended by signal %d"):format(command[1], signal)
        or status > 0 and ("%s: status %d"):format(command[1], status))
    end)
    if not process then
      pipe:close()
      ch:close(("%s: %s"):format(command[1], why))
      return ch
    end
    ch:done():take_async(function() if not process:is_closing() then process:kill "sigterm" end end)
    rn.go(function()
      local err = copy_lines(pipe, ch)
      pipe:close()
      local problem = ended:take()
      ch:close(err or problem or nil)
    end)
    return ch
  end
end
