-- lua prompt_picture.lua RUNNEL docs/prompt.png: a session at the prompt of the executable RUNNEL, as a picture. It
-- types into a real terminal (tmux), and has chromium draw what is on its screen then. Run it in the root of the tree,
-- with the paths that `make -s env` prints.
package.path = "./?.lua;" .. package.path
local terminal = require "spec.support.terminal"

local COLUMNS, ROWS = 96, 36
local WIDTH, HEIGHT, SIZE, MARGIN = 8.43, 19, 14, 16 -- of a character, a line, the font and the edge, in pixels
local BACKGROUND, TEXT = "#1e2127", "#d7dae0"
local COLOURS = {
  ["31"] = "#e06c75", ["32"] = "#98c379", ["34"] = "#61afef", ["35"] = "#c678dd", ["36"] = "#56b6c2",
  ["90"] = "#7f848e",
}

local runnel, picture = assert(arg[1], "RUNNEL"), assert(arg[2], "the picture")
local dir = os.tmpname()
os.remove(dir)
assert(os.execute("mkdir " .. dir))
local term = terminal.open(("cd %s && XDG_STATE_HOME=. LC_ALL=C.UTF-8 %s"):format(dir, runnel),
  { columns = COLUMNS, rows = ROWS })

local function type_in(line)
  term:expect "%]>$"
  term:enter(line)
end

term:expect "%[1%]>$"
term:paste(([[
local jobs, results = rn.chan(3):name "jobs", rn.chan(100):name "results"

for i = 1, 3 do
  rn.go(function()
    rn.rename("worker " .. i)
    for n in jobs do rn.sleep(n * 10) results:put { n = n, by = i } end
  end)
end
]]):gsub("  ", "\t"))
type_in "for n = 1, 12 do jobs:put(n) end"
type_in "results:take(), results"
type_in "_.n * 10"
type_in ":ps"
type_in ":chans"
type_in "jobs:clsoe()"
term:expect "did you mean jobs:close.*>$"
type_in "rn.go(function() rn.sleep(300) print 'printed above the line' end)"
term:expect "chan: #%d+ [^\n]*\n%[7%]>$"
term:type "rn.into({}, rn.take("
term:press "Tab"
term:expect "printed above the line\n.*%($"
term:expect "rn.take%(n, ch.*%($"

local function escape(text) return (text:gsub("[&<>]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" })) end

local colour, bold = TEXT, false -- also of the next line

-- Draws a line of the screen: runs of characters of one colour.
local function draw(line, y)
  local out, column = {}, 0
  local function run(text)
    if text:find "%S" then
      out[#out + 1] = ('<text x="%.1f" y="%d" fill="%s"%s>%s</text>'):format(MARGIN + column * WIDTH, y, colour,
        bold and ' font-weight="bold"' or "", escape(text))
    end
    column = column + utf8.len(text)
  end
  local at = 1
  while at <= #line do
    local first, last, codes = line:find("\27%[([%d;]*)m", at)
    run(line:sub(at, (first or #line + 1) - 1))
    for code in (codes or ""):gmatch "%d+" do
      if code == "0" then colour, bold = TEXT, false end
      if code == "1" then bold = true end
      if code == "39" then colour = TEXT end
      colour = COLOURS[code] or colour
    end
    at = (last or #line) + 1
  end
  return table.concat(out, "\n")
end

local lines, y = {}, MARGIN
for line in (term:screen(true) .. "\n"):gmatch "(.-)\n" do
  y = y + HEIGHT
  lines[#lines + 1] = draw(line, y)
end
term:close()

local FONT = "DejaVu Sans Mono, Menlo, Consolas, monospace"
local w, h = math.ceil(COLUMNS * WIDTH + 2 * MARGIN), y + MARGIN
local svg = dir .. "/prompt.svg"
local file <close> = assert(io.open(svg, "w"))
file:write(('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">\n'):format(w, h),
  ('<rect width="%d" height="%d" fill="%s"/>\n'):format(w, h, BACKGROUND),
  "<style>text { white-space: pre }</style>\n", ('<g font-family="%s" font-size="%d">\n'):format(FONT, SIZE),
  table.concat(lines, "\n"), "\n</g>\n</svg>\n")
file:close()
local drawn = os.execute(("chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=%d,%d "
  .. "--screenshot='%s' 'file://%s' 2>%s/log || ! cat %s/log"):format(w, h, picture, svg, dir, dir))
os.execute("rm -r " .. dir)
os.exit(drawn and true or false)
