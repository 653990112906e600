/* head.c: see head.h. */
#include "http/server/head.h"

/* The largest number of digits in Content-Length: all such lengths fit in 63 bits. */
enum { LENGTH_DIGITS = 18 };

bool head_is_token(unsigned char c) {
  static const uint64_t tokens[] = {UINT64_C(0x3ff6cfa00000000), UINT64_C(0x57ffffffc7fffffe)};
  return c < 128 && (tokens[c / 64] >> c % 64 & 1);
}

bool head_is_value(unsigned char c) { return (c >= ' ' && c != 127) || c == '\t'; }

/* Visible ASCII characters, except `#`, which begins a fragment. */
static bool is_of_target(unsigned char c) { return c > ' ' && c < 127 && c != '#'; }

/* Characters of a host name, or of an address of IPv4. */
static bool is_of_host(unsigned char c) { return c > ' ' && c < 127 && !strchr("\"#,/:<>?@[\\]^`{|}", c); }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_of_ipv6(char c) { return c != 0 && strchr("0123456789ABCDEFabcdef:.", c); }

/* The size of the address of IPv6, with its brackets, at the beginning of a host; 0 if there is none. Of the address
   only the characters are checked, and that it has two colons. */
static size_t ipv6_size(Slice host) {
  size_t at = 1, colons = 0;
  if (host.size == 0 || *host.at != '[') return 0;
  while (at < host.size && is_of_ipv6(host.at[at])) colons += host.at[at++] == ':';
  return colons >= 2 && at < host.size && host.at[at] == ']' ? at + 1 : 0;
}

/* Whether it is a host, with a port or without one; the host may be empty. */
static bool is_host(Slice host) {
  size_t at = ipv6_size(host);
  if (!at) {
    while (at < host.size && is_of_host((unsigned char)host.at[at])) at++;
  }
  if (at == host.size) return true;
  if (host.at[at] != ':') return false;
  do at++;
  while (at < host.size && is_digit(host.at[at]));
  return at == host.size;
}

/* ---- where the head ends ---- */

/* Whether a request may begin with this byte: the first one of a method or of an empty line. */
static bool may_begin(char c) { return c == '\r' || head_is_token((unsigned char)c); }

/* The result for a head that is longer than `max`. `begin`: where its first line begins. */
static ptrdiff_t too_long(const char *bytes, size_t begin, size_t max) {
  return memchr(bytes + begin, '\n', max - begin) ? -431 : -414;
}

ptrdiff_t head_find(const char *bytes, size_t size, size_t max, size_t *seen) {
  if (size && !may_begin(*bytes)) return -400;
  size_t begin = size >= 2 && bytes[0] == '\r' && bytes[1] == '\n' ? 2 : 0; /* one empty line is ignored */
  for (;;) {
    const char *end = *seen < size ? (const char *)memchr(bytes + *seen, '\n', size - *seen) : NULL;
    if (!end) break;
    size_t at = (size_t)(end - bytes), before = *seen;
    if (at >= max) return too_long(bytes, begin, max);
    *seen = at + 1;
    if (at == 0 || end[-1] != '\r') return -400;
    bool is_empty = at == 1 || bytes[at - 2] == '\n';
    if (is_empty && before >= begin && *seen > 2) return *seen == begin + 2 ? -400 : (ptrdiff_t)*seen;
  }
  *seen = size;
  return size > max ? too_long(bytes, begin, max) : 0;
}

/* ---- the first line ---- */

/* Removes the text before the next space from a line, and the space; returns that text, which is empty if there is no
   space. */
static Slice take_word(Slice *line) {
  const char *space = line->size ? (const char *)memchr(line->at, ' ', line->size) : NULL;
  if (!space) return (Slice){line->at, 0};
  Slice word = {line->at, (size_t)(space - line->at)};
  line->at += word.size + 1;
  line->size -= word.size + 1;
  return word;
}

static bool has_case(Slice slice, const char *text) {
  return slice.size == strlen(text) && memcmp(slice.at, text, slice.size) == 0;
}

static bool begins_with(Slice slice, const char *text) {
  return slice.size > strlen(text) && strncasecmp(slice.at, text, strlen(text)) == 0;
}

static int read_version(Head *head, Slice version) {
  bool is_version = version.size == 8 && memcmp(version.at, "HTTP/", 5) == 0 && is_digit(version.at[5]) &&
                    version.at[6] == '.' && is_digit(version.at[7]);
  if (!is_version) return 400;
  head->is_old = version.at[7] == '0';
  return version.at[5] == '1' ? 0 : 505;
}

/* Whether a target is a URL with a host. The host replaces that of the header Host, and must be as strict. An @ in the
   query of a URL without a path is refused, since HAProxy takes what is before it for a user. */
static bool is_absolute(Slice target) {
  size_t at = begins_with(target, "http://") ? 7 : begins_with(target, "https://") ? 8 : 0, end = at;
  while (end < target.size && target.at[end] != '/' && target.at[end] != '?') end++;
  bool has_at = end < target.size && target.at[end] == '?' && memchr(target.at + end, '@', target.size - end);
  return at > 0 && end > at && target.at[at] != ':' && !has_at && is_host((Slice){target.at + at, end - at});
}

static int read_first(Head *head, Slice line) {
  head->method = take_word(&line);
  head->target = take_word(&line);
  if (!head->method.size || !slice_all(head->method, head_is_token)) return 400;
  if (!head->target.size || !slice_all(head->target, is_of_target)) return 400;
  int status = read_version(head, line);
  if (status) return status;
  head->is_head = has_case(head->method, "HEAD");
  if (has_case(head->method, "CONNECT")) return 501;
  bool is_asterisk = has_case(head->target, "*") && has_case(head->method, "OPTIONS");
  return *head->target.at == '/' || is_asterisk || is_absolute(head->target) ? 0 : 400;
}

/* ---- headers ---- */

/* Reads a line NAME: VALUE, passed without its line end; false if it is not one. */
static bool read_field(Slice line, Field *field) {
  const char *colon = line.size ? (const char *)memchr(line.at, ':', line.size) : NULL;
  if (!colon || colon == line.at) return false;
  field->name = (Slice){line.at, (size_t)(colon - line.at)};
  field->value = slice_trim((Slice){colon + 1, line.size - field->name.size - 1});
  return slice_all(field->name, head_is_token) && slice_all(field->value, head_is_value);
}

static bool read_length(Slice value, uint64_t *length) {
  if (!value.size || value.size > LENGTH_DIGITS) return false;
  *length = 0;
  for (size_t i = 0; i < value.size; i++) {
    if (!is_digit(value.at[i])) return false;
    *length = *length * 10 + (uint64_t)(value.at[i] - '0');
  }
  return true;
}

/* Whether a list of words, separated by commas, contains this word. */
static bool has_word(Slice list, const char *word) {
  while (list.size) {
    const char *comma = (const char *)memchr(list.at, ',', list.size);
    Slice element = {list.at, comma ? (size_t)(comma - list.at) : list.size};
    if (slice_is(slice_trim(element), word)) return true;
    size_t past = comma ? element.size + 1 : element.size;
    list.at += past;
    list.size -= past;
  }
  return false;
}

/* The last element of such a list. */
static Slice last_word(Slice list) {
  size_t at = list.size;
  while (at > 0 && list.at[at - 1] != ',') at--;
  return slice_trim((Slice){list.at + at, list.size - at});
}

/* The status for a request with this Transfer-Encoding, by RFC 9112, 6.1 and 6.3: 0 if it is accepted; 501 for an
   unknown coding below chunked; 400 if the end of the body is unknown. */
static int read_coding(Slice value) {
  return slice_is(value, "chunked") ? 0 : slice_is(last_word(value), "chunked") ? 501 : 400;
}

/* The headers that decide where a request and its connection end. */
typedef struct Borders {
  unsigned hosts, lengths, codings; /* how many there are of each */
  bool closes, keeps, upgrades;     /* words of Connection */
  bool has_protocol;                /* there is a header Upgrade */
} Borders;

static int read_border(Head *head, Borders *borders, const Field *field) {
  Slice name = field->name, value = field->value;
  if (slice_is(name, "Host")) {
    borders->hosts++;
    return is_host(value) ? 0 : 400;
  }
  if (slice_is(name, "Content-Length")) {
    borders->lengths++;
    return read_length(value, &head->length) ? 0 : 400;
  }
  if (slice_is(name, "Transfer-Encoding")) {
    borders->codings++;
    return read_coding(value);
  }
  if (slice_is(name, "Connection")) {
    borders->closes |= has_word(value, "close");
    borders->keeps |= has_word(value, "keep-alive");
    borders->upgrades |= has_word(value, "upgrade");
  }
  if (slice_is(name, "Upgrade")) borders->has_protocol = value.size > 0;
  if (slice_is(name, "Expect")) {
    head->expects = !head->is_old;
    return slice_is(value, "100-continue") ? 0 : 417;
  }
  return 0;
}

static int read_borders(Head *head) {
  Borders borders = {0};
  for (size_t i = 0; i < head->nfields; i++) {
    int status = read_border(head, &borders, &head->fields[i]);
    if (status) return status;
  }
  if (borders.hosts > 1 || (borders.hosts == 0 && !head->is_old)) return 400;
  if (borders.lengths + borders.codings > 1 || (borders.codings && head->is_old)) return 400;
  head->is_chunked = borders.codings > 0;
  head->keeps = !borders.closes && (!head->is_old || borders.keeps);
  head->upgrades = borders.upgrades && borders.has_protocol && !head->is_old;
  return 0;
}

int head_read(Head *head, const char *bytes, size_t size) {
  const char *end = bytes + size - 2; /* where the last, empty line begins */
  if (bytes[0] == '\r' && bytes[1] == '\n') bytes += 2;
  *head = (Head){.nfields = 0};
  for (bool is_first = true; bytes < end; is_first = false) {
    const char *next = (const char *)memchr(bytes, '\n', (size_t)(end - bytes));
    Slice line = {bytes, (size_t)(next - 1 - bytes)};
    if (!is_first && head->nfields == HEAD_FIELDS) return 431;
    int status = is_first ? read_first(head, line) : read_field(line, &head->fields[head->nfields++]) ? 0 : 400;
    if (status) return status;
    bytes = next + 1;
  }
  return read_borders(head);
}
