-- lua snippets.lua DIR MARKDOWN...: writes the Lua code of Markdown files into DIR, a file for each snippet, for tools
-- that check Lua files.
local snippets = require "spec.support.docs.snippets"

local dir = assert(arg[1], "usage: lua snippets.lua DIR MARKDOWN...")
assert(os.execute(("rm -rf '%s' && mkdir -p '%s'"):format(dir, dir)))
for i = 2, #arg do
  for _, snippet in ipairs(snippets.of(arg[i])) do
    local name = ("%s/%s-line-%d.lua"):format(dir, arg[i]:gsub("%.md$", ""):gsub("/", "-"), snippet.line)
    local file <close> = assert(io.open(name, "w"))
    -- Snippets use `rn` without requiring it.
    if not snippet.code:find "local rn =" then file:write 'local rn = require "runnel"\n' end
    file:write(snippet.code, "\n")
  end
end
