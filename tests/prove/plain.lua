---An error, or another value, as text, without what differs from one engine and one run to the next: the line of the
---program, the numbers of channels, addresses, and what a deadlock lists.
---@return string
return function(value)
  local text = tostring(value):gsub("(deadlock: [%a.]+) [^\n]- for ever.*", "%1"):gsub("chan: #%d+", "a channel")
  return (text:gsub("table: 0x%x+", "a table"):gsub("[^ ]+%.lua:%d+: ", ""))
end
