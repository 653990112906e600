/* accept.c: see accept.h. */
#include "websocket/accept.h"

#include <string.h>

enum { BLOCK = 64, ROUNDS = 80, LENGTH_SIZE = 8, SHA1_SIZE = 20 };

static uint32_t rotate(uint32_t word, unsigned bits) { return word << bits | word >> (32 - bits); }

/* One block of the checksum (RFC 3174, 6.1). */
static void add_block(uint32_t state[5], const uint8_t *block) {
  uint32_t w[ROUNDS];
  for (size_t i = 0; i < 16; i++) {
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
           block[4 * i + 3];
  }
  for (size_t i = 16; i < ROUNDS; i++) w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (size_t i = 0; i < ROUNDS; i++) {
    uint32_t f = 0, k = 0;
    if (i < 20) {
      f = (b & c) | (~b & d);
      k = 0x5A827999;
    } else if (i < 40) {
      f = b ^ c ^ d;
      k = 0x6ED9EBA1;
    } else if (i < 60) {
      f = (b & c) | (b & d) | (c & d);
      k = 0x8F1BBCDC;
    } else {
      f = b ^ c ^ d;
      k = 0xCA62C1D6;
    }
    uint32_t next = rotate(a, 5) + f + e + k + w[i];
    e = d;
    d = c;
    c = rotate(b, 30);
    b = a;
    a = next;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
}

/* The SHA-1 of at most 119 bytes, which is two blocks. */
static void sha1(const char *text, size_t size, uint8_t digest[SHA1_SIZE]) {
  uint8_t blocks[2 * BLOCK] = {0};
  uint32_t state[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
  memcpy(blocks, text, size);
  blocks[size] = 0x80;
  size_t end = size + 1 + LENGTH_SIZE <= BLOCK ? BLOCK : 2 * BLOCK;
  blocks[end - 2] = (uint8_t)(size * 8 >> 8);
  blocks[end - 1] = (uint8_t)(size * 8 & 0xFF);
  for (size_t at = 0; at < end; at += BLOCK) add_block(state, blocks + at);
  for (size_t i = 0; i < SHA1_SIZE; i++) digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)) & 0xFF);
}

void base64_encode(const uint8_t *bytes, size_t size, char *to) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < size; i += 3) {
    size_t left = size - i;
    uint32_t three = (uint32_t)bytes[i] << 16;
    if (left > 1) three |= (uint32_t)bytes[i + 1] << 8;
    if (left > 2) three |= bytes[i + 2];
    *to++ = digits[three >> 18];
    *to++ = digits[three >> 12 & 63];
    *to++ = '=';
    *to++ = '=';
    if (left > 1) to[-2] = digits[three >> 6 & 63];
    if (left > 2) to[-1] = digits[three & 63];
  }
}

void accept_value(const char key[KEY_SIZE], char value[ACCEPT_SIZE]) {
  static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* RFC 6455, 1.3 */
  char text[KEY_SIZE + sizeof guid - 1];
  uint8_t digest[SHA1_SIZE];
  memcpy(text, key, KEY_SIZE);
  memcpy(text + KEY_SIZE, guid, sizeof guid - 1);
  sha1(text, sizeof text, digest);
  base64_encode(digest, sizeof digest, value);
}
