---The body of a request that is a channel: it is sent while it is put, once.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"

local take = core.internal.moving.take

local upload = {}

-- The channels that have been the body of a request.
local used = setmetatable({}, { __mode = "k" })

---Whether a channel has been the body of an earlier request, so that values of it are gone.
---@param source runnel.Channel<string>
---@return boolean
function upload.is_used(source) return used[source] == true end

---An iterator over the pieces of a body. Raises the error with which the channel was closed, and an error if a piece is
---no string, or if all together have another size than they should.
---@param settings runnel.http.Settings
---@return fun(): string? next
function upload.pieces(settings)
  local source, left = settings.source, settings.body_size
  return function()
    local piece, err = take(source)
    if piece == nil then
      if err ~= nil then error(err, 0) end
      if left and left > 0 then
        error(("the body is shorter than the option size says: %d of its %d bytes are missing"):format(left,
          settings.body_size), 0)
      end
      return nil
    elseif type(piece) ~= "string" then
      error(("the channel of a body carries strings, got %s"):format(check.article(piece)), 0)
    end
    settings.pieces_sent = (settings.pieces_sent or 0) + 1
    if left then left = left - #piece end
    if left and left < 0 then
      error(("the body is longer than the option size says: more than %d bytes"):format(settings.body_size), 0)
    end
    return piece
  end
end

---A `<close>` variable for the time of a request: afterwards nothing takes from the channel, so it is closed, and puts
---do not wait for ever.
---@param settings runnel.http.Settings
---@return table? dropping nil if the body is no channel
function upload.sending(settings)
  local source = settings.source
  if not source then return nil end
  used[source] = true
  return setmetatable({ ch = source }, ends.Dropping)
end

---The same for a request that has ended before it began.
---@param settings runnel.http.Settings
function upload.drop(settings)
  if settings.source then ends.drop(settings.source) end
end

return upload
