std = "lua54"
max_line_length = 120
self = false -- a method may leave `self` unused
files["spec"] = { std = "+busted" }
files["lua/runnel/meta.lua"] = { ignore = { "212", "241" } } -- declarations without code
