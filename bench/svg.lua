-- What the charts of the benchmarks share.

local svg = {}

-- Marks, for string.format with x, y and a colour.
svg.SHAPES = {
  circle = '<circle cx="%.1f" cy="%.1f" r="6.5" fill="%s"/>',
  square = '<rect x="-4.5" y="-4.5" width="9" height="9" transform="translate(%.1f %.1f)" fill="%s"/>',
  diamond = '<path d="M0-6 6 0 0 6-6 0z" transform="translate(%.1f %.1f)" fill="%s"/>',
  triangle = '<path d="M0-6 5.5 4.5h-11z" transform="translate(%.1f %.1f)" fill="%s"/>',
  cross = '<path d="M-4-4 4 4M-4 4 4-4" transform="translate(%.1f %.1f)" stroke="%s" stroke-width="2.2"/>',
}

function svg.escape(text)
  return (text:gsub("[&<>]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" }))
end

-- Returns add(format, ...), which adds a line, and text(), which returns the file.
function svg.open(title, width, height)
  local lines = {}
  local function add(format, ...) lines[#lines + 1] = format:format(...) end
  add('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">',
    width, height)
  add('<title>%s</title>', svg.escape(title))
  add '<rect width="100%%" height="100%%" fill="#fff"/>'
  add('<text x="16" y="26" font-size="16" font-weight="bold" fill="#222">%s</text>', svg.escape(title))
  return add, function()
    add '</svg>'
    return table.concat(lines, "\n") .. "\n"
  end
end

return svg
