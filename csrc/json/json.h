/* json/json.h: JSON (RFC 8259) in C, for lua/runnel/json.lua, which checks arguments and words what is wrong. Nothing here
   owns memory: what outlives a call of Lua's API is on Lua's stack, so that an error of Lua's may leave at any time. */
#ifndef RUNNEL_JSON_H
#define RUNNEL_JSON_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How deep arrays and objects may be nested, in texts and in values. */
enum { JSON_DEEPEST = 100 };

/* The upvalues of both functions: what stands for null, and the metatable of arrays. */
#define JSON_NULL lua_upvalueindex(1)
#define JSON_ARRAY lua_upvalueindex(2)

/* decode(text) -> value | nil, what is wrong, the number of the byte where it is */
int json_decode(lua_State *L);

/* encode(value, indent) -> text | nil, what is wrong, a list of the keys that lead to the part where it is. `indent` is
   the number of spaces of a level; nil: a text in one line. */
int json_encode(lua_State *L);

/* The first byte of the `n` bytes at `text` that is not UTF-8, or NULL. Behind them is a zero. */
const char *json_not_utf8(const char *text, size_t n);

/* Pushes the float that the number from `text` to `end` writes, which may be infinite. `digits` has all its digits as an
   integer, if it has at most 18; `nfraction` of them are behind the point. `exponent` is what it writes behind "e". */
void json_push_float(lua_State *L, const char *text, const char *end, uint64_t digits, size_t nfraction, long exponent);

/* The room for any number as text. */
enum { JSON_NUMBER_SIZE = 64 };

/* Writes a finite float with the fewest digits that are read back as the same, and with "." or "e". Returns its size. In
   every locale the decimal point is a point. */
size_t json_write_float(char *to, lua_Number value);

#endif
