/* session.c: see session.h. */
#include "websocket/session.h"

#include <fcntl.h>
#include <unistd.h>

/* ---- events ---- */

static Event tell(Session *s, Event event) {
  s->event = event;
  return event;
}

/* Notes that the other end has broken the protocol or a limit. */
static Event fail(Session *s, int code, const char *why) {
  s->is_over = true;
  s->code = code;
  s->why = why;
  return tell(s, EVENT_FAILED);
}

static Event no_memory(Session *s) {
  s->is_over = true;
  return tell(s, EVENT_NO_MEMORY);
}

static Event too_long(Session *s) { return fail(s, CODE_TOO_LONG, "a message is longer than the limit"); }

static Event not_utf8(Session *s) { return fail(s, CODE_NOT_UTF8, "a text is not UTF-8"); }

static Event refuse(Session *s, const char *why) { return fail(s, CODE_PROTOCOL_ERROR, why); }

/* ---- the parts of a frame ---- */

static bool is_control(const Session *s) { return s->frame.opcode >= FRAME_CLOSE; }

/* Checks the header of a frame. Returns EVENT_NONE if it is valid. */
static Event begin_frame(Session *s) {
  const Frame *frame = &s->frame;
  uint8_t opcode = frame->opcode;
  bool continues = opcode == FRAME_CONTINUATION, begins = opcode == FRAME_TEXT || opcode == FRAME_BINARY;
  bool is_compressed = frame->reserved == FRAME_COMPRESSED;
  if (frame->reserved && !(is_compressed && s->bits && begins)) return refuse(s, "a frame has a reserved bit");
  if (frame->has_mask == s->is_client) {
    return refuse(s, s->is_client ? "a frame of the server has a mask" : "a frame of the client has no mask");
  }
  if (!continues && !begins && opcode != FRAME_CLOSE && opcode != FRAME_PING && opcode != FRAME_PONG) {
    return refuse(s, "a frame has an unknown opcode");
  }
  if (!is_control(s)) {
    if (continues && !s->opcode) return refuse(s, "a frame continues a message that has not begun");
    if (begins && s->opcode) return refuse(s, "a message begins inside of another one");
    if (begins) {
      s->opcode = opcode;
      s->is_compressed = is_compressed;
      s->utf8 = (Utf8){0};
    }
    if (!s->is_compressed && frame->length > s->max - bytes_length(&s->message)) return too_long(s);
  }
  s->in_frame = true;
  s->arrived = 0;
  return EVENT_NONE;
}

static Event inflated(Session *s, Inflated result) {
  if (result == INFLATED_WRONG) return fail(s, CODE_NOT_UTF8, "a compressed message is damaged");
  if (result == INFLATED_TOO_LONG) return too_long(s);
  return result == INFLATED_NO_MEMORY ? no_memory(s) : EVENT_NONE;
}

/* Checks the part of a text from the offset on. */
static Event check_text(Session *s, size_t from) {
  if (s->opcode != FRAME_TEXT) return EVENT_NONE;
  const uint8_t *text = (const uint8_t *)bytes_first(&s->message);
  return utf8_add(&s->utf8, text + from, bytes_length(&s->message) - from) ? EVENT_NONE : not_utf8(s);
}

static Event add(Session *s, const char *part, size_t size) {
  size_t from = bytes_length(&s->message);
  if (s->is_compressed) {
    Event wrong = inflated(s, inflater_add(&s->inflater, (const uint8_t *)part, size, &s->message, s->max));
    if (wrong) return wrong;
  } else if (!bytes_add(&s->message, part, size)) {
    return no_memory(s);
  }
  return check_text(s, from);
}

static Event end_message(Session *s) {
  if (s->is_compressed) {
    size_t from = bytes_length(&s->message);
    Event wrong = inflated(s, inflater_end(&s->inflater, &s->message, s->max));
    if (!wrong) wrong = check_text(s, from);
    if (wrong) return wrong;
  }
  if (s->opcode == FRAME_TEXT && !utf8_is_complete(&s->utf8)) return not_utf8(s);
  return tell(s, s->opcode == FRAME_TEXT ? EVENT_TEXT : EVENT_BINARY);
}

/* Handles a complete close frame: removes the code from `control`. */
static Event end_close(Session *s) {
  const uint8_t *payload = (const uint8_t *)bytes_first(&s->control);
  size_t size = bytes_length(&s->control);
  s->code = CODE_NONE;
  if (size == 1) return refuse(s, "a close frame has half a code");
  if (size >= 2) {
    s->code = payload[0] << 8 | payload[1];
    bytes_drop(&s->control, 2);
    if (!code_is_valid(s->code)) return refuse(s, "a close frame has a wrong code");
    if (!utf8_is_valid(bytes_first(&s->control), bytes_length(&s->control))) return not_utf8(s);
  }
  s->is_over = true;
  return tell(s, EVENT_CLOSE);
}

/* Handles the end of a frame. */
static void end_frame(Session *s) {
  s->in_frame = false;
  if (!is_control(s)) {
    if (s->frame.is_last) (void)end_message(s);
  } else if (s->frame.opcode == FRAME_CLOSE) {
    (void)end_close(s);
  } else {
    (void)tell(s, s->frame.opcode == FRAME_PING ? EVENT_PING : EVENT_PONG);
  }
}

/* The most bytes of a payload that are used at a time. */
enum { PART = 1 << 20 };

/* Uses a part of the payload, which is at the front of `in`. */
static void take_part(Session *s, size_t size) {
  char *part = size ? s->in.start + s->in.from : NULL;
  Event wrong = EVENT_NONE;
  if (size && s->frame.has_mask) frame_mask(&s->frame, s->arrived, part, size);
  s->arrived += size;
  if (size && !is_control(s)) wrong = add(s, part, size);
  else if (!bytes_add(&s->control, part, size)) wrong = no_memory(s);
  bytes_drop(&s->in, size);
  if (!wrong && s->arrived == s->frame.length) end_frame(s);
}

/* Uses a header or a part of a payload; false if more bytes are needed. */
static bool take_some(Session *s) {
  if (!s->in_frame) {
    int size = frame_read(&s->frame, bytes_first(&s->in), bytes_length(&s->in));
    if (size < 0) (void)refuse(s, "a frame has a wrong length, or is a control frame in fragments");
    if (size <= 0 || begin_frame(s)) return size != 0;
    bytes_drop(&s->in, (size_t)size);
  }
  uint64_t left = s->frame.length - s->arrived;
  size_t size = bytes_length(&s->in) < PART ? bytes_length(&s->in) : PART;
  if (size > left) size = (size_t)left;
  if (!size && left) return false;
  take_part(s, size);
  return true;
}

Event session_next(Session *s) {
  while (!s->event && !s->is_over && take_some(s)) continue;
  return s->event;
}

void session_consume(Session *s) {
  if (s->event == EVENT_TEXT || s->event == EVENT_BINARY) {
    s->opcode = 0;
    bytes_free(&s->message);
  }
  bytes_free(&s->control);
  s->event = EVENT_NONE;
}

void session_feed(Session *s, const char *bytes, size_t size) {
  if (!s->is_over && !bytes_add(&s->in, bytes, size)) (void)no_memory(s);
}

/* ---- sending ---- */

bool random_bytes(uint8_t *to, size_t size) {
  int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, to, size);
  if (fd >= 0) (void)close(fd);
  return n == (ssize_t)size;
}

bool session_has_random(Session *s) {
  if (!s->is_client || s->random_left >= MASK_SIZE) return true;
  if (!s->is_reproducible && !random_bytes(s->random, RANDOM_SIZE)) return false;
  s->random_left = RANDOM_SIZE;
  return true;
}

size_t session_write(Session *s, uint8_t opcode, bool is_compressed, const char *payload, size_t size, char *to) {
  Frame frame = {.is_last = true,
                 .has_mask = s->is_client,
                 .reserved = is_compressed ? FRAME_COMPRESSED : 0,
                 .opcode = opcode,
                 .length = size};
  if (s->is_client) {
    s->random_left -= MASK_SIZE;
    memcpy(frame.mask, s->random + s->random_left, MASK_SIZE);
  }
  size_t n = frame_write(&frame, to);
  memcpy(to + n, payload, size);
  if (frame.has_mask) frame_mask(&frame, 0, to + n, size);
  return n + size;
}

bool code_is_valid(int code) {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

void session_close(Session *s) {
  s->is_open = false;
  bytes_free(&s->in);
  bytes_free(&s->message);
  bytes_free(&s->control);
  inflater_close(&s->inflater);
}
