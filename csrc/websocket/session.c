/* session.c: see session.h. */
#include "websocket/session.h"

#include <fcntl.h>
#include <sys/types.h>
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

static bool is_control(uint8_t opcode) { return opcode & 8; }

/* Checks the header of a frame. Returns EVENT_NONE if it is valid. */
static Event begin_frame(Session *s) {
  const Frame *frame = &s->frame;
  uint8_t opcode = frame->opcode;
  bool continues = opcode == FRAME_CONTINUATION;
  bool begins = opcode == FRAME_TEXT || opcode == FRAME_BINARY;
  bool is_compressed = frame->bits == FRAME_COMPRESSED;
  if (frame->bits && !(is_compressed && s->bits && begins)) return refuse(s, "a frame has a reserved bit");
  if (frame->has_mask == s->is_client) {
    return refuse(s, s->is_client ? "a frame of the server has a mask" : "a frame of the client has no mask");
  }
  if (!continues && !begins && opcode != FRAME_CLOSE && opcode != FRAME_PING && opcode != FRAME_PONG) {
    return refuse(s, "a frame has an unknown opcode");
  }
  if (is_control(opcode)) {
    s->control_size = 0;
  } else {
    if (continues && !s->opcode) return refuse(s, "a frame continues a message that has not begun");
    if (begins && s->opcode) return refuse(s, "a message begins inside of another one");
    if (begins) {
      s->opcode = opcode;
      s->is_compressed = is_compressed;
      s->utf8 = (Utf8){0};
    }
    if (!s->is_compressed && frame->size > s->max - bytes_length(&s->message)) return too_long(s);
  }
  s->in_frame = true;
  s->left = frame->size;
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

static Event add(Session *s, const uint8_t *part, size_t size) {
  size_t from = bytes_length(&s->message);
  if (s->is_compressed) {
    Event wrong = inflated(s, inflater_add(&s->inflater, part, size, &s->message, s->max));
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
  s->code = CODE_NONE;
  if (s->control_size == 1) return refuse(s, "a close frame has half a code");
  if (s->control_size >= 2) {
    s->code = s->control[0] << 8 | s->control[1];
    s->control_size -= 2;
    memmove(s->control, s->control + 2, s->control_size);
    if (!code_is_valid(s->code)) return refuse(s, "a close frame has a wrong code");
    if (!utf8_is_valid((const char *)s->control, s->control_size)) return not_utf8(s);
  }
  s->is_over = true;
  return tell(s, EVENT_CLOSE);
}

/* Takes bytes of the payload, which may be the last ones, and removes their mask. Returns EVENT_NONE if no message is
   complete and nothing is wrong. */
static Event take_part(Session *s, uint8_t *part, size_t size) {
  const Frame *frame = &s->frame;
  if (frame->has_mask) frame_mask(frame, part, size, frame->size - s->left);
  s->left -= size;
  s->in_frame = s->left > 0;
  if (!is_control(frame->opcode)) {
    Event wrong = add(s, part, size);
    if (wrong) return wrong;
    return !s->in_frame && frame->is_last ? end_message(s) : EVENT_NONE;
  }
  if (size) memcpy(s->control + s->control_size, part, size);
  s->control_size += size; /* frame_read refuses more than MOST_OF_CONTROL */
  if (s->in_frame) return EVENT_NONE;
  if (frame->opcode == FRAME_CLOSE) return end_close(s);
  return tell(s, frame->opcode == FRAME_PING ? EVENT_PING : EVENT_PONG);
}

/* Drops bytes of the network that have been used. */
static void use(Session *s, size_t size) {
  bytes_drop(&s->in, size);
  if (bytes_length(&s->in) == 0 && s->in.capacity > KEPT) bytes_free(&s->in);
}

/* Takes a header, if it is there. Returns whether to go on. */
static bool take_header(Session *s) {
  int n = frame_read(&s->frame, (const uint8_t *)bytes_first(&s->in), bytes_length(&s->in));
  if (n == FRAME_WRONG) (void)refuse(s, "a frame has a wrong length, or is a control frame in fragments");
  if (n > 0 && !begin_frame(s)) use(s, (size_t)n);
  return n > 0;
}

Event session_next(Session *s) {
  while (!s->event && !s->is_over) {
    if (!s->in_frame && (!take_header(s) || s->event)) break;
    size_t size = bytes_length(&s->in) < s->left ? bytes_length(&s->in) : (size_t)s->left;
    if (size == 0 && s->left) break;
    (void)take_part(s, (uint8_t *)(uintptr_t)bytes_first(&s->in), size);
    use(s, size);
  }
  return s->event;
}

void session_consume(Session *s) {
  if (s->event == EVENT_TEXT || s->event == EVENT_BINARY) {
    s->opcode = 0;
    if (s->message.capacity > KEPT) bytes_free(&s->message);
    bytes_clear(&s->message);
  }
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
  if (!s->is_client || s->random_left >= sizeof s->frame.mask) return true;
  if (!s->is_reproducible && !random_bytes(s->random, RANDOM_SIZE)) return false;
  s->random_left = RANDOM_SIZE;
  return true;
}

size_t session_write(Session *s, uint8_t opcode, bool is_compressed, const char *payload, size_t size, char *to) {
  Frame frame = {.is_last = true,
                 .bits = is_compressed ? FRAME_COMPRESSED : 0,
                 .opcode = opcode,
                 .has_mask = s->is_client,
                 .size = size};
  if (frame.has_mask) {
    s->random_left -= sizeof frame.mask;
    memcpy(frame.mask, s->random + s->random_left, sizeof frame.mask);
  }
  size_t nheader = frame_write(&frame, (uint8_t *)to);
  if (size) memcpy(to + nheader, payload, size);
  if (frame.has_mask) frame_mask(&frame, (uint8_t *)to + nheader, size, 0);
  return nheader + size;
}

bool code_is_valid(int code) {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

void session_close(Session *s) {
  s->is_open = false;
  bytes_free(&s->in);
  bytes_free(&s->message);
  inflater_close(&s->inflater);
}
