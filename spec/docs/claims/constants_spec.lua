-- Limits that the documents name, which no quick check can reach: they are what the sources say.

local pages = require "spec.support.docs.pages"
local claim = require "spec.support.docs.claims"(it)

-- What the documents say, the file, and what must be in it.
local LIMITS <const> = {
  { "The headers of all responses to a request, redirects and trailers included, have a limit of 256 KB.",
    "csrc/http/client/client.h", "HEADERS_MAX = 256 * 1024 " },
  { "has one of 16 MB; each byte of headers and body allows for 64 more",
    "csrc/http/client/client.h", "WASTE_MAX = 16 << 20, WASTE_EACH = 64 " },
  { "Otherwise that happens after a minute without a request", "csrc/http/client/thread.c", "IDLE_MS = 60000 " },
  { "With libcurl 8.14.1 or newer (Debian 13)", "csrc/http/client/thread.c", "SHARES_SINCE = 0x080e01 " },
  { "requests that arrive within 0.25 s on open connections", "csrc/http/server/engine.c", "DRAIN = 250 * CLOCK_MS" },
  { "gets an answer that is given within 0.1 s", "csrc/http/server/advance.c", "GRACE = 100 * CLOCK_MS" },
  { "messages of 256 bytes or more are compressed", "csrc/websocket/deflate.h", "DEFLATE_LEAST = 256 " },
  { "After `conn:close()` the other end has 5 s to answer.", "lua/runnel/http/websocket/ws_connection.lua",
    "connection.patience = 5000" },
  { "Clients may resume a session for two hours", "csrc/tls/setup.c", "RESUMABLE = 2 * 60 * 60," },
  { "its keys change every 12 hours", "csrc/tls/tickets.c", "LIFE = 12 * 60 * 60 * 1000 " },
  { "for up to 2 s, until the other end has closed, too", "lua/runnel/uv/secure.lua",
    "SENDING_MS, LEAVING_MS = 10000, 2000" },
  { "looks for an interrupt every 1,000 instructions", "csrc/states/interruption.c", "COUNT = 1000 " },
  { "they can hold few connections (32), each for at most 3 seconds",
    "csrc/monitor/visitors.h", "MAX_VISITORS = 32, VISIT = 3000 " },
  { "A program that reaches neither within 2 s ends without writing it.",
    "csrc/host/runtime/interrupt.c", "END_S = 2 " },
  { "gives the state an allocator for objects of up to 1 KB", "csrc/lua/state/spans.h", "BLOCK_MAX = 1024," },
  { "(at the prompt of `runnel`: 50 ms)", "csrc/host/runtime/core.c", "PROMPT_GRACE = 50 * CLOCK_MS" },
  { "If such a call takes more than 50 ms, that is told on stderr", "csrc/lua/state/blocking.c",
    "LEAST = 50 * CLOCK_MS" },
  { "In a program with a server it is told after a second", "csrc/lua/state/blocking.c", "LATE = 1000 * CLOCK_MS" },
  { "rows beyond 256 KB are written to a temporary file", "csrc/sqlite/database.h", "PAGE_SIZE = 256 * 1024 " },
  { "The last 10,000 to 20,000 results of each name that were used are kept in memory, but none of more than 64 KB.",
    "lua/runnel/store/memory.lua", "LEAST <const>, LONGEST <const> = 10000, 1 << 16" },
  { "up to 64 files are kept open until they are read", "lua/runnel/uv/follow.lua", "MOST_KEPT = 64\n" },
  { "Other drivers wait at most 10 ms at a time while a port is open.", "csrc/blocks/driver.c",
    "MAX_WAIT_NO_WAKEUP_MS = 10 " },
  { "and lets other go blocks run after each 500", "lua/runnel/tracing/in_parts.lua", "PART <const> = 500\n" },
  { "A program that has not ended after 5 s says on stderr what it still waits for", "lua/runnel/internal/sigterm.lua",
    "patience = 5000 " },
  { "The state waits for them for a second", "csrc/lua/state/lua_thread.c", "PATIENCE = 1000 * CLOCK_MS" },
  { "The first picture has at most 256 KB", "csrc/monitor/server.c", "FIRST_BYTES = 256 * 1024," },
  { "`max_waiting` | integer (messages) | 65536 |", "lua/runnel/nats/connection.lua", "= 65536, 64 * 1024 * 1024\n" },
  { "`reconnect_buffer` | integer (bytes) | 8 MB |", "csrc/nats/connect.c", "RECONNECT_BUFFER = 8 * 1024 * 1024 " },
}

describe("the documents say of limits", function()
  for _, limit in ipairs(LIMITS) do
    local words, path, constant = table.unpack(limit)
    claim(words, function() assert.is_truthy(pages.read(path):find(constant, 1, true), path .. ": " .. constant) end)
  end

  claim("The exceptions are in 33 lines, which `tests/conditions.lua` lists", function()
    assert.equal(33, #dofile "tests/conditions.lua")
  end)
end)
