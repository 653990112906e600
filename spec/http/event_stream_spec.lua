-- text/event-stream: events as text, and text as events.

local event_stream = require "runnel.http.event_stream"

-- The events of a text that comes in pieces: each as "type|data|id"; the last id and the time; and whether it was good.
local function parse(pieces, id, max)
  local parser, list, ok = event_stream.parser(id, max or 1 << 20), {}, true
  for _, piece in ipairs(pieces) do
    local events
    events, ok = parser:feed(piece)
    for _, event in ipairs(events) do
      list[#list + 1] = ("%s|%s|%s"):format(event.event, event.data, event.id or "-")
    end
    if not ok then break end
  end
  return list, parser, ok
end

local function events(text, id) return (parse({ text }, id)) end

-- What the standard says, in its order of steps, for the whole of a text. Slow and plain, to compare with.
local function by_the_standard(text)
  local list, data, kind, id, last_id, retry = {}, "", "", "", "", nil
  text = text:gsub("^\u{FEFF}", ""):gsub("\r\n", "\n"):gsub("\r", "\n")
  for line in text:gmatch "([^\n]*)\n" do
    local name, value = line:match "^([^:]*):? ?(.*)$"
    if not line:find ":" then name, value = line, "" end
    if line == "" then
      last_id = id
      if data ~= "" then
        list[#list + 1] = ("%s|%s|%s"):format(kind == "" and "message" or kind, data:sub(1, -2),
          last_id == "" and "-" or last_id)
      end
      data, kind = "", ""
    elseif name == "event" then
      kind = value
    elseif name == "data" then
      data = data .. value .. "\n"
    elseif name == "id" and not value:find "\0" then
      id = value
    elseif name == "retry" and value:find "^[0-9]+$" then
      retry = tonumber(value)
    end
  end
  return list, last_id, retry
end

describe("text/event-stream: reading", function()
  it("gives an event at each blank line, with its type, data and id", function()
    assert.same({ "message|a|-", "add|b|7" }, events "data: a\n\nevent: add\ndata: b\nid: 7\n\n")
  end)

  it("takes one blank from the beginning of a value, and none where there is no colon", function()
    assert.same({ "message| a|-", "message|b|-", "message|\n|-" }, events "data:  a\n\ndata:b\n\ndata\ndata:\n\n")
  end)

  it("joins lines of data by newlines, whichever ends they have", function()
    assert.same({ "message|a\nb\nc|-" }, events "data:a\rdata:b\r\ndata:c\n\r\n")
    assert.same({ "message|a|-", "message|b|-" }, events "data:a\r\rdata:b\r\r")
  end)

  it("gives no event without data, and forgets its type", function()
    assert.same({ "message|a|-" }, events "event: x\n\ndata: a\n\n")
  end)

  it("gives an event whose data are empty", function()
    assert.same({ "message||-" }, events "data\n\n")
  end)

  it("drops an event that is not complete, and its id", function()
    local list, parser = parse { "id: 1\ndata: a\n\nid: 2\ndata: b\n" }
    assert.same({ "message|a|1" }, list)
    assert.equal("1", parser.id)
  end)

  it("keeps the last id for events without one, also from the previous connection; an empty id removes it", function()
    assert.same({ "message|a|0", "message|b|1", "message|c|1", "message|d|-" },
      events("data:a\n\nid:1\ndata:b\n\ndata:c\n\nid\ndata:d\n\n", "0"))
  end)

  it("notes an id without data", function()
    local _, parser = parse { "id: 5\n\n" }
    assert.equal("5", parser.id)
  end)

  it("ignores an id with a zero byte, comments, unknown fields, and names in capitals", function()
    assert.same({ "message|a|-" }, events ":hello\nid: 1\0\nData: b\ndata : c\nother: d\ndata: a\n\n")
  end)

  it("takes the time to wait only if it has only digits", function()
    local function retry(text) return select(2, parse { text }).retry end
    assert.equal(250, retry "retry: 250\n")
    assert.equal(250, retry "retry: 250\nretry: 1s\nretry: -1\nretry: 1.5\nretry:\nretry: 0x10\n")
    assert.equal(250, retry "retry: 250\nretry: 99999999999999999999999999\n")
  end)

  it("ignores one byte order mark at the beginning", function()
    assert.same({ "message|a|-" }, events "\u{FEFF}data: a\n\n")
    assert.same({}, events "\u{FEFF}\u{FEFF}data: a\n\n")
    assert.same({ "message|a|-" }, events "data: a\n\u{FEFF}data: b\n\n")
  end)

  it("does the same however the text is cut into pieces, and as the standard says", function()
    local words = { "data", "event", "id", "retry", ":", ": ", " ", "\n", "\n", "\r", "\r\n", "\n\n", "a", "1", "0",
      "\0", "\u{FEFF}", "ä", "\ndata:x" }
    for _ = 1, 2000 do
      local text = {}
      for i = 1, math.random(40) do text[i] = words[math.random(#words)] end
      text = table.concat(text)
      local pieces, from = {}, 1
      while from <= #text do
        local to = math.min(#text, from + math.random(0, 6))
        pieces[#pieces + 1] = text:sub(from, to)
        if math.random(5) == 1 then pieces[#pieces + 1] = "" end
        from = to + 1
      end
      local expected, id, retry = by_the_standard(text)
      local list, parser = parse(pieces)
      assert.same({ expected, id, retry }, { list, parser.id, parser.retry }, ("%q"):format(text))
    end
  end)

  it("refuses an event that is too long: by its lines, by one line, by a line that does not end", function()
    local line = "data: " .. ("x"):rep(10) .. "\n"
    for _, text in ipairs { line:rep(7), "data: " .. ("x"):rep(100) .. "\n", ("x"):rep(101) } do
      local _, _, ok = parse({ text }, nil, 100)
      assert.is_false(ok)
      local pieces = {}
      for i = 1, #text do pieces[i] = text:sub(i, i) end
      _, _, ok = parse(pieces, nil, 100)
      assert.is_false(ok)
    end
    local list, _, ok = parse({ (line:rep(5) .. "\n"):rep(50), (":" .. ("c"):rep(90) .. "\n"):rep(50) }, nil, 100)
    assert.is_true(ok)
    assert.equal(50, #list)
  end)

  it("reads data as JSON", function()
    local list = event_stream.parser(nil, 100):feed 'data: {"a":1}\n\ndata: {\n\n'
    assert.same({ a = 1 }, list[1]:json())
    assert.same({ n = 2, nil, "string" }, { n = 2, nil, type((select(2, list[2]:json()))) })
  end)
end)

describe("text/event-stream: writing", function()
  local encode = event_stream.encode

  it("writes the fields of an event, and the data line by line", function()
    assert.equal("data: a\n\n", encode "a")
    assert.equal("event: add\nid: 7\nretry: 100\ndata: a\ndata: b\n\n",
      encode { event = "add", id = 7, retry = 100, data = "a\nb" })
    assert.equal('data: {"a":[1]}\n\n', encode { data = { a = { 1 } } })
    assert.equal("data: \n\n", encode "")
    assert.equal("retry: 5\n\n", encode { retry = 5.0 })
  end)

  it("writes an event so that reading gives the same event", function()
    local parts = { "a", "\n", "\r", "\r\n", ":", " ", "data: x", "\n\n", "id: 1", "" }
    for _ = 1, 500 do
      local data = {}
      for i = 1, math.random(10) do data[i] = parts[math.random(#parts)] end
      data = table.concat(data)
      local text = assert(encode { data = data, event = "e", id = "i" })
      local expected = data:gsub("\r\n", "\n"):gsub("\r", "\n")
      assert.same({ "e|" .. expected .. "|i" }, (events(text)))
    end
  end)

  it("says what is wrong with an event", function()
    for message, event in pairs {
      ["a table or a string expected, got a boolean"] = true,
      ["a field expected: data, event, id or retry"] = {},
      ["unknown field \"dat\"; known: data, event, id, retry"] = { dat = "a" },
      ["event: a line break in \"a\\\nid: 1\""] = { event = "a\nid: 1" },
      ["id: a line break or a zero byte in \"a\\r\""] = { id = "a\r" },
      ["id: a line break or a zero byte in \"\\0\""] = { id = "\0" },
      ["event: a string expected, got a table"] = { event = {} },
      ["retry: an integer of at least 0, in ms, expected, got -1"] = { retry = -1 },
      ["data: a string, a number, or a table for JSON expected, got a function"] = { data = print },
      ["data.f: a function cannot be sent"] = { data = { f = print } },
    } do
      local text, err = encode(event)
      assert.is_nil(text)
      assert.equal("an event of a response: " .. message:gsub("\\r", "\\13"), err)
    end
  end)
end)
