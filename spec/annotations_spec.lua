-- The LuaCATS annotations of the library: that editors can read them, and what they infer from them.
-- spec/meta_spec.lua compares meta.lua with the core.

local luacats = require "spec.support.docs.luacats"

local function files()
  local list <close> = assert(io.popen "find lua -name '*.lua' | sort")
  local paths = {}
  for path in list:lines() do paths[#paths + 1] = path end
  return paths
end

describe("the annotations", function()
  local world = luacats.read(files())

  it("have types that can be read, name only types and parameters that exist #ci", function()
    assert.same({}, world.problems)
  end)

  it("describe every function of rn", function()
    local rn, missing = require "runnel", {}
    for name, value in pairs(rn) do
      local is_described = type(value) ~= "function" or pcall(luacats.call, world, "runnel", name)
      if not is_described then missing[#missing + 1] = name end
    end
    assert.same({}, missing)
  end)

  it("say what a channel carries, from where it is made to where a value is taken", function()
    local function gives(expected, ...) assert.same(expected, { luacats.call(world, ...) }) end
    gives({ "runnel.Channel<any>" }, "runnel", "chan", "integer")
    gives({ "any|nil", "any" }, "runnel.Channel<any>", "take")
    gives({ "string|nil", "any" }, "runnel.Channel<string>", "take")
    gives({ "string|nil", "any" }, "runnel.Channel<string>", "poll")
    gives({ "runnel.Channel<string>" }, "runnel.Channel<string>", "name", "string")
    gives({ "runnel.Channel<integer>" }, "runnel", "go", "fun(): integer")
    gives({ "runnel.Channel<string>" }, "runnel", "to_chan", "string[]")
    gives({ "runnel.Channel<integer>" }, "runnel", "pmap", "integer", "fun(v: string): integer",
      "runnel.Channel<string>")
    gives({ "runnel.Channel<string>" }, "runnel", "merge", "runnel.Channel<string>[]")
    gives({ "runnel.Channel<string[]>" }, "runnel", "batch", "runnel.Channel<string>", "integer")
  end)

  it("infer them by the rules of the types", function()
    for text, shown in pairs {
      ["string?"] = "string|nil", ["string|nil what"] = "string|nil", ["fun(a: string, ...: any): integer, b?"] =
      "fun(a: string, ...: any): integer, b|nil", ["(fun(): a)|b[]"] = "fun(): a|b[]", ['"a"|"b"'] = '"a"|"b"',
      ["table<string, a[]>"] = "table<string, a[]>", ["{ a: b, c?: fun(): x, d: y }"] = "table", ["{ [string]: any }"] =
      "table", ["fun(a: fun(): b, c: d)"] = "fun(a: fun(): b, c: d)", ["fun(): (a, b)"] = "fun(): a, b",
      ["fun(): (a|b)[]"] = "fun(): a|b[]",
    } do
      assert.equal(shown, luacats.show((luacats.parse(text))), text)
    end
    for _, text in ipairs { "", "|a", "a|", "fun(a:", "{ a }", "(a", "a<b" } do
      assert.is_false(pcall(luacats.parse, text), text)
    end
  end)
end)
