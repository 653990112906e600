---Asserts on errors: their messages, which must begin with the spec's line that made the mistake.

---@param pattern string a Lua pattern for the message behind its position
---@param f function the mistake: its error must name a line within it
---@return string message
local function raises(pattern, f, ...)
  local ok, message = pcall(f, ...)
  if ok then error(("no error was raised; expected one like %q"):format(pattern), 2) end
  if type(message) ~= "string" then error("the error is not a string but " .. tostring(message), 2) end
  local info = debug.getinfo(f, "S")
  local source, line, text = message:match("^(.-):(%d+): (.*)$")
  line = tonumber(line)
  if source ~= info.short_src or line < info.linedefined or line > info.lastlinedefined then
    local expected = ("%s:%d"):format(info.short_src, info.linedefined)
    error(("the error does not begin with the caller's line (%s): %s"):format(expected, message), 2)
  end
  if not text:find(pattern) then error(("the error is not like %q: %s"):format(pattern, message), 2) end
  return message
end

return raises
