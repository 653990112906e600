-- Which requests http.serve, Node's server and Go's server read differently. The requests are random changes of the
-- vectors of spec/http/vectors.lua.
--
--   build/bin/runnel tests/http/http_differences.lua [SECONDS] [SEED]     see http_changes.lua
--
-- Prints the kinds of difference with the shortest requests of each. The manual says which of the three is right
-- (docs/manual/http-server.md). It is a failure only if http.serve and another server both accept the same bytes, but
-- as different requests.
--
-- A server accepts the bytes if it then also answers the probe that follows them. Otherwise it has refused them, or
-- they are incomplete; but it may have accepted a request before that.

local http = require "runnel.http"
local rn = require "runnel"
local uv = require "runnel.uv"

local background = require "spec.support.background"
local service = require "spec.support.http.service"
local changes = dofile "tests/http/http_changes.lua"

local AT_ONCE <const> = 40 -- how many requests are on their way
local PATIENCE <const> = 250 -- ms that a server may take to answer; longer to confirm a difference

-- ---- the servers ----

-- Each one answers with the method, the target, the header X-A and the body that it has read, in hexadecimal.

local NODE <const> = [[
const hex = (s) => Buffer.from(s, "latin1").toString("hex");
require("http").createServer((req, res) => {
  const body = [];
  req.on("data", (piece) => body.push(piece));
  req.on("end", () => {
    const seen = [hex(req.method), hex(req.url), hex(req.headers["x-a"] || ""), Buffer.concat(body).toString("hex")];
    res.writeHead(200, { "X-Seen": seen.join("."), "Content-Length": 0 });
    res.end();
  });
}).listen(0, "127.0.0.1", function () { console.log(this.address().port); });
]]

local GO <const> = [[
package main

import (
  "fmt"
  "io"
  "log"
  "net"
  "net/http"
  "strings"
)

func main() {
  log.SetOutput(io.Discard)
  listener, err := net.Listen("tcp", "127.0.0.1:0")
  if err != nil {
    panic(err)
  }
  fmt.Println(listener.Addr().(*net.TCPAddr).Port)
  http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
    body, err := io.ReadAll(r.Body)
    if err != nil {
      w.Header().Set("Connection", "close")
      w.WriteHeader(400)
      return
    }
    a := strings.Join(r.Header["X-A"], ", ")
    w.Header().Set("X-Seen", fmt.Sprintf("%x.%x.%x.%x", r.Method, r.RequestURI, a, body))
    w.Header().Set("Content-Length", "0")
  }))
}
]]

local function hex(s) return (s:gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end

-- Starts a server, which prints its port.
local function start(set, ...)
  local program = set:start { ... }
  assert(program:says "\n", program:output())
  return math.tointeger(tonumber((program:output():match "^%d+")))
end

-- ---- asking them ----

local PROBE <const> = "GET /probe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
local OPTIONS <const> = hex "OPTIONS" .. "." .. hex "*" .. "." -- Go answers it itself
local PROBED <const> = table.concat({ hex "GET", hex "/probe", "", "" }, ".")

-- Returns the requests that a server has read, as text, and whether it has accepted all.
local function ask(port, bytes, patience)
  local conn <close> = assert(uv.connect("127.0.0.1", port))
  local pieces, pieces_ch, timeout = {}, conn:read(), rn.timeout(patience)
  rn.go(function() conn:write(bytes .. PROBE) end)
  while true do
    local piece, from = rn.alts { pieces_ch, timeout }
    if not piece or from == timeout then break end
    pieces[#pieces + 1] = piece
  end
  local seen, accepts = {}, false
  for text in table.concat(pieces):gmatch "[Xx]%-[Ss]een: ([%x.]*)" do
    accepts = text == PROBED
    if not accepts and not text:find(OPTIONS, 1, true) then seen[#seen + 1] = text end
  end
  return { seen = seen, text = table.concat(seen, " "), accepts = accepts }
end

-- Node drops the answer to a request if a wrong one follows at once: its list may be shorter than ours.
local function has_more(other, ours)
  for i, text in ipairs(other.seen) do
    if ours.seen[i] ~= text then return true end
  end
  return false
end

local NAMES <const> = { "here", "Node", "Go" }

-- The kind of difference between the servers, as text; nil if there is none.
local function compare(ports, bytes, patience)
  local asks, answers = {}, {}
  for i, port in ipairs(ports) do asks[i] = rn.go(ask, port, bytes, patience) end
  for i, answer in ipairs(asks) do answers[i] = assert(answer:take()) end
  local ours, words, differs = answers[1], {}, false
  for i, answer in ipairs(answers) do
    local is_other = i > 1 and answer.accepts and ours.accepts and answer.text ~= ours.text
    local is_more = i > 1 and not (answer.accepts and ours.accepts) and has_more(answer, ours)
    words[i] = NAMES[i] .. (answer.accepts and " accepts" or " refuses")
      .. (is_other and " as another request" or is_more and " after a request more" or "")
    differs = differs or is_other or is_more or answer.accepts ~= ours.accepts
  end
  return differs and table.concat(words, ", ") or nil
end

-- Removes parts of a request while the kind of difference stays the same, but not its method, since Node knows only
-- some methods.
local function shorten(bytes, kind, ports)
  local size, from = 16, #bytes:match "^%s*%a*" + 1
  while size > 0 do
    local at, has_shortened = from, false
    while at <= #bytes do
      local shorter = bytes:sub(1, at - 1) .. bytes:sub(at + size)
      if #shorter < #bytes and compare(ports, shorter, PATIENCE) == kind then bytes, has_shortened = shorter, true
      else at = at + size end
    end
    if not (size == 1 and has_shortened) then size = size // 2 end
  end
  return bytes
end

-- ---- the run ----

for _, name in ipairs { "node", "go" } do
  if not uv.run { name, name == "go" and "version" or "--version" } then
    print(("check-differences: skipped: there is no %s"):format(name))
    os.exit(77)
  end
end

local set <close> = background.set()
local built = uv.run { "go", "build", "-o", set.dir .. "/server", set:write("server.go", GO), stderr = "stdout" }
assert(built.code == 0, built.stdout)
local node_port = start(set, "node", set:write("server.js", NODE))
local go_port = start(set, set.dir .. "/server")
rn.on_error(function() end) -- bodies that are cut
local server = assert(http.serve(0, service.around(function(req)
  local body = req:body()
  local seen = { hex(req.method), hex(req.target), hex(req.headers["x-a"] or ""), hex(body) }
  return 200, { ["X-Seen"] = table.concat(seen, "."), ["Content-Length"] = 0 }
end)))
local ports = { server.port, node_port, go_port }
local versions = uv.run { "node", "--version" }.stdout .. uv.run { "go", "version" }.stdout
print((versions:gsub("\n", " ")))

local kinds, requests = {}, 0
local deadline = rn.now() + changes.seconds * 1000

-- Counts a difference. Shortening takes long, so it is done for the first ones of a kind, and for some later ones.
local function note(kind, bytes)
  local found = kinds[kind] or { count = 0, shown = {} }
  kinds[kind] = found
  found.count = found.count + 1
  if found.count > 40 and found.count % 20 ~= 0 then return end
  local short = shorten(bytes, kind, ports)
  found.shown[short] = (found.shown[short] or 0) + 1
end

local function run()
  while rn.now() < deadline do
    local bytes = changes.random()
    requests = requests + 1
    local kind = compare(ports, bytes, PATIENCE)
    if kind and compare(ports, bytes, PATIENCE * 4) == kind then note(kind, bytes) end
  end
end

local blocks = {}
for i = 1, AT_ONCE do blocks[i] = rn.go(run) end
for _, block in ipairs(blocks) do block:take() end

print(("%d requests"):format(requests))
local failed = false
for kind, found in pairs(kinds) do
  failed = failed or kind:find("^here accepts") and kind:find "another"
  print(("\n%d: %s"):format(found.count, kind))
  local list = {}
  for short in pairs(found.shown) do list[#list + 1] = short end
  table.sort(list, function(a, b) return #a < #b or (#a == #b and a < b) end)
  for _, short in ipairs(list) do
    print((("  %4d  %q"):format(found.shown[short], short):gsub("\\\n", "\\n")))
  end
end
os.exit(not failed, true)
