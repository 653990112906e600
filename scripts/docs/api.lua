-- lua scripts/docs/api.lua: prints the contract, which is spec/api.txt: one line for each name that programs, operators
-- and packagers may rely on. It is made from the program. `make api` rewrites the file; spec/docs/api_spec.lua fails
-- when the two differ.
package.path = "./?.lua;" .. package.path

local lines, problems = require "scripts.docs.api_lines" ()
if #problems > 0 then
  io.stderr:write("the contract is not complete:\n  ", table.concat(problems, "\n  "), "\n")
  os.exit(1)
end
print(table.concat(lines, "\n"))
