/* pack_format.h: MessagePack's codes, for pack.c and unpack.c. */
#ifndef RUNNEL_PACK_FORMAT_H
#define RUNNEL_PACK_FORMAT_H

/* The bytes that begin a value (the first 7 bits of a few of them hold a number). */
enum {
  FIX_MAP = 0x80,
  FIX_ARRAY = 0x90,
  FIX_STR = 0xa0,
  NIL = 0xc0,
  FALSE = 0xc2,
  TRUE = 0xc3,
  BIN_8 = 0xc4,
  BIN_16 = 0xc5,
  BIN_32 = 0xc6,
  EXT_8 = 0xc7,
  EXT_32 = 0xc9,
  FLOAT_32 = 0xca,
  FLOAT_64 = 0xcb,
  UINT_8 = 0xcc,
  INT_8 = 0xd0,
  FIX_EXT_1 = 0xd4,
  FIX_EXT_4 = 0xd6,
  FIX_EXT_16 = 0xd8,
  STR_8 = 0xd9,
  STR_32 = 0xdb,
  ARRAY_16 = 0xdc,
  ARRAY_32 = 0xdd,
  MAP_16 = 0xde,
  MAP_32 = 0xdf,
  FIX_NEGATIVE = 0xe0
};

/* Extension type of a shared channel. */
enum { EXT_CHAN = 1 };

#endif
