-- The search of the documents: what it finds, and that the site and the prompt find the same.

local long = require "spec.support.long"
local doc = require "runnel.prompt.doc"
local documents = require "spec.support.docs.search"
local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"
local search = require "runnel.prompt.search"
local sections = require "scripts.docs.sections"
local words = require "runnel.prompt.words"

local SETS = { "spec/docs/search/asked.txt", "spec/docs/search/further.txt" }

-- What the executable has built in, for the other interpreters that run specs.
local code = documents.module()
local index = search.index(assert(load(code))())
package.preload["runnel.host.manual_tables"] = documents.manual

describe("the search of the documents", function()
  for _, path in ipairs(SETS) do
    it("has the answers to five of six questions among its first three sections #ci: " .. path, function()
      local questions, missed = documents.questions(path), {}
      for _, question in ipairs(questions) do
        local answered = false
        for _, section in ipairs(search.find(index, question.text, 3)) do
          for _, answer in ipairs(question.pages) do answered = answered or documents.is_answer(answer, section) end
        end
        if not answered then missed[#missed + 1] = question.text end
      end
      assert.is_true(#questions > 50)
      assert.is_true(#missed <= #questions / 6, table.concat(missed, "\n"))
    end)

    it("is asked for sections that exist #ci: " .. path, function()
      for _, question in ipairs(documents.questions(path)) do
        for _, answer in ipairs(question.pages) do
          local exists = false
          for _, section in ipairs(index.sections) do exists = exists or documents.is_answer(answer, section) end
          assert.is_true(exists, answer)
        end
      end
    end)
  end

  it("knows other words for each page of the manual, and for no section that there is not: docs/search.txt", function()
    local given, exists = require "scripts.docs.search_words" "docs/search.txt", {}
    for _, section in ipairs(index.sections) do
      exists[section.page .. (section.id == "" and "" or "#" .. section.id)] = true
    end
    for place in pairs(given.keywords) do assert.is_true(exists[place], "there is no " .. place) end
    for _, page in ipairs(pages.of "docs/manual") do
      assert.is_truthy(given.keywords[page], "there are no words for " .. page)
    end
  end)

  it("gives the sections with all words first, and those with some of them after that", function()
    local found = search.find(index, "sliding xyzzyqwx buffer", 200)
    local both = search.find(index, "sliding buffer", 200)
    assert.same(both, found)
    assert.is_true(#both > #search.find(index, "sliding", 200))
    local is_whole, text = true, nil
    for i, section in ipairs(both) do
      if i <= 3 then
        for _, one in ipairs(sections.of(section.page)) do
          if one.title == section.title then text = table.concat(one.lines, "\n"):lower() end
        end
        is_whole = is_whole and text:find "sliding" and text:find "buffer"
      end
    end
    assert.is_truthy(is_whole)
  end)

  it("finds a word in its other forms, what begins with it, and what differs by a letter", function()
    local function first(question) return search.find(index, question, 1)[1] end
    assert.same(first "cancelling", first "cancelled")
    for _, question in ipairs { "websock", "websokcet", "webscket", "websockets" } do
      assert.equal("docs/manual/websocket.md", first(question).page, question)
    end
    assert.same({}, search.find(index, "xyzzyqwx", 10))
    assert.same({}, search.find(index, "?!", 10))
  end)

  it("leaves out words that say nothing, unless there are no others", function()
    assert.same(search.find(index, "race condition", 12), search.find(index, "what is a race condition?", 12))
    assert.same({ "how", "do" }, words.asked "how do")
  end)

  it("gives the changelog, performance and the pages for developers after other pages", function()
    local late = { ["CHANGELOG.md"] = true, ["docs/performance.md"] = true, ["docs/architecture.md"] = true,
      ["docs/where.md"] = true, ["docs/keepers.md"] = true, ["docs/rejected.md"] = true, ["CONTRIBUTING.md"] = true }
    for _, question in ipairs { "buffer", "scheduler", "sqlite", "threads", "http server", "memory", "timeout" } do
      for i, section in ipairs(search.find(index, question, 5)) do
        assert.is_nil(late[section.page], question .. ": " .. section.page .. " is number " .. i)
      end
    end
  end)

  it("has a small index", function() assert.is_true(#code < 140 * 1024, #code .. " bytes") end)

  it("finds the same sections in the same order on the site and at the prompt #ci", function()
    if not os.execute "command -v node >/dev/null" then return pending "node is not installed" end
    local questions = { "ch:put", "rn.pmap(8, f, list)", "conn:source", "m:respond", "max_header", "sl", "websokcet",
      "HTTPS", "don't block the reader's side", "what is it", "C", "?!", "", "e-mail 10 GB", "Größe", "process's exit" }
    for _, path in ipairs(SETS) do
      for _, question in ipairs(documents.questions(path)) do questions[#questions + 1] = question.text end
    end
    for word in pairs(index.words) do
      if #questions < long.times(400, 1500) then
        questions[#questions + 1] = word:sub(1, 1 + #questions % 9) .. " " .. questions[1 + #questions % 150]
      end
    end
    local dir <close> = process.directory()
    dir:write("index.lua", code)
    dir:write("questions", table.concat(questions, "\n"))
    dir:write("find.mjs", [[
      import { readFileSync } from "node:fs";
      import { pathToFileURL } from "node:url";
      const [, , script, code, questions] = process.argv;
      const { find, indexOf } = await import(pathToFileURL(script));
      const index = indexOf(/\[=\[\n([^]*)\]=\]/.exec(readFileSync(code, "utf8"))[1]);
      for (const question of readFileSync(questions, "utf8").split("\n")) {
        console.log(find(index, question, 12).map(({ page, id }) => `${page}#${id}`).join(" "));
      }
    ]])
    local root = assert(io.popen "pwd"):read "l"
    local result = process.run(dir.path, ("node find.mjs '%s/site/pages/search.js' index.lua questions"):format(root))
    assert.equal(0, result.status, result.err)
    local n = 0
    for line in result.out:gmatch "([^\n]*)\n" do
      n = n + 1
      local found = {}
      for i, section in ipairs(search.find(index, questions[n], 12)) do found[i] = section.page .. "#" .. section.id end
      assert.equal(table.concat(found, " "), line, questions[n])
    end
    assert.equal(#questions, n)
  end)
end)

describe(":doc", function()
  -- The names of functions, methods and fields in the manual, each with whether a row or a paragraph begins with it.
  local function names()
    local described = {}
    for _, page in ipairs(pages.of "docs/manual") do
      local in_code, before = page:find "c%-api", ""
      for line in pages.read(page):gmatch "[^\n]*" do
        if line:find "^```" and not page:find "c%-api" then in_code = not in_code end
        local head = line:match "^| (`.-) |" or before == "" and line:match "^%-? ?`[^`]+` " or ""
        for span in line:gmatch "`([^`]+)`" do
          local path = not in_code and span:match "^([%a_][%w_.]*[.:][%w_]+)%f[^%w_.:] ?[%({]"
          if path then described[path] = described[path] or head:find(span, 1, true) ~= nil end
        end
        before = line
      end
    end
    return described
  end

  it("shows, of every function and method that the manual calls, the row that describes it #ci", function()
    local n, rows = 0, 0
    for path, has_row in pairs(names()) do
      local entry = assert(doc.find(path)[1], "there is no documentation of " .. path)
      local is_call = false
      for _, call in ipairs(entry.calls) do is_call = is_call or doc.path_of(call) == path end
      assert.is_true(is_call or not has_row and entry.text:find(path, 1, true) ~= nil,
        ("%s shows %s"):format(path, entry.calls[1] or entry.text))
      n, rows = n + 1, rows + (has_row and 1 or 0)
    end
    assert.is_true(n > 300 and rows > 250, ("%d names, %d with rows"):format(n, rows))
  end)

  it("shows no row of a table that only compares functions", function()
    assert.matches("^rn.pmap%(", doc.find("rn.pmap")[1].calls[1])
    assert.equal(1, #doc.calls "rn.pmap")
  end)

  it("shows the text in which a method is described, and the row of a method of an object with another name", function()
    assert.same({ "jar:all()" }, doc.find("jar:all")[1].calls)
    assert.same({ "jar:all()" }, doc.find("my_jar:all")[1].calls)
    assert.matches("event:json%(%) decodes", doc.find("event:json")[1].text)
    local found = {}
    for _, entry in ipairs(doc.find "connection:source") do found[entry.calls[1]] = true end
    assert.is_true(found["conn:source(stream, [opts])"])
  end)

  it("finds the section of a function by its name, too", function()
    for question, place in pairs { ["conn:source"] = "docs/manual/streams.md#sources",
      ["rn.pmap(4, f, list)"] = "docs/manual/pipelines.md#", ["ch:offer"] = "docs/manual/channels.md#methods" } do
      local found = search.find(index, question, 1)[1]
      assert.equal(place, found.page .. "#" .. found.id, question)
    end
  end)

  it("shows a section with its page, and how it begins", function()
    local text = doc.section(search.find(index, "close a channel", 1)[1], 60)
    assert.matches("^Channels: Closing %(docs/manual/channels%.md#closing%)\n    A closed channel", text)
  end)
end)
