/* frame.c: see frame.h. */
#include "websocket/frame.h"

#include <string.h>

/* Of the second byte: values above MOST_OF_CONTROL say how many bytes of length follow. */
enum { LENGTH_IN_2 = 126, LENGTH_IN_8 = 127 };

/* A number in network byte order. */
static uint64_t number(const uint8_t *bytes, size_t size) {
  uint64_t n = 0;
  for (size_t i = 0; i < size; i++) n = n << 8 | bytes[i];
  return n;
}

int frame_read(Frame *frame, const uint8_t *bytes, size_t size) {
  if (size < 2) return FRAME_INCOMPLETE;
  uint8_t length = bytes[1] & 0x7F;
  size_t nlength = length == LENGTH_IN_2 ? 2 : length == LENGTH_IN_8 ? 8 : 0;
  *frame = (Frame){
      .is_last = bytes[0] & 0x80, .bits = bytes[0] >> 4 & 7, .opcode = bytes[0] & 0x0F, .has_mask = bytes[1] & 0x80};
  if ((frame->opcode & 8) && (nlength || !frame->is_last)) return FRAME_WRONG;
  size_t all = 2 + nlength + (frame->has_mask ? sizeof frame->mask : 0);
  if (size >= 2 + nlength) {
    frame->size = nlength ? number(bytes + 2, nlength) : length;
    if ((nlength == 2 && frame->size < LENGTH_IN_2) || (nlength == 8 && (frame->size <= 0xFFFF || frame->size >> 63)))
      return FRAME_WRONG;
  }
  if (size < all) return FRAME_INCOMPLETE;
  if (frame->has_mask) memcpy(frame->mask, bytes + 2 + nlength, sizeof frame->mask);
  return (int)all;
}

size_t frame_write(const Frame *frame, uint8_t *to) {
  size_t nlength = frame->size < LENGTH_IN_2 ? 0 : frame->size <= 0xFFFF ? 2 : 8, all = 2 + nlength;
  to[0] = (uint8_t)((frame->is_last ? 0x80 : 0) | frame->bits << 4 | frame->opcode);
  to[1] = (uint8_t)((frame->has_mask ? 0x80 : 0) | (nlength == 0   ? (uint8_t)frame->size
                                                    : nlength == 2 ? LENGTH_IN_2
                                                                   : LENGTH_IN_8));
  for (size_t i = 0; i < nlength; i++) to[2 + i] = (uint8_t)(frame->size >> (8 * (nlength - 1 - i)) & 0xFF);
  if (frame->has_mask) {
    memcpy(to + all, frame->mask, sizeof frame->mask);
    all += sizeof frame->mask;
  }
  return all;
}

/* In steps of eight bytes, which is several times as fast as one by one. */
void frame_mask(const Frame *frame, uint8_t *bytes, size_t size, uint64_t at) {
  uint8_t mask[8];
  for (size_t i = 0; i < sizeof mask; i++) mask[i] = frame->mask[(at + i) % sizeof frame->mask];
  uint64_t eight, key;
  memcpy(&key, mask, sizeof key);
  size_t i = 0;
  for (; i + sizeof eight <= size; i += sizeof eight) {
    memcpy(&eight, bytes + i, sizeof eight);
    eight ^= key;
    memcpy(bytes + i, &eight, sizeof eight);
  }
  for (; i < size; i++) bytes[i] ^= mask[i % sizeof mask];
}
