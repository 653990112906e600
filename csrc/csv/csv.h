/* csv.h: records of CSV (RFC 4180), for lua/runnel/csv.lua. Knows nothing of the core. */
#ifndef RUNNEL_CSV_H
#define RUNNEL_CSV_H

#include <lua.h>

/* csv_scan(text, from, separator, is_whole, fields, ragged) -> rows, next, lines, fields: the records that are complete
   in the text from position `from` on, at most some hundred, each a list of strings; the position behind them; how many
   lines they have; and how many fields the first record has, which is 0 before that. A record is complete when its
   newline is there; with `is_whole` the text ends there, and the last one needs none. Empty lines are no records. If a
   record is wrong, or has another number of fields and `ragged` is false: rows, next, lines, fields of those before it,
   then a message, and in how many lines from there the mistake is. */
int csv_scan(lua_State *L);

#endif
