/* websocket_fuzz: libFuzzer on a session of WebSocket. An input is settings, and bytes that come from the network. They
   come at once, and again in pieces: both must give the same events. And what has come as messages is sent by a session of
   the other kind and read again: it must be the same. A sanitizer's report ends the process, as does a difference. */
#include <lauxlib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "websocket/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

_Noreturn static void die(const char *what) {
  (void)fprintf(stderr, "websocket_fuzz: %s\n", what);
  abort();
}

/* A text of all events of a session. */
typedef struct Story {
  Bytes text;
  size_t messages; /* how many there are */
} Story;

static void tell(Story *story, const void *bytes, size_t size) {
  if (!bytes_add(&story->text, bytes, size)) die("no memory");
}

static Session *open_session(bool is_client, size_t max, int bits) {
  Session *s = (Session *)calloc(1, session_size(is_client));
  if (!s) die("no memory");
  s->is_open = true;
  s->is_client = is_client;
  s->max = max;
  s->bits = bits;
  return s;
}

static void free_session(Session *s) {
  session_close(s);
  free(s);
}

/* Sends a message, and reads it at the other end. */
static void send_again(const Session *s, Event event, const char *message, size_t size) {
  Session *from = open_session(s->is_client, s->max, s->bits), *to = open_session(!s->is_client, s->max, s->bits);
  if (!session_has_random(from)) die("there is no random byte");
  Bytes packed = {0};
  bool is_compressed = s->bits && size >= DEFLATE_LEAST;
  if (is_compressed && !deflate_message(message, size, s->bits, &packed)) die("no memory");
  size_t length = is_compressed ? bytes_length(&packed) : size;
  char *frame = (char *)malloc(length + MOST_OF_HEADER);
  if (!frame) die("no memory");
  uint8_t opcode = event == EVENT_TEXT ? FRAME_TEXT : FRAME_BINARY;
  size_t n = session_write(from, opcode, is_compressed, is_compressed ? bytes_first(&packed) : message, length, frame);
  session_feed(to, frame, n);
  if (session_next(to) != event) die("a message that was sent does not come");
  bool is_same = bytes_length(&to->message) == size && memcmp(bytes_first(&to->message), message, size) == 0;
  if (!is_same) die("a message that was sent comes as another one");
  free(frame);
  bytes_free(&packed);
  free_session(from);
  free_session(to);
}

static void take_events(Session *s, Story *story) {
  for (Event event = session_next(s); event; event = session_next(s)) {
    char kind = (char)event;
    size_t length = bytes_length(&s->message);
    tell(story, &kind, 1);
    if (event == EVENT_TEXT || event == EVENT_BINARY) {
      const char *message = bytes_first(&s->message);
      if (length > s->max) die("a message is longer than the limit");
      if (event == EVENT_TEXT && !utf8_is_valid(message, length)) die("a text is not UTF-8");
      tell(story, &length, sizeof length);
      tell(story, message, length);
      if (story->messages++ < 4) send_again(s, event, message, length);
    } else if (event == EVENT_FAILED) {
      if (!code_is_valid(s->code) || !s->why) die("a failure has no code or no text");
      if (!s->bits) tell(story, &s->code, sizeof s->code); /* of several faults in compressed data, any is the first */
    } else if (event == EVENT_NO_MEMORY) {
      die("no memory");
    } else {
      if (bytes_length(&s->control) > MOST_OF_CONTROL) die("a control frame is too long");
      tell(story, bytes_first(&s->control), bytes_length(&s->control));
    }
    session_consume(s);
  }
}

/* Reads all bytes in pieces of `step`, with settings that are made of a number. */
static Story read_all(uint8_t settings, const uint8_t *data, size_t size, size_t step) {
  static const size_t limits[] = {0, 1, 125, 1000, 65536, 1 << 20};
  Story story = {0};
  Session *s = open_session(settings & 1, limits[(settings >> 5) % 6], settings & 2 ? 9 + (settings >> 2 & 7) % 7 : 0);
  for (size_t at = 0; at < size; at += step) {
    size_t n = size - at < step ? size - at : step;
    session_feed(s, (const char *)data + at, n);
    take_events(s, &story);
  }
  free_session(s);
  return story;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  size_t step = 1 + data[1] % 32;
  Story whole = read_all(data[0], data + 2, size - 2, size);
  Story pieces = read_all(data[0], data + 2, size - 2, step);
  size_t length = bytes_length(&whole.text);
  if (length != bytes_length(&pieces.text) ||
      memcmp(bytes_first(&whole.text), bytes_first(&pieces.text), length) != 0) {
    die("bytes in pieces are not read as at once");
  }
  bytes_free(&whole.text);
  bytes_free(&pieces.text);
  return 0;
}
