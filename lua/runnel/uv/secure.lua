---TLS on connections: the handshake, and the end of the session. Reading and writing are in runnel.uv.uv_stream.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local loop = require "runnel.uv.loop"

local chan, alts_index = core.chan, core.internal.alts_index
local PRIORITY = { priority = true }

-- How many ms a handshake may take by default.
local HANDSHAKE_MS = 10000
-- How many ms a closed connection waits for the system to take all written bytes; and then for the other end to close.
local SENDING_MS, LEAVING_MS = 10000, 2000

local secure = {}

-- Sends the bytes that a session has to send.
local function flush(handle, session)
  local bytes = session:take()
  if bytes then handle:write(bytes) end
end

-- Reads until the handshake is complete or has failed. Then stops reading, and puts the result on the channel.
local function shake(handle, session, answers)
  local function step(err, chunk, is_first)
    if loop.over then return end
    local text, state, why
    if chunk or is_first then
      text, state, why = session:receive(chunk)
      flush(handle, session)
    else
      state, why = "failed", err and loop.message(err) or "the other end has closed the connection during the handshake"
    end
    local is_ready = session:state() == "ready"
    if state == nil and not is_ready then return end
    handle:read_stop()
    if state == "ended" and not is_ready then why = "the other end has ended the handshake" end
    answers:offer { text = text, ended = state == "ended", why = why }
  end
  local ok, err = handle:read_start(step)
  if not ok then answers:offer { why = loop.message(err) } else step(nil, nil, true) end
end

-- A session whose bytes go through another one: TLS to a server, through a proxy to which there is TLS, too.
local Layered = {}
Layered.__index = Layered

---Makes a session of two.
---@param inner any the session of the program's data
---@param outer any that whose handshake is complete
---@return any session
function secure.layered(inner, outer) return setmetatable({ inner = inner, outer = outer }, Layered) end

-- What the outer session makes of bytes of the inner one, which may be nil.
local function wrap(self, bytes) return bytes and self.outer:send(bytes) end

function Layered:receive(bytes)
  local passed, state, why = self.outer:receive(bytes)
  local text, inner_state, inner_why = self.inner:receive(passed)
  if state == "ended" then state, why = "failed", "the proxy has ended the connection" end
  return text, inner_state or state, inner_why or why
end

function Layered:send(text)
  local bytes, why = self.inner:send(text)
  if not bytes then return nil, why end
  return wrap(self, bytes)
end

function Layered:take()
  local bytes = (wrap(self, self.inner:take()) or "") .. (self.outer:take() or "")
  return bytes ~= "" and bytes or nil
end

function Layered:finish()
  return (wrap(self, self.inner:finish()) or "") .. (self.outer:finish() or "")
end

function Layered:state() return self.inner:state() end

function Layered:info() return self.inner:info() end

---Does a handshake; parks. Ends with an error if the connection is closed meanwhile.
---@param conn runnel.uv.Stream one that nothing else reads
---@param session any
---@param late? runnel.Channel<any> gives up when it closes; default: after 10 s
---@return string? err nil if the handshake is complete
---@return string? text that has arrived with its last bytes
---@return boolean? ended the other end will send nothing more
---@return boolean? is_late it has taken too long
function secure.handshake(conn, session, late)
  local alarm <close> = guard.alarm(not late and HANDSHAKE_MS or nil)
  local answers = chan(1)
  conn.shaking = answers
  shake(conn.handle, session, answers)
  local answer, from = alts_index({ answers, late or alarm.over }, PRIORITY)
  conn.shaking = nil
  if not answer and from == 1 then return conn.ended end
  if not answer then return "ETIMEDOUT: the TLS handshake has not ended in time", nil, nil, true end
  return answer.why, answer.text, answer.ended
end

---Ends a session and closes its handle: sends close_notify, then reads until the other end closes, too. Closing the
---handle at once would reset the connection if it has unread bytes, such as TLS 1.3 tickets; then the other end could
---lose bytes that were sent. If written bytes still wait to be sent, it closes at once, without close_notify, so that
---the other end knows that bytes are missing.
---@param handle any luv's
---@param session any
function secure.leave(handle, session)
  if session:state() == "shaking" or handle:get_write_queue_size() > 0 then return loop.close(handle) end
  local bytes, timer, is_over = session:finish(), loop.uv.new_timer(), false
  loop.made_with(timer, handle)
  local function over()
    if is_over then return end
    is_over = true
    timer:stop()
    loop.close(timer)
    loop.close(handle)
  end
  if bytes then handle:write(bytes) end
  local ends = handle:shutdown(function(err)
    if loop.over or is_over or err == "ECANCELED" then return end -- at the end of the state luv closes the handles
    if err then over() else timer:start(LEAVING_MS, 0, over) end
  end)
  local reads = handle:read_start(function(_, chunk)
    if not chunk and not loop.over then over() end
  end)
  if ends and reads then timer:start(SENDING_MS, 0, over) else over() end
end

return secure
