-- Draws panels of lines as an SVG, both axes logarithmic.
--
--     require "chart"(title, panels) --> the text of the file
--
-- A panel is { title =, lines = }; a line is { title =, colour =, shape =, dashed =, points = { { x, y }, ... } }.

local svg = require "svg"

local WIDTH, HEIGHT, TOP, LEFT, LEGEND = 480, 330, 84, 62, 20

local function draw(add, panel, left)
  local low, high, first, last = math.huge, 0, math.huge, 0
  for _, line in ipairs(panel.lines) do
    for _, point in ipairs(line.points) do
      first, last = math.min(first, point[1]), math.max(last, point[1])
      low, high = math.min(low, point[2]), math.max(high, point[2])
    end
  end
  low, high = math.log(low * 0.8, 10), math.log(high * 1.3, 10)
  first, last = math.log(first, 10), math.log(last, 10)
  local bottom, right = TOP + HEIGHT, left + WIDTH - 24
  left = left + LEFT
  local function x_of(n) return left + 12 + (math.log(n, 10) - first) / (last - first) * (right - left - 24) end
  local function y_of(value) return bottom - (math.log(value, 10) - low) / (high - low) * HEIGHT end

  add('<text x="%d" y="%d" fill="#222">%s</text>', left, TOP - 18, svg.escape(panel.title))
  for exponent = math.floor(low), math.ceil(high) do
    for _, digit in ipairs { 1, 2, 5 } do
      local value = digit * 10.0 ^ exponent
      local position = math.log(value, 10)
      if position >= low and position <= high then
        add('<path d="M%.1f %.1fH%.1f" stroke="%s"/>', left, y_of(value), right, digit == 1 and "#ccc" or "#eee")
        add('<text x="%.1f" y="%.1f" text-anchor="end" fill="#555">%g</text>', left - 8, y_of(value) + 4.5, value)
      end
    end
  end
  for exponent = math.ceil(first), math.floor(last) do
    add('<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%d</text>', x_of(10 ^ exponent), bottom + 20,
      10 ^ exponent // 1)
  end

  for i, line in ipairs(panel.lines) do
    local path = {}
    for j, point in ipairs(line.points) do path[j] = ("%.1f %.1f"):format(x_of(point[1]), y_of(point[2])) end
    local dashes = line.dashed and ' stroke-dasharray="5 4"' or ""
    add('<path d="M%s" fill="none" stroke="%s" stroke-width="1.8"%s/>', table.concat(path, "L"), line.colour, dashes)
    for _, point in ipairs(line.points) do
      add(svg.SHAPES[line.shape], x_of(point[1]), y_of(point[2]), line.colour)
    end
    local y = bottom + 30 + i * LEGEND
    add('<path d="M%d %dh28" stroke="%s" stroke-width="1.8"%s/>', left, y, line.colour, dashes)
    add(svg.SHAPES[line.shape], left + 14, y, line.colour)
    add('<text x="%d" y="%.1f" fill="#222">%s</text>', left + 38, y + 4.5, svg.escape(line.title))
  end
end

return function(title, panels)
  local most = 0
  for _, panel in ipairs(panels) do most = math.max(most, #panel.lines) end
  local add, text = svg.open(title, WIDTH * #panels, TOP + HEIGHT + 50 + most * LEGEND)
  for i, panel in ipairs(panels) do draw(add, panel, (i - 1) * WIDTH) end
  return text()
end
