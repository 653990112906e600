-- lua snippets.lua MARKDOWN DIR: writes the Lua code of a Markdown file into DIR, a file for each snippet, for tools
-- that check Lua files.
local snippets = require "spec.support.snippets"

local markdown, dir = arg[1], assert(arg[2], "usage: lua snippets.lua MARKDOWN DIR")
assert(os.execute(("rm -rf '%s' && mkdir -p '%s'"):format(dir, dir)))
for _, snippet in ipairs(snippets.of(markdown)) do
  local file <close> = assert(io.open(("%s/line-%d.lua"):format(dir, snippet.line), "w"))
  -- A snippet sees `rn`, as at the prompt.
  if not snippet.code:find "local rn =" then file:write 'local rn = require "runnel"\n' end
  file:write(snippet.code, "\n")
end
