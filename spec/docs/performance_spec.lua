-- The first sentences of docs/performance.md have the figures of its tables, which bench/ writes.

local pages = require "spec.support.docs.pages"

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
    least, most = math.min(least, ratio), math.max(most, ratio)
  end
  return least, most
end

local function says(pattern, ...)
  local found = { summary:match(pattern) }
  assert(#found > 0, "the summary lacks " .. pattern)
  for i, wanted in ipairs { ... } do
    local value, digits = tonumber(found[i]), #(found[i]:match "%.(%d+)" or "")
    assert.near(wanted, value, 0.55 * 10 ^ -digits, pattern)
  end
end

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
    says("trees of go blocks %(([%d.]+) times%), pipelines %(([%d.]+) times%)",
      to_go "skynet, a go block (ns)", to_go "pipeline of 8, a job (ns)")
    says("which are copied %(([%d.]+) to ([%d.]+) times%)",
      row("unbuffered, a message")[3], row("buffer of 100, a message")[3])
    local least, most = extremes "CPU time"
    says("Whole programs take ([%d.]+) to ([%d.]+) times the CPU time of the same programs in Go", 1 / most, 1 / least)
    assert.equal(5, select(2, summary:gsub("%.%f[%s\0]", "")))
  end)
end)
