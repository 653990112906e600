/* client.h: the C half of lua/runnel/http/client.lua: requests over HTTP, done by libcurl.

   One client for each Lua state, with one thread, which is the only one that uses the client's multi handle and, once a
   transfer has begun, its easy handle. It waits for the sockets and for its wakeup (poll), and lets libcurl work on what
   is ready. So a Lua thread that computes stops no transfer, and no driver needs to know libcurl's sockets.

   The life of a request:
   1. Lua thread: client:start(url, settings, news) makes a Transfer, sets the options of its easy handle, puts it on
      `Client.asked` and wakes the thread.
   2. The thread adds it to the multi handle. libcurl calls the functions in transfer.c with headers and body, which are
      collected in the Transfer. When Lua has to know, the thread adds an event to the Transfer (kit/events.h).
   3. Lua thread: news.c puts true on the channel `news` of each transfer that has one. A go block that waits on it
      then looks at the transfer: result(), take().

   The queue of events is open while there are transfers, so that a wait for one is no deadlock. It closes only when no
   go block is ready any more: often one makes the next request, and opening takes a fifth of one. What Lua wants of the
   thread later (to cancel, to go on after a pause) goes through `asked`, too.

   A Transfer is used by both threads; Client.lock guards what both change. The thread holds it from start to end. */
#ifndef RUNNEL_HTTP_CLIENT_H
#define RUNNEL_HTTP_CLIENT_H

#include <curl/curl.h>
#include <stdint.h>
#include <sys/types.h>
#include <zlib.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/thread.h"
#include "kit/events.h"

/* The header User-Agent of requests, unless an option says otherwise. */
#define USER_AGENT "runnel/" RUNNEL_VERSION

/* How many bytes of a stream Lua may leave untaken, and how many bytes of an upload may be unsent, before the transfer,
   or its feeding go block, waits. */
enum { ENOUGH = 256 * 1024 };

/* The limit of the headers of all responses to one request, redirects and trailers included. Newer releases of libcurl
   have a limit of 300 KB themselves. */
enum { HEADERS_MAX = 256 * 1024 };

/* The limit of a server's bytes on a connection that are neither headers nor body: those between chunks, bodies of
   redirects, compressed bytes without contents. HTTP/2 and TLS put some around each piece, so each byte of headers and
   body allows for WASTE_EACH of them, and WASTE_EACH bytes of an upload allow for one. Between pieces a server of HTTP/2
   may send a ping of 39 bytes every 15 s, say; the limit is so high that these do not reach it in two months. */
enum { WASTE_MAX = 16 << 20, WASTE_EACH = 64 };

/* Lua's requests to the thread about a transfer: a set of these. */
enum { ASK_START = 1, ASK_CANCEL = 2, ASK_RESUME = 4 };

/* How many times libcurl measures of a transfer. */
enum { TIMES = 5 };

/* The number of easy handles that are kept. */
enum { SPARE_HANDLES = 64 };

typedef struct Client {
  Handle handle;              /* held also by each transfer */
  const runnel_functions *rn; /* the core's functions */
  Events events;              /* of transfers: 1 for any event */
  Thread thread;              /* the only one that uses the multi handle */
  size_t under_way;           /* number of transfers; Lua thread, as the next one */
  runnel_task wake;           /* wakes the thread */
  atomic_int host_max;        /* connections to one host, at most; 0: any number. Set by Lua, read by the thread */
  runnel_task rest;           /* closes the queue of events if there are no transfers */

  pthread_mutex_t works; /* held by the thread while libcurl works, and by Lua while it uses a jar: see cookies.c */
  pthread_mutex_t lock;  /* guards the rest, and parts of transfers */
  List asked;            /* Transfers for which Transfer.asks is not empty */
  bool closes_idle;      /* close the kept connections when no transfer is under way */
  CURL *spare[SPARE_HANDLES]; /* easy handles of transfers that were not special, for further ones */
  size_t nspare;              /* their number */
} Client;

/* User values of a client: the transfers under way, by Transfer.ref; the channel of the port, which stays empty; the
   functions that offer to a channel and close it. */
enum { CLIENT_TRANSFERS = 1, CLIENT_EVENTS, CLIENT_OFFER, CLIENT_CLOSE, CLIENT_VALUES = CLIENT_CLOSE };

/* Why a transfer has failed, if libcurl only knows that a function of this module has refused. */
typedef enum Refusal {
  REFUSED_NOT,
  REFUSED_BODY,    /* it is too long */
  REFUSED_HEADERS, /* they are too long */
  REFUSED_LENGTHS, /* they give two lengths of the body */
  REFUSED_WASTE,   /* too much that is neither */
  REFUSED_MEMORY,  /* no memory */
  REFUSED_FILE,    /* a file to send cannot be read, or has become shorter */
  REFUSED_AGAIN,   /* the connection was closed before the response, and the method may not be sent again */
  REFUSED_CODING,  /* unknown compression */
  REFUSED_CHUNKS,  /* the body is sent in another coding than in chunks */
  REFUSED_DAMAGED, /* the compressed body is wrong */
  REFUSED_CUT,     /* the end of the compressed body is missing */
  REFUSED_MORE,    /* one more redirect than may be followed */
  REFUSED_HEAD     /* the connection was closed before the headers of the response were complete */
} Refusal;

/* The effect of a redirect depends on the request's method. */
typedef enum Method { METHOD_GET, METHOD_HEAD, METHOD_POST, METHOD_OTHER } Method;

typedef struct Transfer {
  Handle handle;  /* held also by the thread, from its start to its end */
  Client *client; /* with a hold */

  /* Set before it starts, used in the thread from then on. */
  CURL *easy;                  /* owned; NULL once it has ended */
  struct curl_slist *headers;  /* lines to send, owned; or NULL */
  struct curl_slist *lists[2]; /* the lists in libcurl's options; owned */
  size_t nlists;               /* their number */
  struct Cookies *cookies;     /* with a hold; or NULL */
  curl_mime *mime;             /* a multipart body, owned; or NULL */
  curl_off_t max;              /* bytes of the body, at most */
  int64_t timeout;             /* ms for the whole of it, below 2^31; 0: no limit */
  bool is_stream;              /* the body is taken in pieces; no limit if `max` is 0 */
  bool wants_certificates;     /* those of the server */
  bool wants_hints;            /* the headers of responses of status 103 */
  bool is_fed;                 /* the body to send is fed in pieces */
  bool is_special;             /* it has settings that further uses of its easy handle must not have */
  bool follows;                /* redirects are followed */
  curl_off_t redirects;        /* how many, at most */
  bool repeats;                /* it may be sent again unasked: lua/runnel/http/http_options.lua decides */
  bool logs_in;                /* a response 401 or 407 may be answered with a further request */
  bool has_cookie;             /* it has libcurl's option "cookie" */
  bool is_raw;                 /* it is passed on (http.proxy): what libcurl would add or decompress stays as it is */
  struct SentFile *file;       /* the body, owned; NULL: it is no file */
  bool is_decoded; /* decode.c leaves the body alone: libcurl decompresses it, since the options ask for codings
                                unknown to decode.c; or nobody does (is_raw) */

  /* Used in the thread only. */
  Link active;           /* in the list of libcurl's transfers */
  int64_t deadline;      /* when the thread ends it, in ms of the monotonic clock; INT64_MAX: never. See end_late */
  Method method;         /* of the last request; set with the options */
  curl_off_t received;   /* bytes of the body so far, decompressed */
  size_t header_bytes;   /* of all headers so far */
  curl_off_t connection; /* libcurl's number of its connection; -1: none yet, or libcurl does not tell */
  curl_off_t allowed;    /* bytes of headers and body, and those for which they allow; see WASTE_MAX */
  bool has_body;         /* a part of the body has arrived */
  z_stream *inflater;    /* decompresses the body, owned; or NULL */
  bool is_inflated;      /* the end of the compressed bytes has arrived */
  size_t inflated;       /* how many bytes were decompressed of a part of the body that libcurl will pass again */
  long requests;         /* how often it was sent: also for redirects, and again after a closed connection */
  curl_off_t redirected; /* how many redirects were followed */
  bool is_answered;      /* a response of at least 200 has begun since it was last sent */
  bool is_in_head;       /* a response has begun whose headers are not complete */
  int socket_error;      /* errno of the last socket that could not be made; 0: none */
  int file_error;        /* errno, if a file to send cannot be read; 0: it has become shorter */
  Refusal refusal;       /* why a function of this module has refused */

  /* Set in the thread. Lua reads `head` and `status` once `has_head` is set, all once `has_ended` is. */
  atomic_bool has_head;        /* the headers of the last response are complete */
  atomic_bool has_ended;       /* nothing changes any more */
  long status;                 /* of the last response; 0 without one */
  CURLcode code;               /* the result */
  char *url;                   /* the last one, after redirects; or NULL */
  curl_off_t times[TIMES];     /* in microseconds, from the beginning; the names are in response.lua */
  Bytes certificates;          /* if wanted: "name:value" with a zero byte for each field, and one after each */
  char error[CURL_ERROR_SIZE]; /* libcurl's text for the error */
  Bytes head;                  /* the lines of the last response's headers, without its status */
  Bytes trailers;              /* the lines behind its body */
  Bytes body;                  /* of the response; of a stream, the untaken part: then Client.lock guards it */

  /* Client.lock guards these. */
  Link asked;      /* in Client.asked */
  unsigned asks;   /* ASK_... */
  bool no_receive; /* paused, since Lua does not take; set by Lua, as the next one */
  bool no_send;    /* paused, since there are no bytes to send */
  bool fed_all;    /* the upload is complete */
  Bytes feed;      /* bytes to send */
  Bytes hints;     /* if wanted: the lines of early hints, and an empty line after each response */

  /* Used in the Lua thread only. */
  bool is_over; /* Lua has dropped it, or knows its end */
  int ref;      /* in the client's table of transfers */
  Bytes taken;  /* from `body`, on its way to Lua */
} Transfer;

/* User values of a transfer: the channels that get true with each event; the second one, for the feeding go block, may
   be nil. */
enum { TRANSFER_NEWS = 1, TRANSFER_ROOM, TRANSFER_VALUES = TRANSFER_ROOM };

#define CLIENT_TYPE "runnel.http.client"
#define TRANSFER_TYPE "runnel.http.transfer"
#define COOKIES_TYPE "runnel.http.jar"

static inline void client_lock(Client *client) { (void)pthread_mutex_lock(&client->lock); }
static inline void client_unlock(Client *client) { (void)pthread_mutex_unlock(&client->lock); }

/* ---- client.c ---- */

/* Adds an event to a transfer, so that Lua checks its state. Without Client.lock. */
void transfer_tell(Transfer *transfer);

/* Sends a request to the thread. Client.lock must not be held. Lua thread. */
void client_ask(lua_State *L, Transfer *transfer, unsigned what);

/* Wakes the thread of a Client: the run of Client.wake. */
void client_wake(void *data);

/* ---- thread.c ---- */

/* Runs the thread of a Client. */
void *thread_run(void *data);

/* ---- transfer.c, and what it is made of: client.c, decode.c, redirect.c ---- */

/* HandleType.free of a Transfer. */
void transfer_free(void *transfer);

/* Makes libcurl call the functions that take headers and body, and provide the upload. */
void transfer_set_callbacks(Transfer *transfer);

/* Frees the easy handle's data, and the handle, unless it is kept for reuse. */
void transfer_free_easy(Transfer *transfer);

/* Headers, or a part of the body, have arrived: they allow for other bytes. */
static inline void transfer_allow_waste(Transfer *transfer, size_t size) {
  transfer->allowed += (curl_off_t)size * WASTE_EACH;
}

/* Whether a stream must wait until Lua has taken its bytes. */
bool transfer_waits(Transfer *transfer);

/* Takes a part of the body, decompressed. False if it is refused. */
bool transfer_keep_body(Transfer *transfer, const char *from, size_t size);

/* For a callback, whose result means failure: records the reason. Returns 0, or false. */
static inline size_t transfer_refuse(Transfer *transfer, Refusal why) {
  transfer->refusal = why;
  return 0;
}

/* Prepares the decompression that the headers ask for, before the first part of the body. False if it is refused, as
   the next one. */
bool decode_begin(Transfer *transfer);

/* Decompresses a part of the body: for libcurl, which wants its size. If a stream has enough for Lua meanwhile, pauses
   it: then libcurl calls again with the same bytes. */
size_t decode_body(Transfer *transfer, const char *from, size_t size);

/* Whether the end of a compressed body is missing. */
bool decode_is_cut(const Transfer *transfer);

/* Frees the decompression's data. */
void decode_end(Transfer *transfer);

/* The headers belong to a redirect that is followed, with that status and Location: makes the next request conform to
   the Fetch standard. False if it is refused. */
bool redirect_prepare(Transfer *transfer, long status, const char *location, size_t size);

/* resolve(url [, location [, as_is]]) -> the URL to which libcurl sends a request for `url`, or after a redirect to
   `location`, which may be relative; `as_is`: with `.` and `..` in its path. Or nil and why libcurl refuses it. For
   servers that are functions of Lua. */
int redirect_resolve(lua_State *L);

/* The server does not accept the header Expect (status 417): libcurl sends the request again, now without it. False if
   it is refused. */
bool redirect_drop_expect(Transfer *transfer);

/* ---- sent_file.c ---- */

typedef struct SentFile SentFile;

/* A file to send from one offset to another: an open one, which it owns; or, with -1, the one with that path, which is
   opened when it is read. `end` is -1 for a pipe or a device, of which all is sent that comes: it cannot be sent twice.
   NULL if there is no memory. */
SentFile *sent_file_new(Transfer *transfer, int fd, const char *path, off_t start, off_t end);

/* For libcurl: CURLOPT_READFUNCTION, CURLOPT_SEEKFUNCTION (a redirect may send the file again), and curl_free_callback. */
size_t sent_file_read(char *to, size_t one, size_t size, void *data);
int sent_file_seek(void *data, curl_off_t offset, int from);
void sent_file_free(void *data);

/* ---- news.c: Lua thread ---- */

/* The `deliver` of Client.events. */
int client_deliver(lua_State *L);

/* Removes a transfer from those under way; after the last one Client.rest is run. Does nothing if it is over. Does not
   raise. */
void transfer_leave(lua_State *L, Transfer *transfer);

/* The run of Client.rest. */
void client_rest(void *data);

/* ---- settings.c and options.c: Lua thread ---- */

/* Sets the options of the easy handle from the table of settings at an index, or nil there for none. `is_new`: the handle
   has not been used for a transfer. Raises if an option is wrong. */
void settings_apply(lua_State *L, const char *url, int at, Transfer *transfer, bool is_new);

/* Pushes the table of the default limits. */
void settings_push_limits(lua_State *L);

/* Pushes a table of the names of the allowed libcurl options: of each its kind, or the list of the names that its value
   may have. */
void options_push(lua_State *L);

/* Sets libcurl's option of a name to the value on top of the stack; does nothing if there is none. */
void options_set(lua_State *L, const char *name, Transfer *transfer);

/* Sets an option to the list of strings on top of the stack, which is copied to `list`. */
void options_set_list(lua_State *L, const char *name, CURLoption option, Transfer *transfer, struct curl_slist **list);

/* Raises an error of libcurl. */
void options_must(lua_State *L, const char *name, CURLcode code);

/* ---- response.c ---- */

/* headers(lines) -> the table of headers. */
int response_headers(lua_State *L);

/* Whether libcurl follows a redirect with this status; as the Fetch standard says. */
static inline bool status_redirects(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* The value of the first header with a name, and its size; or NULL. */
const char *response_find(const Bytes *head, const char *name, size_t *size);

/* Whether the headers give one length of the body: all of Content-Length are the same; and, if the response is passed
   on, there is no Transfer-Encoding beside one. */
bool response_has_one_length(const Transfer *transfer);

/* Whether a body is sent in no other coding than in chunks: libcurl passes on what it does not decode. */
bool response_is_only_chunked(const Transfer *transfer);

/* Pushes the short name and the text of a failed transfer's error. */
void response_push_error(lua_State *L, const Transfer *transfer);

/* Notes how long it took, and the certificates if they are wanted; before the easy handle is freed. False if there is no
   memory. */
bool response_note_connection(Transfer *transfer);

/* Writes the user's message into Transfer.error, unless libcurl has; before the easy handle is freed. */
void response_note_error(Transfer *transfer);

/* ---- cookies.c ---- */

/* Makes a transfer use and hold the jar on top of the stack. */
typedef struct Cookies Cookies;
void cookies_use(lua_State *L, Transfer *transfer);

/* cookies() -> a jar, for the setting of that name: see cookies.c. */
int cookies_new(lua_State *L);
int cookies_is(lua_State *L);

/* ---- calls.c ---- */

/* Make the metatables. */
void calls_open(lua_State *L);
void cookies_open(lua_State *L);

/* client:start(url, settings, news [, room]) -> transfer: see calls.c. */
int transfer_start(lua_State *L);

/* client:limit(n): at most n connections to each host; 0: any number. */
int client_limit(lua_State *L);

/* client:close_idle(): closes the kept connections, as soon as no transfer is under way. */
int client_close_idle(lua_State *L);

/* ---- module.c ---- */

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int luaopen_runnel_http_curl(lua_State *L);

/* ---- gzip.c: the streams of a server's bodies ---- */

/* deflater(level) -> a stream that compresses, with a level from 1 (fast) to 9 (small). */
int gzip_deflater(lua_State *L);

/* inflater() -> a stream that decompresses. */
int gzip_inflater(lua_State *L);

/* crc32(sum, bytes) -> the CRC-32 of what `sum` is that of, followed by `bytes`; of nothing it is 0. */
int gzip_crc32(lua_State *L);

/* Makes the type of the streams. */
void gzip_open(lua_State *L);

#endif
