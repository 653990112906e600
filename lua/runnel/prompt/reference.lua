---The texts of `:doc` and Tab for Lua's own functions, and for methods and transducers of the library that have no row
---in the manual's tables: one line each, with the call and its effect.

return [[
assert(v, [message]) | returns all its arguments; raises the message if v is false or nil
collectgarbage([opt], [arg]) | controls the collector; opt: "collect", "stop", "restart", "count" (KB in use),
    "step", "isrunning", "incremental", "generational"; Lua 5.5: "param"
dofile([path]) | runs a file, or standard input, and returns what it returns
error(message, [level]) | raises an error; level: 1 adds the position of the caller (the default), 2 that of its
    caller, 0 none
getmetatable(v) | the metatable of v, or its field __metatable; nil where it has none
ipairs(t) | for i, v in ipairs(t): the values of t[1], t[2] and so on, up to the first nil
load(chunk, [name], [mode], [env]) | compiles a string, or the strings that a function returns: a function, or nil
    and a message
loadfile([path], [mode], [env]) | compiles a file: a function, or nil and a message
next(t, [key]) | the key after this one, and its value; nil behind the last
pairs(t) | for k, v in pairs(t): all keys and values, in any order
pcall(f, ...) | calls f: true and its results, or false and the error
print(...) | writes its arguments as text, with tabs between them and a newline
rawequal(a, b) | a == b without metamethods
rawget(t, key) | t[key] without metamethods
rawlen(v) | #v without metamethods
rawset(t, key, v) | t[key] = v without metamethods; returns t
require(name) | loads a module, once: its value, and where it was found
select(n, ...) | the arguments from the n-th on; with "#", how many there are
setmetatable(t, meta) | sets the metatable of a table; returns the table
tonumber(v, [base]) | v as a number, or nil
tostring(v) | v as a string
type(v) | "nil", "number", "string", "boolean", "table", "function", "thread" or "userdata"
warn(message, ...) | writes a warning
xpcall(f, handler, ...) | as pcall; an error goes through handler(err), which can add a traceback
coroutine.close(co) | closes a coroutine that is suspended or dead, and its <close> variables: true, or false and the
    error; in Lua 5.5 also the one that runs, which ends
coroutine.create(f) | a new coroutine
coroutine.isyieldable([co]) | whether the coroutine can yield
coroutine.resume(co, ...) | starts or continues a coroutine: true and what it yields or returns, or false and the
    error
coroutine.running() | the running coroutine, and whether it is the main one
coroutine.status(co) | "running", "suspended", "normal" or "dead"
coroutine.wrap(f) | a function that resumes a new coroutine each time
coroutine.yield(...) | suspends the running coroutine; returns what it is resumed with
debug.debug() | reads lines and runs them, until cont
debug.gethook([co]) | the hook: function, mask, count
debug.getinfo([co], f or level, [what]) | a table about a function: source, currentline, name, nparams and so on
debug.getlocal([co], f or level, n) | name and value of a local variable
debug.getmetatable(v) | the metatable of v, whatever __metatable says
debug.getregistry() | the registry
debug.getupvalue(f, n) | name and value of an upvalue
debug.getuservalue(u, n) | a user value of a userdata
debug.sethook([co], hook, mask, [count]) | calls hook on calls ("c"), returns ("r"), lines ("l") or every count
    instructions
debug.setlocal([co], level, n, v) | sets a local variable; returns its name
debug.setmetatable(v, meta) | sets the metatable of any value; returns the value
debug.setupvalue(f, n, v) | sets an upvalue; returns its name
debug.setuservalue(u, v, n) | sets a user value of a userdata
debug.traceback([co], [message], [level]) | the calls that are active, as text
debug.upvalueid(f, n) | what identifies an upvalue
debug.upvaluejoin(f, n, g, m) | lets the n-th upvalue of f be the m-th of g
io.close([file]) | closes a file, by default the default output
io.flush() | writes out what the default output holds back
io.input([file]) | the default input, or sets it
io.lines([path], ...) | for line in io.lines(path): the lines of a file; formats as for file:read
io.open(path, [mode]) | opens a file: the file, or nil and a message; mode: "r", "w", "a", "r+", "w+", "a+", with "b"
    for binary
io.output([file]) | the default output, or sets it
io.popen(command, [mode]) | starts a command and reads from it ("r") or writes to it ("w")
io.read(...) | reads from the default input; see file:read
io.stderr | the standard error, a file
io.stdin | the standard input, a file
io.stdout | the standard output, a file
io.tmpfile() | a temporary file
io.type(v) | "file", "closed file", or nil if v is not a file
io.write(...) | writes to the default output
file:close() | closes the file; of io.popen also the exit status
file:flush() | writes out what it holds back
file:lines(...) | an iterator over the lines, or over what the formats say
file:read(...) | reads; formats: "l" a line (the default), "L" with its end, "n" a number, "a" all, or a number of
    bytes
file:seek([whence], [offset]) | moves in the file: "set", "cur" or "end"; the new position
file:setvbuf(mode, [size]) | buffering: "no", "full" or "line"
file:write(...) | writes strings and numbers; returns the file
math.abs(x) | the absolute value
math.acos(x) | the arc cosine, in radians
math.asin(x) | the arc sine, in radians
math.atan(y, [x]) | the arc tangent of y/x, in radians
math.ceil(x) | the least integer that is not less than x
math.cos(x) | the cosine
math.deg(x) | radians in degrees
math.exp(x) | e to the power of x
math.floor(x) | the greatest integer that is not greater than x
math.fmod(x, y) | the remainder of x/y, rounded towards zero
math.huge | a float greater than any other number
math.log(x, [base]) | the logarithm, by default to the base e
math.max(x, ...) | the greatest of its arguments
math.maxinteger | the greatest integer
math.min(x, ...) | the least of its arguments
math.mininteger | the least integer
math.modf(x) | the integral part and the fractional part
math.pi | 3.14159...
math.rad(x) | degrees in radians
math.random([m], [n]) | a random float in [0, 1), or an integer from 1 to m, or from m to n
math.randomseed([x], [y]) | seeds math.random
math.sin(x) | the sine
math.sqrt(x) | the square root
math.tan(x) | the tangent
math.tointeger(x) | x as an integer, or nil
math.type(x) | "integer", "float", or nil where x is no number
math.ult(m, n) | m < n as unsigned integers
os.clock() | seconds of processor time so far
os.date([format], [time]) | date and time as text, or with "*t" as a table
os.difftime(t2, t1) | seconds from t1 to t2
os.execute([command]) | runs a command in a shell: true or nil, "exit" or "signal", and its number
os.exit([code], [close]) | ends the program; close: whether to close the Lua state first
os.getenv(name) | a variable of the environment, or nil
os.remove(path) | removes a file: true, or nil and a message
os.rename(from, to) | renames a file: true, or nil and a message
os.setlocale(locale, [category]) | sets the locale
os.time([table]) | the time in seconds, or that of a table with year, month, day, hour, min, sec
os.tmpname() | a name for a temporary file
package.config | the separators in paths
package.cpath | where require looks for C modules
package.loaded | the modules that are loaded, by name
package.loadlib(path, name) | links a C library, and returns a function of it
package.path | where require looks for Lua modules
package.preload | loaders, by module name
package.searchers | how require searches
package.searchpath(name, path, [sep], [rep]) | the file of a module on a path, or nil and a message
string.byte(s, [i], [j]) | the codes of the bytes from i to j
string.char(...) | a string of the bytes with these codes
string.dump(f, [strip]) | a function as bytecode
string.find(s, pattern, [init], [plain]) | where the pattern is found first: begin, end, captures; nil where it is not
string.format(format, ...) | formats: %d %s %q %f %g %x %c and so on, as in C
string.gmatch(s, pattern, [init]) | an iterator over the captures of all matches
string.gsub(s, pattern, replacement, [n]) | s with each match replaced by a string, an entry of a table or what a
    function returns; and how many there were
string.len(s) | its length in bytes
string.lower(s) | s in lower case
string.match(s, pattern, [init]) | the captures of the first match, or all of it; nil where there is none
string.pack(format, ...) | values in binary form
string.packsize(format) | the size of what string.pack makes
string.rep(s, n, [sep]) | n copies of s, with sep between them
string.reverse(s) | its bytes in reverse order
string.sub(s, i, [j]) | the bytes from i to j; negative ones count from the end
string.unpack(format, s, [pos]) | the values of a binary form, and the position behind them
string.upper(s) | s in upper case
table.concat(list, [sep], [i], [j]) | the strings of a list as one
table.create(n, [fields]) | Lua 5.5: an empty table with room for n values of a list, and for other fields
table.insert(list, [pos], v) | inserts v at the position, by default at the end
table.move(from, i, j, at, [to]) | copies from[i] to from[j] to to[at] and on; returns to, by default from
table.pack(...) | a list of its arguments, with their number as n
table.remove(list, [pos]) | removes the last element, or that at the position, and returns it
table.sort(list, [less]) | sorts in place; less(a, b) says whether a comes first
table.unpack(list, [i], [j]) | the elements from i to j, as results
utf8.char(...) | a string of the characters with these code points
utf8.charpattern | a pattern for one character
utf8.codepoint(s, [i], [j]) | the code points of the characters from byte i to j
utf8.codes(s) | for at, code in utf8.codes(s): where each character begins, and its code point
utf8.len(s, [i], [j]) | how many characters; nil and a position where it is no UTF-8
utf8.offset(s, n, [i]) | where the n-th character begins
xf.map(f) | a transducer that replaces each value by f(v)
xf.map_indexed(f) | a transducer that replaces each value by f(i, v), i being its number, from 1
xf.filter(p) | a transducer that passes the values for which p(v) is true
xf.remove(p) | a transducer that passes the values for which p(v) is false or nil
xf.keep(f) | a transducer that replaces each value by f(v), and leaves it out where that is nil
xf.mapcat(f) | a transducer that replaces each value by the elements of the list or iterator f(v)
xf.cat | a transducer that replaces each value, a list or an iterator, by its elements
xf.take(n) | a transducer that ends after n values
xf.take_while(p) | a transducer that ends before the first value for which p(v) is false or nil
xf.take_nth(n) | a transducer that passes the first value, and every n-th after it
xf.drop(n) | a transducer that leaves out the first n values
xf.drop_while(p) | a transducer that leaves out values until p(v) is false or nil
xf.dedupe() | a transducer that leaves out a value that equals the one before
xf.distinct() | a transducer that leaves out values that have come before
xf.interpose(v) | a transducer that puts v between values
xf.partition_all(n) | a transducer that collects values into lists of n; the last one may be shorter
xf.partition_by(f) | a transducer that collects values into lists, a new one whenever f(v) changes
xf.comp(...) | a transducer of several: values go through them from left to right
xf.completing(f, [done]) | a function for rn.transduce: f(acc, v) for each value, and done(acc) at the end, or acc
s:go(f, ...) | (scope) starts a go block of the scope; returns its result channel
s:thread(f, ...) | (scope) starts a thread of the scope; returns a channel of its result
s:cancel([reason]) | (scope) cancels all go blocks of the scope
m:tap(ch, [close]) | (mult) adds a channel that gets a copy of each value; returns it. close: whether it closes with
    the source, true by default
m:untap(ch) | (mult) removes a channel
m:untap_all() | (mult) removes all channels
m:admix(ch) | (mix) adds an input
m:unmix(ch) | (mix) removes an input
m:unmix_all() | (mix) removes all inputs
m:toggle { [ch] = { mute =, pause =, solo = } } | (mix) changes inputs, and adds those that are new
m:solo_mode(mode) | (mix) what happens to the inputs that are not solo: "mute" or "pause"
p:sub(topic, ch, [close]) | (pub) adds a channel that gets the values of a topic; returns it
p:unsub(topic, ch) | (pub) removes a channel from a topic
p:unsub_all([topic]) | (pub) removes all channels, of one topic or of all
p:kill([signal]) | (process) sends a signal, "term" by default: true, or false and the error
p:close() | (process) stops it: sends SIGTERM, and SIGKILL after grace ms; reads its output to the end
p:stop([grace]) | (process) does the same, SIGKILL after grace ms; waits until it has ended, and returns what
    p.exit gives
p.stdin, p.stdout, p.stderr | (process) channels of strings
p.exit | (process) a promise of { code =, signal = }
conn:read() | (connection) a channel of what comes in, as strings of any size
conn:lines([opts]) | (connection) a channel of the lines that come in
conn:write(s) | (connection) waits until the system has taken all of it: true, or false and the error
conn:writer() | (connection) a channel to write to; closing it ends writing
conn:shutdown() | (connection) ends writing, while reading goes on
conn:close([err]) | (connection) closes both ways
conn:peer() | (connection) address and port of the other end
conn:address() | (connection) address and port of this end]]
