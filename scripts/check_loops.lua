-- check_loops.lua: reads what luac5.4 lists (luac5.4 -l -l -p FILE...), and prints each assignment to the first
-- variable of a `for` loop. Lua 5.5 refuses these, and no other check that runs with Lua 5.4 finds them.

-- Instructions that do not set the register that they name first.
local SETS_NOTHING = {}
for name in ([[SETTABUP SETTABLE SETI SETFIELD SETUPVAL SETLIST JMP EQ LT LE EQK EQI LTI LEI GTI GEI TEST CALL TAILCALL
  RETURN RETURN0 RETURN1 FORLOOP FORPREP TFORPREP TFORCALL TFORLOOP CLOSE TBC MMBIN MMBINI MMBINK EXTRAARG
  VARARGPREP]]):gmatch "%S+" do
  SETS_NOTHING[name] = true
end

local found = 0

-- The local variable that has the register at an instruction.
local function local_at(list, pc, register)
  for _, one in ipairs(list) do
    if one.from <= pc and pc < one.to then
      if register == 0 then return one end
      register = register - 1
    end
  end
end

local function check(f)
  for _, code in ipairs(f.code) do
    local one = local_at(f.locals, code.pc, code.register)
    if one and one.is_loop then
      found = found + 1
      local text = "%s:%d: assignment to %s, the first variable of a loop: Lua 5.5 refuses it"
      print(text:format(f.path, code.line, one.name))
    end
  end
end

local f, was_state -- the function that is read; whether the last local variable was an internal one of a loop
for line in io.lines() do
  local path = line:match "^%a+ <([^:]+):"
  if path then
    if f then check(f) end
    f, was_state = { path = path, code = {}, locals = {} }, false
  end
  local pc, at, name, register = line:match "^%s+(%d+)%s+%[(%d+)%]%s+(%u%w*)%s+(%d+)"
  if pc and not SETS_NOTHING[name] then
    table.insert(f.code, { pc = tonumber(pc), line = tonumber(at), register = tonumber(register) })
  end
  local variable, from, to = line:match "^%s+%d+%s+(%S.-)%s+(%d+)%s+(%d+)$"
  if variable and not line:find "%[" then
    local is_state = variable == "(for state)"
    table.insert(f.locals, { name = variable, from = tonumber(from), to = tonumber(to),
      is_loop = was_state and not is_state })
    was_state = is_state
  end
end
assert(f, "luac5.4 has listed no function")
check(f)
os.exit(found == 0)
