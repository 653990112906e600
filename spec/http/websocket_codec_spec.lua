-- The C module runnel.websocket.core: frames and messages of WebSocket, without sockets. The groups of cases are those
-- that a well-known test suite for the protocol has: framing, pings, reserved bits, opcodes, fragments, UTF-8, closing,
-- limits, compression.

local frames = require "spec.support.http.websocket_frames"

local is_built, lib = pcall(require, "runnel.websocket.core")
if not is_built then
  describe("the codec of WebSocket", function() pending "zlib is not installed" end)
  return
end

local frame, closing = frames.frame, frames.closing
local TEXT, BINARY, MORE = frames.TEXT, frames.BINARY, frames.CONTINUATION
local CLOSE, PING, PONG = frames.CLOSE, frames.PING, frames.PONG

local MAX = 1 << 20

-- What a session has made to be sent: a long frame of a server has two parts.
local function sent(bytes, more) return bytes .. (more or "") end

describe("the codec of WebSocket", function()
  local function server(max, bits) return lib.new(false, max or MAX, bits or 0) end
  local function client(max, bits) return lib.new(true, max or MAX, bits or 0) end

  -- What a session makes of bytes, as a list of strings. `step`: how many bytes it gets at once.
  local function told(session, bytes, step)
    local list = {}
    step = step or math.max(1, #bytes)
    for at = 1, #bytes, step do
      local piece = bytes:sub(at, at + step - 1)
      while true do
        local message, kind, a, b = session:receive(piece)
        piece = nil
        if message then list[#list + 1] = (kind and "binary " or "text ") .. message
        elseif not kind then break
        elseif kind == "failed" then list[#list + 1] = "failed " .. a
        elseif kind == "close" then list[#list + 1] = ("close %d %s"):format(a, b)
        else list[#list + 1] = ("%s %s"):format(kind, a) end
      end
    end
    return list
  end

  -- Checks what a server makes of bytes that come at once, byte by byte, and in some other sizes.
  local function check(expected, bytes, max, bits)
    assert.same(expected, told(server(max, bits), bytes))
    for _, step in ipairs { 1, 2, 3, 7, 997 } do
      if #bytes / step < 5000 then assert.same(expected, told(server(max, bits), bytes, step)) end
    end
  end

  local function more(payload, fin) return frame(MORE, payload, { fin = fin or false }) end
  local function first(payload, opcode) return frame(opcode or TEXT, payload, { fin = false }) end

  describe("frames", function()
    it("are messages of each length, in each form of the length", function()
      for _, length in ipairs { 0, 1, 125, 126, 127, 128, 65535, 65536, 100000 } do
        local text = ("*"):rep(length)
        check({ "text " .. text }, frame(TEXT, text))
        local bytes = ("\xFE"):rep(length)
        check({ "binary " .. bytes }, frame(BINARY, bytes))
      end
    end)

    it("follow each other in one piece of bytes", function()
      check({ "text a", "binary b", "ping c", "text " }, frame(TEXT, "a") .. frame(BINARY, "b") .. frame(PING, "c")
        .. frame(TEXT, ""))
    end)

    it("of a client have a mask, those of a server none", function()
      check({ "failed 1002" }, frame(TEXT, "a", { mask = false }))
      assert.same({ "failed 1002" }, told(client(), frame(TEXT, "a")))
      assert.same({ "text a" }, told(client(), frame(TEXT, "a", { mask = false })))
      check({ "text abcdefg" }, frame(TEXT, "abcdefg", { mask = "\0\0\0\0" }))
      check({ "text abcdefg" }, frame(TEXT, "abcdefg", { mask = "\xFF\x80\x7F\0" }))
    end)

    it("with a longer form of the length than needed are refused", function()
      for _, length in ipairs { 0, 125 } do
        check({ "failed 1002" }, frame(TEXT, ("x"):rep(length), { form = 16 }))
        check({ "failed 1002" }, frame(TEXT, ("x"):rep(length), { form = 64 }))
      end
      check({ "failed 1002" }, frame(TEXT, ("x"):rep(65535), { form = 64 }))
      check({ "text " .. ("x"):rep(126) }, frame(TEXT, ("x"):rep(126), { form = 16 }))
    end)

    it("with a negative length are refused", function()
      check({ "failed 1002" }, frame(BINARY, "x", { length = -1, form = 64 }))
      check({ "failed 1002" }, frame(BINARY, "x", { length = math.mininteger, form = 64 }))
    end)

    it("with a reserved bit are refused, in messages and between them", function()
      for rsv = 1, 7 do
        check({ "failed 1002" }, frame(TEXT, "x", { rsv = rsv }))
        check({ "text a", "failed 1002" }, frame(TEXT, "a") .. frame(BINARY, "x", { rsv = rsv }))
        check({ "text a", "failed 1002" }, frame(TEXT, "a") .. frame(PING, "x", { rsv = rsv }))
        check({ "failed 1002" }, frame(CLOSE, closing(1000), { rsv = rsv }))
      end
    end)

    it("with an opcode that RFC 6455 does not define are refused", function()
      for _, opcode in ipairs { 3, 4, 5, 6, 7, 11, 12, 13, 14, 15 } do
        check({ "text a", "failed 1002" }, frame(TEXT, "a") .. frame(opcode, ""))
        check({ "failed 1002" }, frame(opcode, "some bytes"))
      end
    end)

    it("that follow a refused one are not read", function()
      check({ "failed 1002" }, frame(3, "x") .. frame(TEXT, "a") .. frame(PING, "b"))
    end)
  end)

  describe("control frames", function()
    it("have up to 125 bytes of any kind", function()
      check({ "ping ", "pong " }, frame(PING, "") .. frame(PONG, ""))
      check({ "ping \0\xFF\xFE" }, frame(PING, "\0\xFF\xFE"))
      check({ "ping " .. ("x"):rep(125) }, frame(PING, ("x"):rep(125)))
      for _, opcode in ipairs { CLOSE, PING, PONG } do check({ "failed 1002" }, frame(opcode, ("x"):rep(126))) end
    end)

    it("come one by one, however many there are", function()
      local expected, bytes = {}, {}
      for i = 1, 10 do
        expected[i], bytes[i] = "ping " .. i, frame(PING, tostring(i))
      end
      check(expected, table.concat(bytes))
    end)

    it("come between the fragments of a message, which stays whole", function()
      check({ "ping 1", "pong 2", "text abc" },
        first "a" .. frame(PING, "1") .. more "b" .. frame(PONG, "2") .. more("c", true))
      check({ "close 1000 " }, first "a" .. frame(CLOSE, closing(1000)) .. more("b", true))
    end)

    it("in fragments are refused", function()
      for _, opcode in ipairs { CLOSE, PING, PONG } do
        check({ "failed 1002" }, frame(opcode, "a", { fin = false }) .. more("b", true))
      end
    end)
  end)

  describe("fragments", function()
    it("make one message, also empty ones", function()
      check({ "text abc" }, first "a" .. more "b" .. more("c", true))
      check({ "binary abc" }, first("a", BINARY) .. more "b" .. more("c", true))
      check({ "text " }, first "" .. more "" .. more("", true))
      check({ "text middle" }, first "" .. more "middle" .. more("", true))
    end)

    it("of another message within one are refused", function()
      check({ "failed 1002" }, first "a" .. frame(TEXT, "b"))
      check({ "failed 1002" }, first "a" .. first "b")
      check({ "failed 1002" }, first("a", BINARY) .. frame(TEXT, "b"))
    end)

    it("without a message to continue are refused", function()
      check({ "failed 1002" }, more "a")
      check({ "failed 1002" }, more("a", true))
      check({ "text ab", "failed 1002" }, first "a" .. more("b", true) .. more("c", true))
      check({ "text a", "failed 1002" }, frame(TEXT, "a") .. more("c", true))
      check({ "ping ", "failed 1002" }, frame(PING, "") .. more("c", true))
    end)

    it("of any number and size make the message that was sent", function()
      local text = ("0123456789abcdef"):rep(4096)
      for _, size in ipairs { 1, 64, 256, 1300, 4096, 65535 } do
        local bytes = { first "" }
        for at = 1, size == 1 and 2000 or #text, size do bytes[#bytes + 1] = more(text:sub(at, at + size - 1)) end
        bytes[#bytes + 1] = more("", true)
        local expected = size == 1 and text:sub(1, 2000) or text
        assert.same({ "text " .. expected }, told(server(), table.concat(bytes), 1021))
      end
    end)
  end)

  describe("texts", function()
    -- Of each border of UTF-8, what is still in it.
    local VALID = {
      "Hello-µ@ßöäüàá-UTF-8!!", "\u{0}", "\u{7F}", "\u{80}", "\u{7FF}", "\u{800}", "\u{FFFF}", "\u{10000}",
      "\u{10FFFF}", "\u{D7FF}", "\u{E000}", "\u{FFFD}", "\u{FFFE}", "\u{3BA}\u{1F79}\u{3C3}\u{3BC}\u{3B5}",
      ("x"):rep(15) .. "\u{1F600}" .. ("y"):rep(17),
    }
    -- What is not UTF-8, and at which byte that is certain; nil: only at the end.
    local WRONG = {
      { "\x80", 1 }, { "\xBF", 1 }, { "a\x80b", 2 }, { "\xC0\x80", 1 }, { "\xC1\xBF", 1 }, { "\xF5\x80\x80\x80", 1 },
      { "\xFE", 1 }, { "\xFF", 1 }, { "\xE0\x80\x80", 2 }, { "\xE0\x9F\xBF", 2 }, { "\xF0\x80\x80\x80", 2 },
      { "\xF0\x8F\xBF\xBF", 2 }, { "\xF4\x90\x80\x80", 2 }, { "\xED\xA0\x80", 2 }, { "\xED\xBF\xBF", 2 },
      { "\xED\xA0\x80\xED\xB0\x80", 2 }, { "\xC3(", 2 }, { "\xE2\x82(", 3 }, { "\xF0\x9F\x98(", 4 },
      { "\xF8\x88\x80\x80\x80", 1 }, { "\xFC\x84\x80\x80\x80\x80", 1 }, { "abcdefgh\xFFijklmnop", 9 },
      { "\xC3" }, { "\xE2\x82" }, { "\xF0\x9F\x98" }, { "abcdefgh\xE2" },
    }

    it("are UTF-8, at once, in fragments, and with a fragment for each byte", function()
      for _, text in ipairs(VALID) do
        check({ "text " .. text }, frame(TEXT, text))
        local bytes = { first "" }
        for i = 1, #text do bytes[#bytes + 1] = more(text:sub(i, i)) end
        check({ "text " .. text }, table.concat(bytes) .. more("", true))
      end
    end)

    it("that are not UTF-8 are refused with 1007, however they are cut", function()
      for _, case in ipairs(WRONG) do
        local text = case[1]
        check({ "failed 1007" }, frame(TEXT, text))
        local bytes = { first "" }
        for i = 1, #text do bytes[#bytes + 1] = more(text:sub(i, i)) end
        check({ "failed 1007" }, table.concat(bytes) .. more("", true))
        check({ "binary " .. text }, frame(BINARY, text))
      end
    end)

    it("are refused as soon as no further bytes could make them UTF-8", function()
      for _, case in ipairs(WRONG) do
        local text, at = case[1], case[2]
        if at then
          local session = server()
          local bytes = frame(TEXT, text)
          local head = #bytes - #text
          assert.same({}, told(session, bytes:sub(1, head + at - 1)))
          assert.same({ "failed 1007" }, told(session, bytes:sub(head + at, head + at)))
        end
      end
    end)

    it("that are sent are checked, too", function()
      for _, text in ipairs(VALID) do assert.is_string(server():text(text)) end
      for _, case in ipairs(WRONG) do assert.is_nil(server():text(case[1])) end
    end)
  end)

  describe("close frames", function()
    it("have a code and a reason, or none; what follows is not read", function()
      check({ "close 1005 " }, frame(CLOSE, ""))
      check({ "close 1000 " }, frame(CLOSE, closing(1000)))
      check({ "close 1000 bye – bye" }, frame(CLOSE, closing(1000, "bye – bye")))
      check({ "close 1001 " .. ("x"):rep(123) }, frame(CLOSE, closing(1001, ("x"):rep(123))))
      check({ "text a", "close 1000 " },
        frame(TEXT, "a") .. frame(CLOSE, closing(1000)) .. frame(TEXT, "b") .. frame(PING, "c") .. frame(3, "d"))
    end)

    it("have a code that is allowed on the wire", function()
      for _, code in ipairs { 1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000,
        4999 } do
        check({ ("close %d "):format(code) }, frame(CLOSE, closing(code)))
        assert.is_true(lib.is_code(code))
      end
      for _, code in ipairs { 0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535 } do
        check({ "failed 1002" }, frame(CLOSE, closing(code)))
        assert.is_false(lib.is_code(code))
      end
    end)

    it("with half a code are refused", function() check({ "failed 1002" }, frame(CLOSE, "\3")) end)

    it("with a reason that is not UTF-8 are refused", function()
      check({ "failed 1007" }, frame(CLOSE, closing(1000, "\xFF")))
      check({ "failed 1007" }, frame(CLOSE, closing(1000, "a\xE2\x82")))
    end)
  end)

  describe("the limit", function()
    it("is the length of the longest message #ci", function()
      check({ "text " .. ("x"):rep(1000) }, frame(TEXT, ("x"):rep(1000)), 1000)
      check({ "failed 1009" }, frame(TEXT, ("x"):rep(1001)), 1000)
      check({ "binary " .. ("x"):rep(1000), "binary y" },
        frame(BINARY, ("x"):rep(1000)) .. frame(BINARY, "y"), 1000)
      assert.same({ "text " .. ("x"):rep(MAX) }, told(server(), frame(TEXT, ("x"):rep(MAX)), 65536))
    end)

    it("is for all fragments together", function()
      check({ "failed 1009" }, first(("x"):rep(600)) .. more(("x"):rep(401), true), 1000)
      check({ "text " .. ("x"):rep(1000) }, first(("x"):rep(600)) .. more(("x"):rep(400), true), 1000)
    end)

    it("refuses a message by the length that its header announces", function()
      local session = server(1000)
      assert.same({ "failed 1009" }, told(session, frame(BINARY, "x", { length = 1 << 62, form = 64 })))
      assert.same({ "failed 1009" },
        told(server(1000), first "a" .. frame(MORE, "x", { length = math.maxinteger, form = 64 })))
    end)

    it("does not make announced bytes take memory before they arrive", function()
      collectgarbage()
      local sessions = {}
      for i = 1, 1000 do
        sessions[i] = server(1 << 30)
        assert.same({}, told(sessions[i], frame(BINARY, "x", { length = 1 << 29, form = 64 })))
      end
      -- 1,000 times half a gigabyte: more than any machine for specs has
    end)
  end)

  describe("what is sent", function()
    it("is one frame, which a client masks with a new key each time", function()
      for _, length in ipairs { 0, 1, 125, 126, 65535, 65536, 200000 } do
        local text = ("x"):rep(length)
        local list = frames.read(sent(server():text(text)))
        assert.same({ { opcode = TEXT, payload = text, fin = true, rsv = 0, mask = false } }, list)
        assert.equal(frame(TEXT, text, { mask = false }), sent(server():text(text)))
        local from_client = frames.read(client():binary(text))
        assert.same({ BINARY, text, 4, 1 },
          { from_client[1].opcode, from_client[1].payload, #from_client[1].mask, #from_client })
      end
      local keys, n, session = {}, 0, client()
      for _ = 1, 1000 do
        local key = frames.read(session:text "x")[1].mask
        if not keys[key] then n = n + 1 end
        keys[key] = true
      end
      assert.is_true(n > 995, "keys are repeated")
    end)

    it("can be pings, pongs and close frames", function()
      local session = server()
      assert.equal(frame(PING, "a", { mask = false }), session:ping "a")
      assert.equal(frame(PONG, ("a"):rep(125), { mask = false }), session:pong(("a"):rep(125)))
      assert.has_error(function() session:ping(("a"):rep(126)) end)
      assert.equal(frame(CLOSE, closing(1001, "bye"), { mask = false }), session:close(1001, "bye"))
      assert.equal(frame(CLOSE, "", { mask = false }), session:close())
      assert.equal(frame(CLOSE, "", { mask = false }), session:close(1005))
      assert.has_error(function() session:close(1006) end)
      assert.has_error(function() session:close(1000, ("a"):rep(124)) end)
    end)
  end)

  describe("compression", function()
    -- Bytes that compress well, and bytes that do not.
    local GOOD = ("the same again, "):rep(2000)
    local function noise(size)
      local bytes = {}
      for i = 1, size do bytes[i] = string.char(math.random(0, 255)) end
      return table.concat(bytes)
    end

    it("is used for messages that become shorter, in both directions #ci", function()
      for _, text in ipairs { GOOD, GOOD:sub(1, 256), "µ" .. GOOD, ("x"):rep(MAX) } do
        for _, bits in ipairs { 9, 12, 15 } do
          local sender, receiver = client(MAX, bits), server(MAX, 15)
          local bytes = sender:text(text)
          assert.is_true(#bytes < #text / 2)
          assert.equal(4, frames.read(bytes)[1].rsv)
          assert.same({ "text " .. text }, told(receiver, bytes, 1000))
          assert.same({ "text " .. text, "binary " .. text },
            told(client(MAX, 15), server(MAX, bits):text(text) .. server(MAX, bits):binary(text)))
        end
      end
      for _, text in ipairs { "", "short", GOOD:sub(1, 255), noise(300), noise(100000) } do
        local bytes = client(MAX, 15):binary(text)
        assert.equal(0, frames.read(bytes)[1].rsv)
        assert.same({ "binary " .. text }, told(server(MAX, 15), bytes))
      end
    end)

    -- The payload of a compressed message.
    local function compressed(text) return frames.read(server(MAX, 15):binary(text))[1].payload end

    it("is read in fragments of any size, with control frames between", function()
      local payload = compressed(GOOD)
      for _, size in ipairs { 1, 2, 3, 50 } do
        local bytes = { frame(TEXT, "", { fin = false, rsv = 4 }) }
        for at = 1, #payload, size do
          bytes[#bytes + 1] = more(payload:sub(at, at + size - 1))
          bytes[#bytes + 1] = frame(PONG, "")
        end
        bytes[#bytes + 1] = more("", true)
        local list = told(server(MAX, 15), table.concat(bytes))
        assert.equal("text " .. GOOD, list[#list])
      end
    end)

    it("may change from message to message", function()
      local list = told(server(MAX, 15), frame(TEXT, "plain") .. frame(BINARY, compressed(GOOD), { rsv = 4 })
        .. frame(TEXT, "plain") .. first "a" .. more("b", true) .. frame(BINARY, compressed(GOOD), { rsv = 4 }))
      assert.same({ "text plain", "binary " .. GOOD, "text plain", "text ab", "binary " .. GOOD }, list)
    end)

    it("reads what RFC 7692 gives as examples", function()
      check({ "text Hello" }, frame(TEXT, "\xF2\x48\xCD\xC9\xC9\x07\x00", { rsv = 4 }), MAX, 15) -- one block
      check({ "text Hello" }, frame(TEXT, "\xF2\x48\xCD", { rsv = 4, fin = false }) .. more("\xC9\xC9\x07\x00", true),
        MAX, 15) -- in fragments
      check({ "text Hello" }, frame(TEXT, "\x00\x05\x00\xFA\xFF\x48\x65\x6C\x6C\x6F\x00", { rsv = 4 }), MAX,
        15) -- stored
      check({ "text Hello" }, frame(TEXT, "\xF3\x48\xCD\xC9\xC9\x07\x00\x00", { rsv = 4 }), MAX, 15) -- a last block
      check({ "text Hello" },
        frame(TEXT, "\xF2\x48\x05\x00\x00\x00\xFF\xFF\xCA\xC9\xC9\x07\x00", { rsv = 4 }), MAX, 15) -- two blocks
      check({ "text " }, frame(TEXT, "\0", { rsv = 4 }), MAX, 15) -- empty
    end)

    it("is refused where it was not agreed on, in continuations and in control frames", function()
      check({ "failed 1002" }, frame(TEXT, compressed(GOOD), { rsv = 4 }))
      check({ "failed 1002" }, first "a" .. frame(MORE, "b", { rsv = 4 }), MAX, 15)
      check({ "failed 1002" }, frame(PING, "b", { rsv = 4 }), MAX, 15)
      for _, rsv in ipairs { 1, 2, 3, 5, 6, 7 } do
        check({ "failed 1002" }, frame(TEXT, "b", { rsv = rsv }), MAX, 15)
      end
    end)

    it("refuses damaged and incomplete data, and texts that are not UTF-8", function()
      check({ "failed 1007" }, frame(BINARY, "\xFF\xFF\xFF\xFF", { rsv = 4 }), MAX, 15)
      local payload = compressed(GOOD)
      check({ "failed 1007" }, frame(BINARY, payload:sub(1, -10), { rsv = 4 }), MAX, 15)
      check({ "failed 1007" }, frame(TEXT, compressed(("\xFF"):rep(300)), { rsv = 4 }), MAX, 15)
      check({ "failed 1007" }, frame(TEXT, compressed(("a"):rep(300) .. "\xE2\x82"), { rsv = 4 }), MAX, 15)
    end)

    it("does not get around the limit: a small frame that becomes large is refused on the way", function()
      local bomb = compressed(("\0"):rep(10 << 20))
      assert.is_true(#bomb < 100000)
      check({ "failed 1009" }, frame(BINARY, bomb, { rsv = 4 }), 1000, 15)
      assert.same({ "failed 1009" }, told(server(MAX, 15), frame(BINARY, bomb, { rsv = 4 })))
      check({ "binary " .. ("\0"):rep(1000) }, frame(BINARY, compressed(("\0"):rep(1000)), { rsv = 4 }), 1000, 15)
      check({ "failed 1009" }, frame(BINARY, compressed(("\0"):rep(1001)), { rsv = 4 }), 1000, 15)
    end)
  end)

  it("gives what was sent, for random messages, fragments and pieces, in both directions #ci", function()
    local function random_text()
      local parts = {}
      for i = 1, math.random(0, 60) do
        local most = ({ 0x7F, 0x7FF, 0xD7FF, 0x10FFFF })[math.random(4)]
        local code = math.random(0, most)
        parts[i] = utf8.char(code >= 0xD800 and code <= 0xDFFF and 0x41 or code)
      end
      return table.concat(parts):rep(math.random(1, math.random(10) == 1 and 200 or 5))
    end
    local function random_bytes() return string.pack(">i8", math.random(0)):rep(math.random(0, 40)) end
    -- A message as frames: of the session, or in fragments with control frames between.
    local function encode(from, is_client, kind, payload, expected)
      if math.random(2) == 1 then
        expected[#expected + 1] = kind .. " " .. payload
        if kind == "text" then return sent(from:text(payload)) end
        return sent(from:binary(payload))
      end
      local mask = is_client and string.pack(">I4", math.random(0, 0xFFFFFFFF))
      local opcode, bytes = kind == "text" and TEXT or BINARY, {}
      local parts = frames.pieces(payload, 100)
      parts[#parts + 1] = ""
      for i, part in ipairs(parts) do
        bytes[#bytes + 1] = frame(i == 1 and opcode or MORE, part, { fin = i == #parts, mask = mask })
        if i < #parts and math.random(4) == 1 then
          local ping = ("p"):rep(math.random(0, 125))
          bytes[#bytes + 1] = from:ping(ping)
          expected[#expected + 1] = "ping " .. ping
        end
      end
      expected[#expected + 1] = kind .. " " .. payload
      return table.concat(bytes)
    end
    for seed = 1, 60 do
      math.randomseed(seed)
      local bits = seed % 3 == 0 and 0 or 9 + seed % 7
      local ends = { client(MAX, bits), server(MAX, bits) }
      for from = 1, 2 do
        local to, expected, bytes = ends[3 - from], {}, {}
        for i = 1, math.random(1, 12) do
          local kind = math.random(2) == 1 and "text" or "binary"
          bytes[i] = encode(ends[from], from == 1, kind, kind == "text" and random_text() or random_bytes(), expected)
        end
        local found = {}
        for _, piece in ipairs(frames.pieces(table.concat(bytes), math.random(2) == 1 and 5 or 3000)) do
          for _, event in ipairs(told(to, piece)) do found[#found + 1] = event end
        end
        assert.same(expected, found, "with the seed " .. seed)
      end
    end
  end)

  it("computes the answer to a key as RFC 6455 gives it, and makes keys of 16 random bytes", function()
    assert.equal("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", lib.accept "dGhlIHNhbXBsZSBub25jZQ==")
    assert.has_error(function() lib.accept "short" end)
    local one, other = lib.key(), lib.key()
    assert.match("^[%w+/]+==$", one)
    assert.equal(24, #one)
    assert.not_equal(one, other)
  end)
end)
