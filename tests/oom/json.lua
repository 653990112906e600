-- JSON. If an allocation fails, encode and decode raise, and what they were given is as it was.
local json = require "runnel.json"

local big = {}
for i = 1, 12 do big["name" .. i] = ("\1"):rep(i * 8) end
local hidden = { a = { 1.5, 0.1 + 0.2 }, b = json.array {} }
local value = { big, { list = { 1, 2, 3 }, none = json.null, yes = true }, setmetatable({}, {
  __index = hidden, __pairs = function() return next, hidden, nil end,
}) }
local text = assert(json.encode(value, { indent = 1 }))
local again = '{"long":[' .. ("9"):rep(70) .. ',"' .. ("\\u00e9"):rep(400) .. '","a\\nb"],"a":{"b":[[],{}]}}'
local wrong = '[1,\n{"a":"\\n' .. ("x"):rep(600) .. '\\ud800"}]'
local got, read, problem, refused

local function attempt()
  got = json.encode(value, { indent = 1 })
  read = json.decode(again)
  problem = select(2, json.decode(wrong))
  refused = select(2, json.encode { x = { 1, print } })
end

local function check(ok)
  if not ok then return end
  assert(got == text, "another text")
  assert(#read.long == 3 and read.a.b[2] and #read.long[2] == 800, "another value")
  assert(problem:find "half of a surrogate pair", problem)
  assert(refused == "value.x[2]: a function cannot be sent", refused)
end

return attempt, check
