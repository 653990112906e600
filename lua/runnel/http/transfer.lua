---The transfers of this state: what plain requests (client) and those of streams (stream) have in common.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local need = require "runnel.internal.need"
local timed_out = require "runnel.internal.timed_out"

local lib = need("runnel.http.curl",
  "libcurl, zlib and their headers, on Debian libcurl4-openssl-dev and zlib1g-dev")

local options = require "runnel.http.http_options"
local proxies = require "runnel.http.proxy"
local responses = require "runnel.http.response"
local upload = require "runnel.http.upload"

local internal = core.internal
local raise = internal.raise
local chan, cancel = core.chan, core.cancel
local take, offer, close = internal.moving.take, core.methods.offer, core.methods.close
local NONE = options.NONE

---@class runnel.http.transfer
local transfers = {}

-- ---- the C module ----

local the_client -- of this state, made for the first request

---Returns the C module's client of this Lua state, and makes it first if there is none.
---@return any client
function transfers.client()
  the_client = the_client or lib.open(chan():name "http", offer, close)
  return the_client
end

---Closes the connections kept for further requests, if there is a client.
function transfers.close_idle()
  if the_client then the_client:close_idle() end
end

---Begins a request. Raises an error of libcurl.
---@param what string
---@param url string
---@param settings runnel.http.Settings
---@param news runnel.Channel<any> gets a value when there is news
---@param room runnel.Channel<any>|false|nil gets one when there is room for more of the body
---@return any transfer of the C module
function transfers.start(what, url, settings, news, room)
  local owner = transfers.client()
  if settings == NONE then settings = nil end -- the same for the C module, and faster
  local ok, transfer = pcall(owner.start, owner, url, settings, news, room)
  if not ok then raise(("%s: %s"):format(what, transfer)) end
  return transfer
end

---The error of a failed request.
---@param url string
---@param settings runnel.http.Settings
---@param name string its kind
---@param text string
---@return any err
function transfers.error_of(url, settings, name, text)
  local proxy = proxies.of(url, settings.libcurl)
  local message = ("%s: %s%s"):format(responses.host(url), proxy and "through the proxy " .. proxy.name .. ": " or "",
    text)
  return name == "timeout" and timed_out.new(message) or message
end

---Waits until the state of a transfer changes. The channel also closes if there is no memory for the notification.
---@param news runnel.Channel<any>
---@return any is_news nil if the go block that feeds it has died
---@return any err its error
function transfers.wait(news)
  local is_news, err = take(news)
  if not is_news and err == nil then error("not enough memory", 0) end
  return is_news, err
end

---Gives the program the early hints that have come.
---@param settings runnel.http.Settings
---@param transfer any
function transfers.give_hints(settings, transfer)
  if not settings.hints then return end
  for lines in (transfer:hints() or ""):gmatch "(.-\n)\n" do settings.hints(lib.headers(lines)) end
end

-- ---- sending the values of a channel ----

-- A go block that ends with the one that has begun it.
local Helper = { __close = function(self) cancel(self.block) end }

local function feed(transfer, settings, room)
  for piece in upload.pieces(settings) do
    local has_room = transfer:feed(piece)
    while has_room == false do
      transfers.wait(room)
      has_room = transfer:has_room()
    end
    if has_room == nil then return end -- the transfer has ended
  end
  transfer:feed()
end

-- The go block has died. The request ends with its error.
local function feeding_failed(news, reason, block)
  internal.excuse(block, reason)
  guard.close(news, reason)
end

---Begins to send the values of a channel as the body of a request.
---@param what string
---@param settings runnel.http.Settings
---@param transfer any
---@param news runnel.Channel<any>
---@param room runnel.Channel<any>
---@return table sending a `<close>` variable, which ends it
function transfers.upload(what, settings, transfer, news, room)
  local block = guard.started(guard.go(feeding_failed, news, feed, transfer, settings, room), what)
  return setmetatable({ block = block }, Helper)
end

return transfers
