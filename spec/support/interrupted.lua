---Ctrl-C at any moment: an error that Lua raises in a hook.

local interrupted = {}

---Calls a function again and again: Ctrl-C comes at the first call that it makes, then at its second, and so on, until
---it ends before Ctrl-C comes.
---@param reason string the error that Ctrl-C raises
---@param f function
---@param check fun(ok: boolean, result: any) gets the first two results of pcall, each time
---@return integer n how often the function was called
function interrupted.each(reason, f, check)
  local n = 0
  local left -- calls until Ctrl-C comes; nil: it does not come, though coroutines that f has made keep the hook
  local function hook()
    left = left and left - 1
    if left == 0 then
      left = nil
      error(reason, 0)
    end
  end
  local function call()
    debug.sethook(hook, "c")
    return f()
  end
  repeat
    n = n + 1
    left = n
    local ok, result = pcall(call)
    local is_late = left ~= nil
    left = nil
    debug.sethook()
    check(ok, result)
  until is_late
  return n
end

return interrupted
