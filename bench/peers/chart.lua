-- Draws the peers' ratios as an SVG: a row for each workload, a mark for each peer, on a logarithmic axis.
--
--     require "chart"(title, rows, series, one) --> the text of the file
--
-- A row is { label =, target = a ratio or nil, [series' name] = a ratio or nil }; a series is { name =, title =,
-- colour =, shape = }. The axis shows the ratio to `one`, by default Go, which is 1.

local svg = require "svg"

local LEFT, RIGHT, TOP, BOTTOM, ROW = 190, 30, 84, 46, 27
local WIDTH = 860

return function(title, rows, series, one)
  one = one or "Go"
  local has_targets = false
  local low, high = 0.5, 2
  for _, row in ipairs(rows) do
    has_targets = has_targets or row.target ~= nil
    for _, s in ipairs(series) do
      local ratio = row[s.name]
      if ratio then low, high = math.min(low, ratio), math.max(high, ratio) end
    end
  end
  low, high = math.log(low * 0.9, 10), math.log(high * 1.1, 10)
  local function x_of(ratio)
    return LEFT + (math.log(ratio, 10) - low) / (high - low) * (WIDTH - LEFT - RIGHT)
  end

  local height = TOP + #rows * ROW + BOTTOM
  local add, text = svg.open(title, WIDTH, height)

  local x = 22
  for _, s in ipairs(series) do
    add(svg.SHAPES[s.shape], x, 50, s.colour)
    add('<text x="%.1f" y="54.5" fill="#222">%s</text>', x + 11, svg.escape(s.title))
    x = x + 42 + 7.2 * #s.title
  end
  if has_targets then
    add('<path d="M%.1f 43v14" stroke="#222" stroke-width="2"/>', x)
    add('<text x="%.1f" y="54.5" fill="#222">target</text>', x + 9)
  end

  for exponent = math.floor(low), math.ceil(high) do
    for _, digit in ipairs { 1, 2, 5 } do
      local ratio = digit * 10.0 ^ exponent
      local position = math.log(ratio, 10)
      if position >= low and position <= high then
        local is_one = ratio == 1
        add('<path d="M%.1f %dV%d" stroke="%s" stroke-width="%g"/>', x_of(ratio), TOP - 8, TOP + #rows * ROW,
          is_one and "#0891b2" or "#e5e5e5", is_one and 2 or 1)
        add('<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%s</text>', x_of(ratio), TOP + #rows * ROW + 18,
          is_one and one .. " = 1" or ("%g"):format(ratio))
      end
    end
  end
  add('<text x="%d" y="%d" text-anchor="middle" fill="#555">%s, %s = 1; left is better</text>',
    (LEFT + WIDTH - RIGHT) // 2, height - 10, has_targets and "time or bytes" or "time", one)

  for i, row in ipairs(rows) do
    local y = TOP + (i - 0.5) * ROW
    if i % 2 == 0 then
      add('<rect x="0" y="%.1f" width="%d" height="%d" fill="#000" fill-opacity="0.03"/>', y - ROW / 2, WIDTH, ROW)
    end
    add('<text x="%d" y="%.1f" text-anchor="end" fill="#222">%s</text>', LEFT - 14, y + 4.5, svg.escape(row.label))
    if row.target then
      add('<path d="M%.1f %.1fv18" stroke="#222" stroke-width="2"/>', x_of(row.target), y - 9)
    end
    for j = #series, 1, -1 do -- the first on top
      local s = series[j]
      if row[s.name] then add(svg.SHAPES[s.shape], x_of(row[s.name]), y, s.colour) end
    end
  end
  return text()
end
