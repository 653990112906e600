---Which programs `make prove` runs: everything of some shapes, up to the order of the go blocks, in units of work; and
---samples of larger ones.
---
---A shape is `blocks` go blocks with `ops` operations each, of the first `of` of the list. A unit is a shape, the kinds
---of the two channels, and the first go block's operations, whose number is not larger than those of the others.

local operations = require "tests.prove.operations"

local kinds, all_kinds, list = operations.kinds, operations.all_kinds, operations.list

local space = {}

---@type { blocks: integer, ops: integer, of: integer }[]
space.shapes = {
  { blocks = 2, ops = 1, of = #list },
  { blocks = 2, ops = 2, of = 36 },
  { blocks = 2, ops = 3, of = 12 },
  { blocks = 3, ops = 2, of = 10 },
  { blocks = 4, ops = 1, of = 25 },
  { blocks = 2, ops = 4, of = 7 },
}

-- The operations of list `number` (from 0) of a shape.
local function block(shape, number)
  local ops = {}
  for k = 1, shape.ops do
    ops[k] = number % shape.of + 1
    number = number // shape.of
  end
  return ops
end

-- Whether an operation of the program uses a channel. If none does, one kind of it suffices.
local function uses(blocks, name)
  for _, ops in ipairs(blocks) do
    for _, number in ipairs(ops) do
      if list[number].name:find("%f[%w][tp]?" .. name .. "%f[%W]") then return true end
    end
  end
  return false
end

---How many units there are, and a function that returns a unit's name, its number from 0 on.
function space.units()
  local total, parts = 0, {}
  for i, shape in ipairs(space.shapes) do
    local lists = shape.of ^ shape.ops // 1 | 0
    parts[i] = { from = total, shape = shape, lists = lists }
    total = total + lists * #kinds * #kinds
  end
  return total, function(number)
    local i = #parts
    while parts[i].from > number do i = i - 1 end
    local part = parts[i]
    number = number - part.from
    local pair = number // part.lists
    return { shape = part.shape, lists = part.lists, first = number % part.lists,
      kinds = { kinds[pair // #kinds + 1], kinds[pair % #kinds + 1] } }
  end
end

---Calls f with each program of a unit.
---@param unit table
---@param f fun(program: table)
function space.each(unit, f)
  local shape, numbers = unit.shape, { unit.first }
  local function add(from)
    if #numbers < shape.blocks then
      for number = from, unit.lists - 1 do
        numbers[#numbers + 1] = number
        add(number)
        numbers[#numbers] = nil
      end
      return
    end
    local blocks = {}
    for g, number in ipairs(numbers) do blocks[g] = block(shape, number) end
    if unit.kinds[1] ~= kinds[1] and not uses(blocks, "a") then return end
    if unit.kinds[2] ~= kinds[1] and not uses(blocks, "b") then return end
    f { kinds = unit.kinds, blocks = blocks }
  end
  add(unit.first)
end

---Calls f with a program for each pair of operations, with channels of any kind.
---@param random fun(n: integer): integer
---@param f fun(program: table)
function space.each_pair(random, f)
  for i = 1, #list do
    for k = i, #list do
      f { kinds = { all_kinds[random(#all_kinds)], all_kinds[random(#all_kinds)] }, blocks = { { i }, { k } } }
    end
  end
end

---@type { blocks: integer, ops: integer }[]
local LARGER = { { 2, 3 }, { 3, 2 }, { 2, 4 }, { 4, 1 } }
local MANY = 36 -- behind these are only more alts

---Program number i of a sample: of a larger shape, from all operations.
---@param random fun(n: integer): integer
---@param i integer
---@return table program
function space.sample(random, i)
  local shape = LARGER[i % #LARGER + 1]
  local program = { kinds = {}, blocks = {} }
  for k = 1, 2 do program.kinds[k] = all_kinds[random(#all_kinds)] end
  for g = 1, shape[1] do
    program.blocks[g] = {}
    for k = 1, shape[2] do program.blocks[g][k] = random(random(2) == 1 and MANY or #list) end
  end
  return program
end

---A program as text.
function space.text(program)
  local lines = { ("a is %s, b is %s"):format(program.kinds[1], program.kinds[2]) }
  for g, ops in ipairs(program.blocks) do
    local names = {}
    for k, number in ipairs(ops) do names[k] = list[number].name end
    lines[#lines + 1] = ("  go block %d: %s"):format(g, table.concat(names, "; "))
  end
  return table.concat(lines, "\n")
end

---Calls f with each program that is smaller by one step.
---@param program table
---@param f fun(smaller: table)
function space.each_smaller(program, f)
  local function copy()
    local blocks = {}
    for g, ops in ipairs(program.blocks) do blocks[g] = { table.unpack(ops) } end
    return { kinds = { table.unpack(program.kinds) }, blocks = blocks }
  end
  for g = #program.blocks, 1, -1 do
    local smaller = copy()
    table.remove(smaller.blocks, g)
    if #smaller.blocks > 0 then f(smaller) end
  end
  for g, ops in ipairs(program.blocks) do
    for k = #ops, 1, -1 do
      local smaller = copy()
      table.remove(smaller.blocks[g], k)
      f(smaller)
    end
  end
  for i = 1, 2 do
    for _, kind in ipairs(all_kinds) do
      if kind == program.kinds[i] then break end
      local smaller = copy()
      smaller.kinds[i] = kind
      f(smaller)
    end
  end
end

return space
