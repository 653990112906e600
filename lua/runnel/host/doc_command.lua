---`runnel doc`: what `:doc` of the prompt shows, on standard output.

local doc = require "runnel.prompt.doc"

local USAGE <const> = [[
usage: runnel doc NAME
       runnel doc QUESTION
       runnel doc --json
Shows what the manual says about a name, as in runnel doc ch:take, or a question, as in runnel doc close a channel.
--json writes all functions, methods, options and commands: a list of objects with calls, names, text and options.
]]

local COLUMNS <const> = 100

---@param ... string
return function(...)
  local query = table.concat({ ... }, " ")
  if query == "help" or query == "--help" then return io.stdout:write(USAGE) end
  if query == "--json" then return io.stdout:write(doc.json(), "\n") end
  if query:find "^%-" and not doc.find(query)[1] or not query:find "[%w_\x80-\xff]" then
    io.stderr:write(USAGE)
    os.exit(2, true)
  end
  local answers, problem = doc.answers(query, COLUMNS)
  if not answers then
    io.stderr:write("runnel doc: ", problem, "\n")
    os.exit(1, true)
  end
  print(table.concat(answers, "\n"))
end
