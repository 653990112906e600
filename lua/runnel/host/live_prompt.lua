---The live prompt: reads a chunk, runs it on the main thread, and prints the values of an expression. terminal.read and
---terminal.run let go blocks, timers and I/O run meanwhile.

local commands = require "runnel.prompt.commands"
local complete = require "runnel.prompt.complete"
local describe = require "runnel.prompt.describe"
local hint = require "runnel.prompt.hint"
local history = require "runnel.host.history"
local indent = require "runnel.prompt.indent"
local living = require "runnel.internal.living"
local lexer = require "runnel.prompt.lexer"
local recorder = require("runnel.core").internal.trace
local pretty = require "runnel.prompt.pretty"
local session = require "runnel.prompt.session"
local terminal = require "runnel.host.terminal"
local width = require "runnel.internal.width"

local KEYS = "Tab completes names, Up goes to the line above and brings back chunks, Ctrl-R searches them; Alt-Enter "
  .. "begins a new line; Ctrl-C ends what is running or drops the line, Ctrl-D ends the session."

local EDITED = 16384 -- bytes of earlier lines that can be edited together with a further one

-- Removes the host's own functions from the end of the traceback in a message. The last function that remains is the
-- chunk.
local function without_host(message)
  message = message:gsub("\n\t%[C%]: in [^\n]*run'\n\trunnel/host/live_prompt%.lua:.*", "")
  return (message:gsub("(\n\t%[%d+%]:%d+: in )function <%[%d+%]:1>$", "%1main chunk"))
end

-- Reads chunks and runs them until the session ends.
---@class runnel.host.Prompt
---@field session runnel.prompt.Session
---@field ui runnel.prompt.Interface
---@field commands runnel.prompt.Commands
---@field held string the lines read so far of an incomplete chunk
---@field reads integer how many lines were read
local Prompt = {}
Prompt.__index = Prompt

-- Captured here in case the program replaces these globals.
local error_text, pcall, stderr = require("runnel.core").internal.error_text, pcall, io.stderr
local globals, rawget, rawset = _G, rawget, rawset

local RED, GREY, NONE = "\27[31m", "\27[90m", "\27[0m"
local _, errors_in_colour = terminal.colours()

-- Writes an error: its message in red, the traceback in grey.
local function complain(message, note)
  if not errors_in_colour then return stderr:write(message, note and "\n" .. note or "", "\n") end
  local said, traceback = message:match "^(.-)(\nstack traceback:\n.*)$"
  stderr:write(RED, said or message, NONE, traceback and GREY .. traceback .. NONE or "", note and "\n" .. note or "",
    "\n")
end

-- Prints by the program's own `print`, as lua5.4 does.
local function show(text)
  local ok, err = pcall(print, text)
  if not ok then complain(("error calling 'print' (%s)"):format(error_text(err))) end
end

-- The program's prompt, as for lua5.4, or the default. A line without control characters.
local function prompt_text(own, default)
  if own == nil then return default end
  local ok, text = terminal.run(tostring, own)
  if not ok then return default end
  return (text:gsub("\27%[[%d;]*%a", ""):gsub("%c", " "))
end

-- The interface of the prompt for its commands.
local function interface(own_session)
  local columns = select(2, terminal.size())
  local style = pretty.style(columns, terminal.colours())
  return {
    session = own_session, style = style, keys = KEYS, print = show, complain = function(text) complain(text) end,
    size = terminal.size, key = terminal.key, trace = recorder.tap, files = terminal.files,
    call = function(f)
      local results = table.pack(terminal.run(f))
      if not results[1] then return false, without_host(results[2]) end
      return table.unpack(results, 1, results.n)
    end,
    paint = function(lines)
      if lines then terminal.paint(table.concat(lines, "\n") .. "\n", #lines) else terminal.paint("", 0, true) end
    end,
    channels = function()
      collectgarbage() -- unreachable channels are not listed
      return recorder.chans()
    end,
  }
end

-- Prints the values that a chunk returned, or its error. Returns whether it raised.
function Prompt:show(chunk, ok, ...)
  if not ok then
    complain(without_host((...)), hint.of_error(self.session, (...)))
    return true
  end
  local n = select("#", ...)
  if n == 0 then return false end
  if chunk.has_value then self.session:keep((...)) end
  local style = self.ui.style
  style.width = select(2, terminal.size())
  if n == 1 and type((...)) == "function" then
    show(describe.func(self.session, (...), chunk.text, style.width))
  else
    show(pretty.values(style, ...))
  end
  local question = n == 1 and (...) == nil and hint.of_chunk(self.session, chunk.text)
  if question then show(question) end
  return false
end

---@param chunk runnel.prompt.Chunk
function Prompt:run(chunk)
  local entry = self.session:note(chunk)
  local run = chunk.run
  chunk.run = nil -- the function and its references can be collected after the run
  local results = table.pack(terminal.run(run))
  -- Ctrl-C must end what the program does meanwhile, too, as in __tostring or a print of its own.
  local ok, failed = terminal.run(function() return self:show(chunk, table.unpack(results, 1, results.n)) end)
  if not ok then complain(without_host(failed)) end
  entry.failed = ok and failed or nil
end

-- Runs the chunks of a text.
function Prompt:run_all(texts)
  for _, text in ipairs(texts) do
    local chunk, err = self.session:compile(text)
    if not chunk then return complain(err) end
    self:run(chunk)
  end
end

-- Runs the commands at the beginning of a text. Returns the rest of the text, or nil if nothing is left; and whether
-- the session ends.
function Prompt:run_commands(text)
  while text do
    local first, rest = text:match "^([^\n]*)\n?(.*)$"
    if first:find "%S" then
      local is_command, ends = self.commands:run(first)
      if not is_command then return text end
      if ends then return nil, true end
    end
    text = rest ~= "" and rest or nil
  end
end

-- Reads commands or a chunk, and runs them; returns whether the session ends.
function Prompt:turn()
  local default = self.session:name() .. "> "
  local own, own_continued = rawget(globals, "_PROMPT"), rawget(globals, "_PROMPT2")
  local prompt, continued = prompt_text(own, default), prompt_text(own_continued, (" "):rep(#default - 3) .. ">> ")
  local read = self.session:reader()
  local before, after
  self.held = ""
  while true do
    local is_first, has_earlier = self.held == "", self.held ~= "" and #self.held <= EDITED
    local text, wants_earlier = terminal.read(is_first and prompt or continued, continued, before, after, has_earlier)
    before, after = nil, nil
    self.reads = self.reads + 1
    if wants_earlier then
      before, after = self.held:sub(1, -2), "\n" .. text
      self.held, read = "", self.session:reader()
      goto again
    end
    if not text then
      if text == nil and self.held ~= "" then complain "the input has ended in the middle of a statement" end
      return text == nil -- otherwise it was Ctrl-C
    end
    local typed = self.held .. text
    local ends
    if self.held == "" then
      text, ends = self:run_commands(text)
      if not text then
        history.add(typed)
        return ends
      end
    end
    local texts, err = read(text, terminal.more())
    if err ~= "incomplete" then
      history.add(typed)
      if texts then self:run_all(texts) else complain(err) end
      return false
    end
    self.held = typed .. "\n"
    ::again::
  end
end

local CONTEXT = 2000 -- bytes of earlier lines that are read again with each key

-- What the editor asks while the user types; see editor.h.
---@param self runnel.host.Prompt
local function handlers(self)
  -- The lines before the edited ones that belong to the chunk.
  local function before() return #self.held <= CONTEXT and self.held or "" end
  return {
    complete = function(text)
      local inserted, shown = complete(self.ui, text, self.held)
      return inserted, shown and width.list(shown, (select(2, terminal.size())))
    end,
    enter = function(all, text)
      if self.held == "" and self.commands:is_command(all:match "^[^\n]*") then return nil end
      local _, err = self.session:split(self.held .. all)
      if err ~= "incomplete" then return nil end
      return "\n" .. (" "):rep(indent.after(before() .. text))
    end,
    closing = function(text) return indent.closing(before() .. text) end,
    classes = function(text)
      local held = before()
      local command = held == "" and text:match "^%s*:[%a%-]*"
      if command and self.commands:is_command(text:match "^[^\n]*") then
        return ("C"):rep(#command) .. lexer.classes(text:sub(#command + 1))
      end
      return lexer.classes(held .. text):sub(#held + 1)
    end,
  }
end

---@param program string the executable's name
return function(program)
  local runnel = require "runnel"
  for _ in pairs(runnel) do end -- loads all of it, so that Tab finds it
  rawset(globals, "rn", runnel)
  local own = session.new()
  local ui = interface(own)
  local self = setmetatable({ session = own, ui = ui, commands = commands.new(ui), held = "", reads = 0 }, Prompt)
  local edits = terminal.edit(program, handlers(self))
  if errors_in_colour then -- reports of errors in go blocks, too, unless the program has set a handler
    local before = runnel.on_error(function(err, traceback, where)
      local said = error_text(err)
      complain(("runnel: error in %s: %s%s"):format(where, said, traceback and "\n" .. traceback or ""),
        hint.of_error(own, said))
    end)
    if before then runnel.on_error(before) end
  end
  terminal.describe(function(err) return pretty.value(err, ui.style) end)
  if edits then show ":help lists the commands; Ctrl-D ends the session." end
  for _, text in ipairs(history.load(complain)) do terminal.remember(text) end
  living.prompt = true
  -- The program's changes to globals may break the prompt itself: it says so, and continues as long as it can read, so
  -- that the user can repair the program.
  repeat
    local before = self.reads
    local ok, ends = pcall(self.turn, self)
    if not ok then
      complain(error_text(ends))
      ends = self.reads == before
    end
  until ends
  local left
  repeat -- again after Ctrl-C, for the variables that are left
    left = #own.locals.closing
    local ok, err = terminal.run(own.locals.close, own.locals, complain)
    if not ok then complain(without_host(err)) end
  until ok or #own.locals.closing == left
end
