---The faults that `make mutants` plants: each changes one line of C, or the order of two. They are made from the
---sources by the operators below, so that they stay valid as the sources change.
---
---A fault is { file, line, where (the function), operator, before, after }: the text of the line (two lines for an
---order) and what takes its place.

local faults = {}

-- Lines with one of these have no faults: assertions, what a trace or a profiler sees, room on a stack, hints for the
-- processor, and lines that run only when memory runs out or a finalizer comes between (scripts/coverage.lua).
local LEFT_OUT = { "assert", "%f[%w]chan_check%(", "OBSERVE%(", "observe_birth", "check_*stack", "PREFETCH", "covered",
  "cppcheck", "%(void%)[%w_]+;", "^%s+enum ", "^%s+static const " }

-- A pattern, and what takes the place of its capture (%1 is what the capture in it has matched).
local OPERATORS = {
  { "comparison", "()==()", "!=" }, { "comparison", "()!=()", "==" },
  { "comparison", " ()<() ", "<=" }, { "comparison", " ()<=() ", "<" },
  { "comparison", " ()>() ", ">=" }, { "comparison", " ()>=() ", ">" },
  { "condition", "()&&()", "||" }, { "condition", "()||()", "&&" },
  { "not", "()!()[%w_(]", "" },
  { "flag", "%f[%w_]()true()%f[^%w_]", "false" }, { "flag", "%f[%w_]()false()%f[^%w_]", "true" },
  { "flag", "%f[%w_]()PUTS()%f[^%w_]", "TAKES" }, { "flag", "%f[%w_]()TAKES()%f[^%w_]", "PUTS" },
  { "flag", "() |() [%u_]+%f[^%w_]", " &" }, { "flag", "() | [%u_]+()%f[^%w_]", "" },
  { "number", "()%+%+()", "--" }, { "number", "()%-%-()", "++" },
  { "number", " [+-] ()1()%f[^%w.]", "0" }, { "number", " ()%+() [%a_]", "-" }, { "number", " ()%-() [%a_]", "+" },
  { "number", " = ()0();", "1" }, { "number", " = ()1();", "0" },
  { "number", "return ()0();", "1" }, { "number", "return ()1();", "0" },
  { "loop", "^%s+()while() %b() ", "if" }, { "loop", "^%s+()while() %b().*{$", "if" },
}

-- The line with spaces in place of what is in comments and strings; and whether a comment goes on.
local function code_of(line, in_comment)
  local out, i = {}, 1
  while i <= #line do
    local two = line:sub(i, i + 1)
    if in_comment then
      if two == "*/" then in_comment, i = false, i + 1 end
      out[#out + 1] = two == "*/" and "  " or " "
      i = i + 1
    elseif two == "/*" then
      in_comment = true
      out[#out + 1] = "  "
      i = i + 2
    elseif line:sub(i, i):find "[\"']" then
      local quote, j = line:sub(i, i), i + 1
      while j <= #line and line:sub(j, j) ~= quote do j = j + (line:sub(j, j) == "\\" and 2 or 1) end
      out[#out + 1] = quote .. (" "):rep(j - i - 1) .. quote
      i = j + 1
    else
      out[#out + 1] = line:sub(i, i)
      i = i + 1
    end
  end
  return table.concat(out), in_comment
end

local function is_call(code) return code:find "^  +[%a_][%w_]*%b();%s*$" ~= nil end

-- Whether a line is one statement that can be forgotten: not a declaration.
local function is_statement(code)
  if is_call(code) then return true end
  if code:find "^  +break;" or code:find "^  +continue;" or code:find "^  +return;" then return true end
  if code:find "^    +return .*;%s*$" or code:find "^  +goto .*;" then return true end
  if code:find "^  +[%a_][%w_.>%[%]%-]* [|&+%-]?= .*;%s*$" or code:find "^  +%*[%a_].* = .*;%s*$" then return true end
  return code:find "^  +[%a_][%w_.>%-%[%]]*[+%-][+%-];%s*$" ~= nil or code:find "^  +%(void%)[%w_]+%b();%s*$" ~= nil
end

-- Calls add(operator, before, after) for each fault of a line.
local function change_line(line, code, add)
  local function replace(operator, from, to, text)
    add(operator, line, line:sub(1, from - 1) .. text .. line:sub(to))
  end
  for _, operator in ipairs(OPERATORS) do
    local at = 1
    while true do
      local first, _, from, to = code:find(operator[2], at)
      if not first then break end
      local is_part = operator[2]:find "[!=]" and code:sub(from - 1, to):find "[<>=!]=[=]"
      if not is_part then replace(operator[1], from, to, operator[3]) end
      at = math.max(to, first + 1)
      if operator[2]:find "^^" then break end
    end
  end
  local before, condition, after = code:match "^(%s+[%a ]-[fe] )(%b())()"
  if condition and (before:find "if $" or before:find "while $") then
    replace("condition", #before + 1, after, "(!" .. line:sub(#before + 1, after - 1) .. ")")
    if before:find "if $" then replace("condition", #before + 1, after, "(true)") end
  end
  local indent = code:match "^%s*"
  if is_statement(code) then add("forgotten", line, indent .. ";") end
  if code:find "^  +if %b() [^{]*;%s*$" then add("forgotten", line, indent .. ";") end
  local otherwise = code:match "^  +}? ?else [^{]*;%s*$"
  if otherwise and not otherwise:find "else if" then add("forgotten", line, otherwise:match "^.-else" .. " ;") end
end

---All faults of a file, in the order of its lines.
---@param path string
---@return table[]
function faults.of(path)
  local list, in_comment, where, in_body, number = {}, false, nil, false, 0
  local last_line, last_code = nil, nil
  for line in io.lines(path) do
    number = number + 1
    local code
    code, in_comment = code_of(line, in_comment)
    local body = in_body and code:find "^ " and code or nil
    if code:find "^[%a_]" and not code:find "^typedef" then
      where = code:match "([%w_]+)%(" or where
      in_body = code:find "%)%s*{%s*$" ~= nil
      local brace = code:find "{ .* }%s*$"
      if brace then body = (" "):rep(brace) .. code:sub(brace + 1) end -- a function of one line
    elseif code:find "^}" then
      in_body = false
    elseif not in_body and where and code:find "%)%s*{%s*$" then
      in_body, body = true, nil
    end
    local is_left_out = not body
    for _, pattern in ipairs(LEFT_OUT) do is_left_out = is_left_out or line:find(pattern) ~= nil end
    if not is_left_out then
      local seen = {}
      local function add(operator, before, after)
        if before == after or seen[after] then return end
        seen[after] = true
        list[#list + 1] = { file = path, line = number, where = where, operator = operator, before = before,
          after = after }
      end
      change_line(line, body, add)
      local is_pair = last_code and is_call(body) and is_call(last_code) and last_code:match "^ *" == body:match "^ *"
      if is_pair and line ~= last_line then
        list[#list + 1] = { file = path, line = number - 1, where = where, operator = "order",
          before = last_line .. "\n" .. line, after = line .. "\n" .. last_line }
      end
    end
    last_line, last_code = line, not is_left_out and body or nil
  end
  local seen = {}
  for _, fault in ipairs(list) do
    local key = faults.key(fault)
    seen[key] = (seen[key] or 0) + 1
    if seen[key] > 1 then fault.copy = seen[key] end
  end
  return list
end

---What stays the same as the sources around it change: the file, the function, and both texts; and a number, if the
---function has the line more than once.
function faults.key(fault)
  local function short(text) return (text:gsub("%s+", " "):gsub("^ ", "")) end
  local key = ("%s %s: %s -> %s"):format(fault.file, fault.where, short(fault.before), short(fault.after))
  return fault.copy and ("%s (%d)"):format(key, fault.copy) or key
end

-- A number for a text, as good as random.
local function hash(text, seed)
  local h = 0xcbf29ce484222325 ~ seed
  for i = 1, #text do h = (h ~ text:byte(i)) * 0x100000001b3 end
  h = (h ~ (h >> 32)) * 0x9e3779b97f4a7c15
  return h ~ (h >> 29)
end

---`count` faults of a list, in its order: a random choice of each seed that depends only on the keys. So as the sources
---change, most of the chosen faults stay chosen, and what was done need not be done again.
---@param list table[]
---@param count integer
---@param seed integer
---@return table[]
function faults.choose(list, count, seed)
  local numbers, ranked, chosen = {}, table.move(list, 1, #list, 1, {}), {}
  for _, fault in ipairs(list) do numbers[fault] = hash(faults.key(fault), seed) end
  table.sort(ranked, function(a, b) return math.ult(numbers[a], numbers[b]) end)
  local is_chosen = {}
  for i = 1, math.min(count, #ranked) do is_chosen[ranked[i]] = true end
  for _, fault in ipairs(list) do if is_chosen[fault] then chosen[#chosen + 1] = fault end end
  return chosen
end

---The text of the file with the fault in it.
function faults.plant(fault)
  local lines, n = {}, 0
  local _, newlines = fault.before:gsub("\n", "")
  for line in io.lines(fault.file) do
    n = n + 1
    if n == fault.line then lines[#lines + 1] = fault.after
    elseif n < fault.line or n > fault.line + newlines then lines[#lines + 1] = line end
  end
  return table.concat(lines, "\n") .. "\n"
end

return faults
