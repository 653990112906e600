---Writes the parts of the option `multipart` where libcurl does not: in fakes and simulated worlds.

local io = io

local writer = {}

-- Nothing is random in a simulation.
local BOUNDARY <const> = "------------------------runnel"

local function quoted(text) return '"' .. text:gsub('[\\"]', "\\%0") .. '"' end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return assert(file:read "a") -- nil of a folder
end

---@param parts { name: string, data?: string, file?: string, filename?: string, type?: string }[]
---@return string body
---@return string content_type
function writer.write(parts)
  local out = {}
  for _, part in ipairs(parts) do
    local filename = part.filename or part.file and part.file:match "[^/]*$"
    local kind = part.type or filename and "application/octet-stream"
    out[#out + 1] = ("--%s\r\nContent-Disposition: form-data; name=%s%s\r\n%s\r\n"):format(BOUNDARY, quoted(part.name),
      filename and "; filename=" .. quoted(filename) or "", kind and ("Content-Type: %s\r\n"):format(kind) or "")
    out[#out + 1] = part.data or read(part.file)
    out[#out + 1] = "\r\n"
  end
  out[#out + 1] = ("--%s--\r\n"):format(BOUNDARY)
  return table.concat(out), "multipart/form-data; boundary=" .. BOUNDARY
end

return writer
