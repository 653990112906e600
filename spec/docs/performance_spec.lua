-- The first sentences of docs/performance.md have the figures of its tables, which bench/ writes.

local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"

local text = pages.read "docs/performance.md"
local summary = text:match "^# Performance\n\n(.-)\n\n":gsub("\n", " ")

-- The first row that has this label, from its second cell on.
local function line_of(label)
  for line in text:gmatch "[^\n]+" do
    local first, rest = line:match "^|%s*(.-)%s*|(.*)"
    if first == label then return rest end
  end
  error("no row " .. label)
end

-- Its numbers, without the ratios in brackets.
local function row(label)
  local cells = {}
  for cell in line_of(label):gmatch "%s*([^|]*)|" do cells[#cells + 1] = tonumber(cell:match "^%d[%d.]*") or 0 end
  return cells
end

-- The ratio to Go in brackets behind runnel's number, which is the first.
local function to_go(label) return tonumber((line_of(label):match "^%s*[%d.]+ %(([%d.]+)%)")) end

-- The least and the greatest ratio to Go, with one processor, in the table with this heading.
local function extremes(heading)
  local least, most = math.huge, 0
  for line in text:match("\n| " .. heading .. " [^\n]*\n|[-:| ]+\n(.-)\n\n"):gmatch "[^\n]+" do
    local ratio = tonumber(line:match "^|[^|]*|[^|]*|%s*([%d.]+)")
    if ratio then least, most = math.min(least, ratio), math.max(most, ratio) end -- not all programs are in Go
  end
  return least, most
end

-- The text has numbers at the pattern's captures, and they are these, rounded.
local function has(where, pattern, ...)
  local found = { where:match(pattern) }
  assert(#found > 0, "the text lacks " .. pattern)
  for i, wanted in ipairs { ... } do
    local value, digits = tonumber(found[i]), #(found[i]:match "%.(%d+)" or "")
    assert.near(wanted, value, 0.55 * 10 ^ -digits, pattern)
  end
end

local function says(...) return has(summary, ...) end

describe("docs/performance.md", function()
  it("begins with five sentences, whose figures are those of its tables", function()
    says("a message takes ([%d.]+) to ([%d.]+) times as long as in Go",
      to_go "chan(0), a message (ns)", to_go "chan(100), a message (ns)")
    says("starting a go block ([%d.]+) times", to_go "spawn + take (ns)")
    says("takes ([%d.]+) times the memory", to_go "a parked go block (bytes)")
    local message = row "chan(0), a message (ns)"
    says("([%d.]+) times as long in Tarantool as here, ([%d.]+) times in core.async,",
      message[3] / message[1], message[4] / message[1])
    says("([%d.]+) times in luv and ([%d.]+) times in cqueues", message[5] / message[1], message[6] / message[1])
    says("trees of go blocks %(([%d.]+) times%), timers of which none is shared %(([%d.]+) times%)",
      to_go "skynet, a go block (ns)", to_go "the same, none shared (ns each)")
    says("which are copied %(([%d.]+) to ([%d.]+) times%)",
      row("unbuffered, a message")[3], row("buffer of 100, a message")[3])
    local least, most = extremes "CPU time"
    says("Whole programs take ([%d.]+) to ([%d.]+) times the CPU time of the same programs in Go", 1 / most, 1 / least)
    assert.equal(5, select(2, summary:gsub("%.%f[%s\0]", "")))
  end)

  it("has the figures with which the README compares runnel with Go", function()
    local readme = pages.read "README.md":gsub("%s+", " ")
    has(readme, "a message takes ([%d.]+) to ([%d.]+) times as long, starting a go block ([%d.]+) times",
      to_go "chan(0), a message (ns)", to_go "chan(100), a message (ns)", to_go "spawn + take (ns)")
    has(readme, "a tree of 100,000 go blocks ([%d.]+) times", to_go "skynet, a go block (ns)")
  end)

  it("says how much memory require takes, as the comment in lua/runnel.lua does", function()
    local pipe <close> = assert(io.popen(process.runnel .. " bench/require.lua"))
    local measured = pipe:read "a"
    for _, where in ipairs { text, (pages.read("lua/runnel.lua"):gsub("\n%-%-", "")) } do
      for label, pattern in pairs { runnel = "2 ms and (%d+) KB", ["the rest"] = "5 ms and (%d+) KB" } do
        local said = assert(tonumber(where:match(pattern)), pattern)
        assert.near(tonumber(measured:match(label .. " +(%d+) KB")), said, 0.15 * said, label)
      end
    end
  end)
end)
