/* frame.c: see frame.h. */
#include "websocket/frame.h"

#include <string.h>

/* The parts of the first two bytes. */
enum { LAST = 0x80, RESERVED = 0x70, RESERVED_SHIFT = 4, OPCODE = 0x0F, HAS_MASK = 0x80, LENGTH = 0x7F };

/* Lengths that stand for a number behind these two bytes, and the size of that number. */
enum { LENGTH_16 = 126, LENGTH_64 = 127, SIZE_16 = 2, SIZE_64 = 8 };

static uint64_t read_number(const uint8_t *bytes, int size) {
  uint64_t number = 0;
  for (int i = 0; i < size; i++) number = number << 8 | bytes[i];
  return number;
}

/* Whether a length may be written in a number of this size. */
static bool is_shortest(uint64_t length, int size) {
  if (size == SIZE_16) return length >= LENGTH_16;
  return size == 0 || (length > UINT16_MAX && length <= INT64_MAX);
}

int frame_read(Frame *frame, const char *bytes, size_t size) {
  const uint8_t *at = (const uint8_t *)bytes;
  if (size < 2) return 0;
  int length = at[1] & LENGTH, more = length == LENGTH_16 ? SIZE_16 : length == LENGTH_64 ? SIZE_64 : 0;
  bool has_mask = at[1] & HAS_MASK;
  int all = 2 + more + (has_mask ? MASK_SIZE : 0);
  if (size < (size_t)all) return 0;
  *frame = (Frame){.is_last = at[0] & LAST,
                   .has_mask = has_mask,
                   .reserved = (at[0] & RESERVED) >> RESERVED_SHIFT,
                   .opcode = at[0] & OPCODE,
                   .length = more ? read_number(at + 2, more) : (uint64_t)length};
  if (has_mask) memcpy(frame->mask, at + 2 + more, MASK_SIZE);
  if (frame->opcode >= FRAME_CLOSE && (frame->length > MOST_OF_CONTROL || !frame->is_last)) return -1;
  return is_shortest(frame->length, more) ? all : -1;
}

size_t frame_write(const Frame *frame, char *to) {
  int more = frame->length < LENGTH_16 ? 0 : frame->length <= UINT16_MAX ? SIZE_16 : SIZE_64;
  unsigned length = more == 0 ? (unsigned)frame->length : more == SIZE_16 ? LENGTH_16 : LENGTH_64;
  to[0] = (char)((frame->is_last ? LAST : 0u) | (unsigned)frame->reserved << RESERVED_SHIFT | frame->opcode);
  to[1] = (char)((frame->has_mask ? HAS_MASK : 0u) | length);
  for (int i = 0; i < more; i++) to[2 + i] = (char)(frame->length >> 8 * (more - 1 - i));
  if (frame->has_mask) memcpy(to + 2 + more, frame->mask, MASK_SIZE);
  return 2 + (size_t)more + (frame->has_mask ? MASK_SIZE : 0);
}

void frame_mask(const Frame *frame, uint64_t at, char *bytes, size_t size) {
  uint8_t mask[2 * MASK_SIZE] = {0};
  uint64_t eight, masks;
  size_t i = 0;
  for (size_t k = 0; k < sizeof mask; k++) mask[k] = frame->mask[(at + k) % MASK_SIZE];
  memcpy(&masks, mask, sizeof masks);
  for (; size - i >= sizeof eight; i += sizeof eight) {
    memcpy(&eight, bytes + i, sizeof eight);
    eight ^= masks;
    memcpy(bytes + i, &eight, sizeof eight);
  }
  for (; i < size; i++) bytes[i] = (char)((uint8_t)bytes[i] ^ mask[i % MASK_SIZE]);
}
