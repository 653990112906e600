---The live prompt: reads a line, runs it on the main thread, prints the values of expressions; go blocks, timers and
---I/O go on meanwhile (terminal.read and terminal.run see to that).

local terminal = require "runnel.host.terminal"
local complete = require "runnel.host.complete"
local history = require "runnel.host.history"
local pretty = require "runnel.host.pretty"
local commands = require "runnel.host.commands"

local HUGE = 16384 -- bytes from which on input is compiled only when there is a pause in it

-- What `text` is: a function, or nil and what is wrong; "incomplete" when more lines might make it right.
local function compile(text)
  local f = load("return " .. text, "=stdin", "t")
  if f then return f end
  local err
  f, err = load(text, "=stdin", "t")
  if f then return f end
  ---@cast err string
  return nil, err:find "<eof>$" and "incomplete" or err
end

-- Reads until what was read is a chunk, or cannot become one. Returns it; or nil and a message; or false at the end.
local function read_chunk()
  local line = terminal.read "> "
  if not line then return line == false and nil end
  terminal.remember(line)
  history.add(line)
  if line:find "^%s*$" then return nil end
  if line:find "^%s*:%f[%a]" then
    commands.run(line)
    return nil
  end
  if line:find "^=" then line = "return " .. line:sub(2) end -- as in older versions of Lua
  local lines, size = { line }, #line
  while true do
    if size < HUGE or not terminal.more() then
      local chunk, err = compile(table.concat(lines, "\n"))
      if err ~= "incomplete" then return chunk, err end
    end
    line = terminal.read ">> "
    if line == false then return nil end
    if not line then return nil, "the input has ended in the middle of a statement" end
    terminal.remember(line)
    history.add(line)
    lines[#lines + 1] = line
    size = size + #line + 1
  end
end

local function show(ok, ...)
  if not ok then
    io.stderr:write(commands.without_host((...)), "\n")
  elseif select("#", ...) > 0 then
    print(pretty.values(...))
  end
end

---@param program string the executable's name
return function(program)
  local runnel = require "runnel"
  for _ in pairs(runnel) do end -- loads all of it, so that Tab finds it
  rn = runnel -- luacheck: ignore 111
  terminal.edit(program, complete)
  for _, line in ipairs(history.load()) do terminal.remember(line) end
  while true do
    local chunk, err = read_chunk()
    if chunk == false then return end
    if chunk then show(terminal.run(chunk)) end
    if err then io.stderr:write(err, "\n") end
  end
end
