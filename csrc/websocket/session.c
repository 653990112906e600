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

static bool is_control(uint8_t opcode) { return opcode & 8; }

/* Checks the header of a frame, when its first part has arrived. Returns EVENT_NONE if it is valid. */
static Event begin_frame(Session *s, const struct wslay_frame_iocb *frame) {
  uint8_t opcode = frame->opcode;
  bool continues = opcode == WSLAY_CONTINUATION_FRAME;
  bool begins = opcode == WSLAY_TEXT_FRAME || opcode == WSLAY_BINARY_FRAME;
  bool is_compressed = frame->rsv == WSLAY_RSV1_BIT;
  if (frame->rsv && !(is_compressed && s->bits && begins)) return refuse(s, "a frame has a reserved bit");
  if ((frame->mask != 0) == s->is_client) {
    return refuse(s, s->is_client ? "a frame of the server has a mask" : "a frame of the client has no mask");
  }
  if (!continues && !begins && opcode != WSLAY_CONNECTION_CLOSE && opcode != WSLAY_PING && opcode != WSLAY_PONG) {
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
    if (!s->is_compressed && frame->payload_length > s->max - bytes_length(&s->message)) return too_long(s);
  }
  s->in_frame = true;
  s->left = frame->payload_length;
  return EVENT_NONE;
}

static Event inflated(Session *s, Inflated result) {
  if (result == INFLATED_WRONG) return fail(s, CODE_NOT_UTF8, "a compressed message is damaged");
  if (result == INFLATED_TOO_LONG) return too_long(s);
  return result == INFLATED_NO_MEMORY ? no_memory(s) : EVENT_NONE;
}

/* Checks the part of a text from the offset on. */
static Event check_text(Session *s, size_t from) {
  if (s->opcode != WSLAY_TEXT_FRAME) return EVENT_NONE;
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
  if (s->opcode == WSLAY_TEXT_FRAME && !utf8_is_complete(&s->utf8)) return not_utf8(s);
  return tell(s, s->opcode == WSLAY_TEXT_FRAME ? EVENT_TEXT : EVENT_BINARY);
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

/* Takes a part of a frame, or all of it. Returns EVENT_NONE if no message is complete and nothing is wrong. */
static Event take_part(Session *s, const struct wslay_frame_iocb *frame) {
  if (!s->in_frame) {
    Event wrong = begin_frame(s, frame);
    if (wrong) return wrong;
  }
  s->left -= frame->data_length;
  s->in_frame = s->left > 0;
  if (!is_control(frame->opcode)) {
    Event wrong = add(s, frame->data, frame->data_length);
    if (wrong) return wrong;
    return !s->in_frame && frame->fin ? end_message(s) : EVENT_NONE;
  }
  if (frame->data_length) memcpy(s->control + s->control_size, frame->data, frame->data_length);
  s->control_size += frame->data_length; /* wslay refuses more than MOST_OF_CONTROL */
  if (s->in_frame) return EVENT_NONE;
  if (frame->opcode == WSLAY_CONNECTION_CLOSE) return end_close(s);
  return tell(s, frame->opcode == WSLAY_PING ? EVENT_PING : EVENT_PONG);
}

Event session_next(Session *s) {
  while (!s->event && !s->is_over) {
    struct wslay_frame_iocb frame = {0};
    ssize_t n = wslay_frame_recv(s->frames, &frame);
    if (n == WSLAY_ERR_WANT_READ && !bytes_length(&s->in)) break;
    if (n == WSLAY_ERR_PROTO) return refuse(s, "a frame has a wrong length, or is a control frame in fragments");
    if (n >= 0) (void)take_part(s, &frame);
  }
  return s->event;
}

void session_consume(Session *s) {
  if (s->event == EVENT_TEXT || s->event == EVENT_BINARY) {
    s->opcode = 0;
    if (s->message.capacity > 65536) bytes_free(&s->message); /* an idle connection keeps little memory */
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
  if (!s->is_client || s->random_left >= MASK_SIZE) return true;
  if (!s->is_reproducible && !random_bytes(s->random, RANDOM_SIZE)) return false;
  s->random_left = RANDOM_SIZE;
  return true;
}

size_t session_write(Session *s, uint8_t opcode, bool is_compressed, const char *payload, size_t size, char *to) {
  struct wslay_frame_iocb frame = {.fin = 1,
                                   .rsv = is_compressed ? WSLAY_RSV1_BIT : WSLAY_RSV_NONE,
                                   .opcode = opcode,
                                   .payload_length = size,
                                   .mask = s->is_client,
                                   .data = (const uint8_t *)payload,
                                   .data_length = size};
  s->out = to;
  s->out_size = 0;
  (void)wslay_frame_send(s->frames, &frame); /* it cannot fail: on_send takes everything */
  return s->out_size;
}

bool code_is_valid(int code) {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

/* ---- what wslay calls ---- */

static ssize_t on_recv(uint8_t *to, size_t size, int flags, void *data) {
  Session *s = (Session *)data;
  (void)flags;
  size_t n = bytes_take(&s->in, (char *)to, size);
  return n ? (ssize_t)n : -1;
}

static ssize_t on_send(const uint8_t *bytes, size_t size, int flags, void *data) {
  Session *s = (Session *)data;
  (void)flags;
  memcpy(s->out + s->out_size, bytes, size);
  s->out_size += size;
  return (ssize_t)size;
}

static int on_mask(uint8_t *to, size_t size, void *data) {
  Session *s = (Session *)data;
  s->random_left -= size;
  memcpy(to, s->random + s->random_left, size);
  return 0;
}

bool session_open(Session *s) {
  static const struct wslay_frame_callbacks callbacks = {on_send, on_recv, on_mask};
  return wslay_frame_context_init(&s->frames, &callbacks, s) == 0;
}

void session_close(Session *s) {
  if (s->frames) wslay_frame_context_free(s->frames);
  s->frames = NULL;
  bytes_free(&s->in);
  bytes_free(&s->message);
  inflater_close(&s->inflater);
}
