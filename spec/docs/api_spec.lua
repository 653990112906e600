-- spec/api.txt, the contract: the program has the names that it lists, and no others.

local api_c = require "scripts.docs.api_c"
local api_lines = require "scripts.docs.api_lines"
local api_lua = require "scripts.docs.api_lua"

local rn = require "runnel"

local function is_in(list, line)
  for _, one in ipairs(list) do
    if one == line then return true end
  end
  return false
end

-- The lines of one list that the other one does not have.
local function without(list, other)
  local has, found = {}, {}
  for _, line in ipairs(other) do has[line] = true end
  for _, line in ipairs(list) do
    if not has[line] then found[#found + 1] = line end
  end
  return found
end

describe("spec/api.txt", function()
  it("is what the program has #ci", function()
    local lines, problems = api_lines()
    for _, problem in ipairs(problems) do
      if problem:find("cannot be loaded", 1, true) then return pending(problem) end
    end
    assert.same({}, problems)
    local written = {}
    for line in io.lines "spec/api.txt" do written[#written + 1] = line end
    assert.same({ new = {}, gone = {} }, { new = without(lines, written), gone = without(written, lines) },
      "the contract has changed: is that meant? Then run `make api`, and commit spec/api.txt")
    assert.same(lines, written)
    assert.is_true(#lines > 1400, #lines)
  end)

  it("changes with the name of an option or a function #ci", function()
    local retry, is_reduced = rn.retry, rn.is_reduced
    rn.retry = function() error "retry: unknown option 'nosuch'; known: attempts, backoff" end
    rn.is_reduction, rn.is_reduced = is_reduced, nil
    local ok, lines = pcall(api_lua.lines)
    rn.retry, rn.is_reduction, rn.is_reduced = retry, nil, is_reduced
    assert.is_true(ok, lines)
    assert.is_true(is_in(lines, "option rn.retry attempts"))
    assert.is_true(is_in(lines, "function rn.is_reduction"))
    for _, line in ipairs(lines) do
      assert.is_falsy(line:find "^option rn%.retry tries" or line:find "^function rn%.is_reduced", line)
    end
  end)

  it("marks what the manual says is experimental, as :doc does", function()
    local marked, stable = 0, 0
    for line in io.lines "spec/api.txt" do
      if line:find("method runnel.store.Store:runs(", 1, true) or line == "module runnel.lite (experimental)" then
        assert.is_truthy(line:find " %(experimental%)$", line)
        marked = marked + 1
      elseif line:find("method runnel.store.Store:once(", 1, true) then
        assert.is_falsy(line:find("(experimental)", 1, true), line)
        stable = stable + 1
      end
    end
    assert.same({ 2, 1 }, { marked, stable })
    local tables = "scripts/docs/manual_tables.lua docs/manual/runs.md docs/manual/store.md"
    local pipe <close> = assert(io.popen(("'%s' %s"):format(os.getenv "LUA" or "lua5.4", tables)))
    local rows = assert(load(pipe:read "a"))().rows
    local function is_marked(path)
      for _, row in ipairs(rows) do
        if (row.calls[1] or ""):find(path, 1, true) == 1 then
          return row.text:find("[experimental]", 1, true) ~= nil
        end
      end
    end
    assert.same({ true, false }, { is_marked "store:runs(", is_marked "store:once(" })
  end)

  it("has the functions, types, fields and numbers of the header", function()
    local lines = api_c.lines_of [[
/* A comment with RUNNEL_API int nothing(void); */
#define RUNNEL_VERSION "1.2.3"
#define RUNNEL_KEY "key"
enum { RUNNEL_A, RUNNEL_B = 5, RUNNEL_C };
typedef struct runnel_x runnel_x;
typedef struct runnel_y {
  int a; /* what */
  void (*f)(void *data);
} runnel_y;
RUNNEL_API int runnel_f(lua_State *L,
                        runnel_x *x);
]]
    table.sort(lines)
    assert.same({ "c-constant RUNNEL_A 0", "c-constant RUNNEL_B 5", "c-constant RUNNEL_C 6",
      "c-field runnel_y 1: int a", "c-field runnel_y 2: void (*f)(void *data)",
      "c-function int runnel_f(lua_State *L, runnel_x *x)", 'c-macro RUNNEL_KEY "key"',
      "c-macro RUNNEL_VERSION", "c-type struct runnel_x runnel_x" }, lines)
  end)
end)
