-- `runnel doc`: what the manual says, for a shell, an editor or a model.

local json = require "runnel.json"
local process = require "spec.support.process"

describe("runnel doc", function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  local function run(arguments) return process.run(dir.path, ("'%s' doc %s"):format(process.runnel, arguments)) end

  it("shows what the manual says of a name, and answers a question", function()
    local result = run "ch:take"
    assert.same({ 0, "" }, { result.status, result.err })
    assert.matches("^ch:take%(%)\n    Takes the next value", result.out)
    assert.matches("%(docs/manual/[%w-]+.md", run "how do I limit a pipeline".out)
  end)

  it("shows commands of the prompt, and options", function()
    for _, word in ipairs { ":ps", "':watch 500'", "--watch", "-o" } do
      local result = run(word)
      assert.same({ 0, "" }, { result.status, result.err })
      assert.equal(1, result.out:find(word:match "[%w:-]+", 1, true))
    end
    assert.same({ 1, "runnel doc: there is no documentation of :pss\n" }, { run(":pss").status, run(":pss").err })
    assert.equal(1, run("é").status)
  end)

  it("writes all of it as JSON", function()
    local result = run "--json"
    assert.same({ 0, "" }, { result.status, result.err })
    local entries, by_call = assert(json.decode(result.out)), {}
    for _, entry in ipairs(entries) do
      assert.is_string(entry.text)
      for _, call in ipairs(entry.calls) do by_call[call] = entry end
    end
    assert.is_true(#entries > 300, #entries)
    assert.matches("^Takes the next value", by_call["ch:take()"].text)
    local options = {}
    for _, option in ipairs(by_call["rn.pmap(n, f, from, [opts])"].options) do options[option.name] = option.text end
    assert.is_string(options.timeout)
  end)

  it("fails if its output cannot be written", function()
    if not os.execute "test -c /dev/full" then return end
    for _, arguments in ipairs { "doc ch:take", "doc --json", "--help", "--version", "runs --help" } do
      local result = process.run(dir.path, ("'%s' %s >/dev/full"):format(process.runnel, arguments))
      assert.equal(1, result.status)
      assert.matches("cannot write the output[^\n]*\n$", result.err)
    end
  end)

  it("says what is nearest to a name that there is not, and how it is used", function()
    local result = run "ch:taek"
    assert.same({ 1, "runnel doc: there is no documentation of ch:taek; did you mean ch:take?\n" },
      { result.status, result.err })
    assert.matches("^usage: runnel doc NAME", run "--help".out)
    for _, wrong in ipairs { "", "--yaml", "'?'" } do
      result = run(wrong)
      assert.equal(2, result.status)
      assert.matches("^usage: runnel doc NAME", result.err)
    end
  end)
end)
