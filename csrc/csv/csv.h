/* csv.h: records of CSV (RFC 4180), for lua/runnel/csv.lua. Knows nothing of the core. */
#ifndef RUNNEL_CSV_H
#define RUNNEL_CSV_H

#include <lua.h>

/* csv_scan(text, from, separator, is_whole, fields, ragged, max) -> rows, next, lines, fields, in_quotes: the records that
   are complete in the text from position `from` on, at most some hundred, each a list of strings, and behind it how many
   lines are before it; the position behind them; how many lines they have; how many fields the first record has, which is
   0 before that; and whether the text ends within the quotes of the record behind them. A record is complete when its
   newline is there; with `is_whole` the text ends there, and the last one needs none. Empty lines are no records. If a
   record is wrong, is longer than `max` bytes, or has another number of fields and `ragged` is false, the results are
   those of the records before it, then a message, and in how many lines from there the mistake is. */
int csv_scan(lua_State *L);

#endif
