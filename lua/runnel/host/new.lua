---`runnel new NAME`: writes a project that runs at once: a script, a module, a spec, a Makefile, a rockspec, and files
---for CI and for a container.

local USAGE <const> = [[
usage: runnel new NAME
Writes a project into the new folder NAME: a script, a module, a spec, a Makefile, a rockspec, files for CI and for a
container, and a README that says how to run them. NAME may be a path; its last part is the project's name: small
letters, digits, - and _.
]]

-- The files by path. NAME stands for the project's name.
local FILES = {
  ["main.lua"] = [[
#!/usr/bin/env runnel
-- NAME: prints the ten most frequent words of the files that are its arguments, or of standard input.

-- Finds the project's modules from any directory.
package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path

local rn = require "runnel"
local words = require "NAME.words"

local lines = rn.chan(100):name "lines"

-- Reads the files while their words are counted: when 100 lines wait, it waits, too.
rn.go(function()
  local ok, err = pcall(function()
    for _, path in ipairs(#arg > 0 and arg or { "/dev/stdin" }) do
      for line in io.lines(path) do lines:put(line) end
    end
  end)
  lines:close(not ok and err or nil)
end)

for i, entry in ipairs(words.ranking(words.count(lines))) do
  if i > 10 then break end
  print(("%6d %s"):format(entry.count, entry.word))
end
]],
  ["NAME/words.lua"] = [[
---Counts words.

local rn = require "runnel"

local words = {}

-- The words of a line in small letters, with how often each is there.
local function of_line(line)
  local counts = {}
  for word in line:lower():gmatch "%a+" do counts[word] = (counts[word] or 0) + 1 end
  return counts
end

---Counts the words of lines, while they come.
---@param lines table|any a list, or a channel
---@return table<string, integer> counts by word
function words.count(lines)
  local counts = {}
  for found in rn.pmap(4, of_line, lines) do
    for word, n in pairs(found) do counts[word] = (counts[word] or 0) + n end
  end
  return counts
end

---Puts the most frequent word first; of those that are equally frequent, the first in the alphabet.
---@param counts table<string, integer>
---@return { word: string, count: integer }[]
function words.ranking(counts)
  local list = {}
  for word, count in pairs(counts) do list[#list + 1] = { word = word, count = count } end
  table.sort(list, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return a.word < b.word
  end)
  return list
end

return words
]],
  ["spec/words_spec.lua"] = [[
local rn = require "runnel"
local sim = require "runnel.sim"
local words = require "NAME.words"

describe("words.count", function()
  it("counts the words of all lines, in small letters", function()
    assert.same({ a = 3, b = 1 }, words.count { "a b", "", "A, a." })
  end)

  it("counts lines that come late", function()
    sim.run(function() -- in virtual time: the hour takes no time
      local lines = rn.chan()
      rn.go(function()
        for _, line in ipairs { "to run", "like water" } do
          rn.sleep(30 * 60 * 1000)
          lines:put(line)
        end
        lines:close()
      end)
      assert.same({ to = 1, run = 1, like = 1, water = 1 }, words.count(lines))
      assert.equal(60 * 60 * 1000, sim.elapsed())
    end)
  end)
end)

describe("words.ranking", function()
  it("puts the most frequent word first, and then goes by the alphabet", function()
    local list = {}
    for i, entry in ipairs(words.ranking { b = 1, a = 1, c = 2 }) do list[i] = entry.word end
    assert.same({ "c", "a", "b" }, list)
  end)
end)
]],
  ["NAME-scm-1.rockspec"] = [[
rockspec_format = "3.0"
package = "NAME"
version = "scm-1"
source = { url = "." }
description = { summary = "counts words", license = "MIT" }
dependencies = { "lua >= 5.4, < 5.6", "runnel" }
build = {
  type = "builtin",
  modules = { ["NAME.words"] = "NAME/words.lua" },
  install = { bin = { ["NAME"] = "main.lua" } },
}
]],
  ["Makefile"] = ([[
# The commands of the project: `make` runs the program, `make check` is what CI runs for each change.
RUNNEL    ?= runnel
CONTAINER ?= docker# or podman

.PHONY: run
run:
    $(RUNNEL) main.lua README.md

.PHONY: check lint test
check: lint test run build
lint:
    luacheck .
test:
    $(RUNNEL) test spec

# One executable file, for machines without runnel.
.PHONY: build
build: build/NAME
build/NAME: main.lua $(wildcard NAME/*.lua)
    @mkdir -p build
    $(RUNNEL) build --libraries -o $@ main.lua

# An image with that file only.
.PHONY: image
image: build/NAME
    $(CONTAINER) build --tag NAME --file Containerfile build

.PHONY: clean
clean:
    rm -rf build
]]):gsub("\n    ", "\n\t"),
  ["Containerfile"] = [[
# The image that `make image` builds, of the folder build: the program, on the C library of Debian. If the program was
# built on a newer system than this one, take a newer one here.
FROM debian:stable-slim
COPY NAME /usr/local/bin/NAME
USER 65534:65534
ENTRYPOINT ["NAME"]
]],
  [".gitignore"] = "/build/\n",
  [".luacheckrc"] = [[
std = "lua54"
files["spec"] = { std = "+busted" }
]],
  [".github/workflows/ci.yml"] = [[
# Runs the specs for each change, on GitHub, Forgejo and Gitea. Set the variable RUNNEL_REPOSITORY of the repository, or
# of its organisation, to the address from which you have cloned runnel.
on: [push, pull_request]
jobs:
  test:
    runs-on: ubuntu-latest
    container: debian:trixie
    steps:
      - run: >-
          apt-get update && apt-get install -y
          ca-certificates gcc git libc6-dev liblua5.4-dev lua-busted lua-check lua5.4 make nodejs
      - run: git clone --depth 1 "${{ vars.RUNNEL_REPOSITORY }}" /tmp/runnel && make -C /tmp/runnel install
      - uses: actions/checkout@v4
      - run: make check
]],
  ["README.md"] = [[
# NAME

Prints the most frequent words of files, or of standard input. It begins as `runnel new` has written it.

    make                             # run it; or: runnel main.lua README.md
    make test                        # run the specs: needs busted; or: runnel test spec
    make check                       # what CI runs: also luacheck, and the executable
    make build                       # one executable file without runnel: build/NAME
    make image                       # an image of it: needs docker, or CONTAINER=podman
    make RUNNEL=path/to/runnel       # if runnel is not in a folder of PATH
    runnel --monitor main.lua        # with a page that shows its go blocks and channels

| file | what is in it |
|---|---|
| `main.lua` | the program |
| `NAME/words.lua` | a module of it, with what can be tested |
| `spec/words_spec.lua` | the specs of the module |
| `Makefile` | the commands above |
| `Containerfile` | the image of `make image` |
| `NAME-scm-1.rockspec` | for `luarocks make` |
| `.luacheckrc` | the settings of luacheck |
| `.github/workflows/ci.yml` | what CI runs for each change: set the variable RUNNEL_REPOSITORY there |
]],
}

-- What folders with other names are for.
local TAKEN <const> = { build = "what make builds", runnel = "runnel's own modules", spec = "the specs" }

local function fail(message, ...)
  io.stderr:write("runnel new: ", message:format(...), "\n")
  os.exit(1, true)
end

local function shell_quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function make_folder(path)
  if not os.execute("mkdir -p -- " .. shell_quoted(path)) then fail("the folder %s cannot be made", path) end
end

local function write(path, text)
  local file, err = io.open(path, "w")
  if not file then fail("%s", err) end
  local ok, problem = file:write(text)
  if ok then ok, problem = file:close() end
  if not ok then fail("%s: %s", path, problem) end
end

---@param path string? of the project's folder
---@param ... string
return function(path, ...)
  if path == nil or ... then
    io.stderr:write(USAGE)
    os.exit(2, true)
  end
  if path == "help" or path == "--help" then return io.stdout:write(USAGE) end
  local name = path:match "([^/]+)/*$"
  if not name or not name:find "^%l[%l%d_-]*$" then
    fail("%s: a name of small letters, digits, - and _ expected, which begins with a letter", path)
  end
  if TAKEN[name] then fail("%s: the project needs another name: its folder %s is for %s", name, name, TAKEN[name]) end
  if os.rename(path, path) then fail("%s exists already", path) end
  local paths = {}
  for file in pairs(FILES) do paths[#paths + 1] = file end
  table.sort(paths)
  for _, file in ipairs(paths) do
    local target = path .. "/" .. file:gsub("NAME", name)
    make_folder(target:match "^(.*)/")
    write(target, (FILES[file]:gsub("NAME", name)))
  end
  local folder = path:find "^[%w_./-]+$" and path or shell_quoted(path)
  if path:find "^-" then folder = "./" .. folder end -- else cd would take it for an option
  print(("%s is there. Try:\n\n    cd %s\n    make\n    make test   # needs busted"):format(path, folder))
end
