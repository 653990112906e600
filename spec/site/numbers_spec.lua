-- The page's reading of numbers is checked by a program, which must be right in plain Lua.

it("plain Lua reads the numbers of site/check/numbers.lua", function() dofile "site/check/numbers.lua" end)
