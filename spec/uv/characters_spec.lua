-- The option text of uv.read and reader:pieces: no piece ends within a character of UTF-8.

local both = require "spec.support.in_world"(it)
local characters = require "runnel.uv.characters"
local raises = require "spec.support.raises"
local rn = require "runnel"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

local has_luv, luv = pcall(require, "luv")

-- Characters of each length, and bytes that are none.
local TEXT = "a\u{e9}\u{20ac}\u{1f600}z\u{7ff}\u{800}\u{ffff}\u{10ffff}"
local BROKEN = "\xff\x80a\xc3b\xf5\xe2\x82"

describe("the option text", function()
  if not has_luv then return pending "luv is not installed" end
  local uv = require "runnel.uv"
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  it("knows how many bytes of a character have come", function()
    for _, case in ipairs {
      { "", 0 }, { "a", 0 }, { "\xc3", 1 }, { "\xc3\xa9", 0 }, { "\xe2", 1 }, { "a\xe2\x82", 2 }, { "\xe2\x82\xac", 0 },
      { "\xf0\x9f\x98", 3 }, { "\xf0\x9f\x98\x80", 0 }, { "\xf5", 0 }, { "\xff", 0 }, { "\x80", 0 }, { "\xc3a", 0 },
      { "\xe2a", 0 }, { "\xf0aa", 0 }, { "\xc2", 1 }, { "\xc1", 0 }, { "\xf4", 1 },
      { "\x80\x80\x80\x80", 0 },
    } do
      assert.equal(case[2], characters.incomplete(case[1]), ("%q"):format(case[1]))
    end
  end)

  it("tells what waits for the rest of a character, until that or the end comes", function()
    local unread, got = {}, {}
    local put = characters.aligned(function(chunk) return table.insert(got, chunk) == nil end, unread)
    local function held(chunk)
      assert.is_true(put(chunk))
      return unread.held
    end
    assert.same({ "\xe2\x82", "", "\xc3", "" }, { held "a\xe2\x82", held "\xac", held "\xc3", held(nil) })
    assert.same({ "a", "\u{20ac}", "\xc3" }, got)
  end)

  -- All ways to cut a text into three.
  local function each_cut(text, f)
    for i = 0, #text do
      for j = i, #text do
        local list = {}
        for _, piece in ipairs { text:sub(1, i), text:sub(i + 1, j), text:sub(j + 1) } do
          if piece ~= "" then list[#list + 1] = piece end
        end
        f(list)
      end
    end
  end

  it("cuts no character of a reader's pieces, however the text comes, and loses no byte", function()
    each_cut(TEXT, function(list)
      local got = {}
      for piece in uv.reader(rn.to_chan(list)):pieces { text = true } do
        assert.is_truthy(utf8.len(piece))
        got[#got + 1] = piece
      end
      assert.equal(TEXT, table.concat(got))
    end)
    each_cut(BROKEN, function(list)
      assert.equal(BROKEN, table.concat(stage.drain(rn.to_chan(uv.reader(rn.to_chan(list)):pieces { text = true }))))
    end)
  end)

  it("cuts no character of uv.read, however the text comes, and loses no byte", function()
    for _, text in ipairs { TEXT, BROKEN } do
      local fds = luv.pipe({ nonblock = true }, { nonblock = true })
      local pieces, got, sent = uv.read(fds.read, { text = true }), {}, 0
      rn.go(function()
        for byte in text:gmatch "." do
          luv.fs_write(fds.write, byte)
          sent = sent + 1
          rn.sleep(1)
        end
        luv.fs_close(fds.write)
      end)
      for piece in pieces do
        if text == TEXT then assert.is_truthy(utf8.len(piece)) end
        got[#got + 1] = piece
      end
      assert.equal(text, table.concat(got))
      assert.equal(#text, sent)
    end
  end)

  both("holds for a file that is longer than one read", function()
    local text = "x" .. ("\u{20ac}"):rep(100000) .. "\xe2"
    local path = os.tmpname()
    local file <close> = assert(io.open(path, "w"))
    file:write(text)
    file:close()
    local got = {}
    for piece in uv.read(path, { text = true }) do got[#got + 1] = piece end
    os.remove(path)
    assert.is_true(table.concat(got) == text)
    assert.is_true(#got > 1)
    for i = 1, #got - 1 do assert.is_truthy(utf8.len(got[i])) end
  end)

  it("leaves the beginning of a character to the next reader of standard input", function()
    local path = uv_stage.path() -- is there once the rest may come
    assert.equal("a\n\u{20ac}\n", stage.script(([[
      local uv = require "runnel.uv"
      local first = uv.read(0, { text = true })
      print(first:take())
      first:close()
      io.open(%q, "w"):close()
      print(uv.read(0, { text = true }):take())
    ]]):format(path), ([[(printf 'a\342'; until [ -e %s ]; do sleep 0.01; done; printf '\202\254') |]]):format(path)))
    os.remove(path)
  end)

  it("is true or false", function()
    raises("read: text: true or false expected", function() uv.read("file", { text = 1 }) end)
    raises("reader:pieces: unknown option", function() uv.reader(rn.to_chan {}):pieces { txt = true } end)
  end)
end)
