---A generator of random numbers, the same with each version of Lua: the seed of a random program is all that it needs.
---@param seed integer
---@return fun(n: integer): integer random from 1 to n
return function(seed)
  local state = seed * 2654435761 % 2147483647 + 1
  local function random(n)
    state = state * 48271 % 2147483647
    return state // 7 % n + 1
  end
  for _ = 1, 10 do random(2) end
  return random
end
