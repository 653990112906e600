---Reduces a program that fails: removes parts as long as it still fails, until nothing more can be removed.

local copy = require "spec.support.copy"

-- Every script of a program, those of callbacks and of inner go blocks included; outer ones first.
local function scripts(made)
  local list = {}
  local function visit(script)
    list[#list + 1] = script
    for _, op in ipairs(script) do
      if op.script then visit(op.script) end
      for _, child in ipairs(op.children or {}) do visit(child) end
    end
  end
  for _, block in ipairs(made.blocks) do visit(block.script) end
  return list
end

local function keep(list, wanted)
  local n = 0
  for i = 1, #list do
    local element = list[i]
    list[i] = nil
    if wanted(element) then
      n = n + 1
      list[n] = element
    end
  end
end

-- Removes operations that refer to a channel or go block that was removed.
local function tidy(made)
  local known = { timeout = true }
  for name in pairs(made.channels) do known[name] = true end
  for _, block in ipairs(made.blocks) do known[block.name] = true end
  local function is_known(op) return not op.ch or known[(op.ch:gsub(":done$", ""))] end
  for _, script in ipairs(scripts(made)) do
    keep(script, function(op)
      if op.ops then
        keep(op.ops, is_known)
        return #op.ops > 0
      end
      return is_known(op)
    end)
  end
  return made
end

-- The fields that can be simplified, and the simpler values; the first value that applies and differs is used.
local SIMPLER = {
  default = {}, nowait = {}, priority = { true }, queued = {}, raises = {}, reason = {}, ms = { 10 },
}

-- Yields every program that is smaller by one step, the largest steps first.
local function each_smaller(made)
  return coroutine.wrap(function()
    -- Each edit is made on a copy, in which the numbers of scripts and operations lead to the place.
    local function try(edit)
      local smaller = copy(made)
      edit(smaller)
      coroutine.yield(tidy(smaller))
    end
    for i = #made.blocks, 1, -1 do
      if #made.blocks > 1 then try(function(m) table.remove(m.blocks, i) end) end
    end
    for s, script in ipairs(scripts(made)) do
      local size = #script
      while size >= 1 do
        for from = 1, #script, size do
          try(function(m)
            local list = scripts(m)[s]
            for i = math.min(from + size - 1, #list), from, -1 do table.remove(list, i) end
          end)
        end
        size = size // 2
      end
    end
    for s, script in ipairs(scripts(made)) do
      for i, op in ipairs(script) do
        for j = 1, op.ops and #op.ops > 1 and #op.ops or 0 do
          try(function(m) table.remove(scripts(m)[s][i].ops, j) end)
        end
        for field, simple in pairs(SIMPLER) do
          if op[field] ~= nil and op[field] ~= simple[1] then
            try(function(m) scripts(m)[s][i][field] = simple[1] end)
          end
        end
      end
      for _, field in ipairs { "raises", "returns", "catches" } do
        if script[field] then try(function(m) scripts(m)[s][field] = nil end) end
      end
    end
    for name, ch in pairs(made.channels) do
      try(function(m) m.channels[name] = nil end)
      try(function(m) m.channels[name].handler = nil end)
      try(function(m) m.channels[name].handler, m.channels[name].xf = nil, nil end)
      if ch.kind ~= "none" and not ch.xf then try(function(m) m.channels[name].kind = "none" end) end
      if ch.kind ~= "none" then try(function(m) m.channels[name].kind = "fixed" end) end
      if ch.kind ~= "promise" and ch.limit > 1 then try(function(m) m.channels[name].limit = 1 end) end
    end
    if made.collector ~= "usual" then try(function(m) m.collector = "usual" end) end
  end)
end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for key, value in pairs(a) do
    if not same(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

---Makes a program smaller.
---@param made table one that fails
---@param fails fun(made: table): boolean whether one still does
---@return table smaller
return function(made, fails)
  local function step()
    for smaller in each_smaller(made) do
      if not same(smaller, made) and fails(smaller) then return smaller end
    end
  end
  local smaller = step()
  while smaller do
    made = smaller
    smaller = step()
  end
  return made
end
