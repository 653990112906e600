---The versions of which spec/fixtures has files.
---@return string[]
return function()
  local list, pipe <close> = {}, assert(io.popen "ls -d spec/fixtures/*/")
  for path in pipe:lines() do list[#list + 1] = path:match "([^/]+)/$" end
  assert(list[1], "spec/fixtures has no version")
  return list
end
