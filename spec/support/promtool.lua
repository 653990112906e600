---promtool, Prometheus' own check of a text with metrics.

local promtool = {}

promtool.is_there = os.execute "command -v promtool >/dev/null 2>&1"

---Asserts that promtool, if it is installed, finds nothing wrong with a text.
function promtool.assert_passes(text)
  if not promtool.is_there then return end
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  local pipe = assert(io.popen(("promtool check metrics <%s 2>&1"):format(path)))
  local said = pipe:read "a"
  local ok = pipe:close()
  os.remove(path)
  assert(ok and said == "", said)
end

return promtool
