---Removes an element of a list, where it is first.
---@param list any[]
---@param element any
---@return any element nil if the list does not have it
return function(list, element)
  for i, one in ipairs(list) do
    if one == element then return table.remove(list, i) end
  end
end
