-- The page reads numbers for Lua (page_number in csrc/site/imports.js): that must give what the C library gives. Plain Lua
-- runs this, too (spec/site).

local function is(text, wanted)
  local number = tonumber(text)
  if math.type(number) ~= math.type(wanted) or number ~= wanted then
    error(("tonumber(%q) is %s, not %s"):format(text, number, wanted), 2)
  end
end

is("1.5", 3 / 2)
is("-.25", -1 / 4)
is("+5.", 5 / 1)
is("\t 1e2 \n", 100 / 1)
is("1E-2", 1 / 100)
is("0.1", 1 / 10)
is("9007199254740993.0", 2 ^ 53)
is("9223372036854775808", 2 ^ 63)
is("1e308", 10 ^ 308)
is("1e309", math.huge)
is("-1e309", -math.huge)
is("5e-324", 2 ^ -1074)
is("1e-400", 0 / 1)
is("1.7976931348623157e308", (2 - 2 ^ -52) * 2 ^ 1023)
is("123456789012345678901234567890", 1.2345678901234568e29)
is("0x.8", 1 / 2)
is("0xA.", 10 / 1)
is("-0x1.8p1", -3 / 1)
is("0x1P+4", 2 ^ 4)
is("0x1p-1074", 2 ^ -1074)
is("0x1.fffffffffffffp-1023", 2 ^ -1022)
is("0x1.0000000000000fp0", 1 + 2 ^ -52)
is("0x1p1024", math.huge)
is("12", 12)
is("0x10", 16)

for _, text in ipairs { "", " ", ".", "-", "e1", "1e", "1e+", "1..2", "1.5.", "0x", "0x.", "0x1p", "0x.p1", "1 2", "1f", "inf", "nan",
  "-inf", "\u{a0}1.5", "1.5\0", "1,5", "--1.5", "1.5é" } do
  if tonumber(text) then error(("tonumber(%q) is %s"):format(text, tonumber(text))) end
end

assert(0.1 + 0.2 == 0.30000000000000004 and 3e-2 == 3 / 100 and 0x1p4 == 16.0)
local file = assert(io.open(os.tmpname(), "w+"))
file:write "  -1.25e1 0x.8p0"
file:seek "set"
local one, two = file:read("n", "n")
assert(one == -12.5 and two == 0.5)
file:close()
