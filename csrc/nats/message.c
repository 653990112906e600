/* message.c: messages: makes tables of received ones, and sends others. */
#include <string.h>

#include "nats/conn.h"

/* The headers of a message for its table: lists of libnats, from malloc. */
typedef struct Headers {
  natsMsg *msg;        /* the message */
  const char **names;  /* of its headers */
  int count;           /* how many there are */
  const char **values; /* of the present header; NULL if it has been freed */
} Headers;

/* Pushes the values of a header: a string, or a list if there are several. */
static bool push_values(lua_State *L, Headers *headers, const char *name) {
  int count = 0;
  if (natsMsgHeader_Values(headers->msg, name, &headers->values, &count) != NATS_OK) return false;
  if (count == 1) lua_pushstring(L, headers->values[0]);
  else lua_createtable(L, count, 0);
  for (int i = 0; count != 1 && i < count; i++) {
    lua_pushstring(L, headers->values[i]);
    lua_rawseti(L, -2, i + 1);
  }
  free((void *)headers->values);
  headers->values = NULL;
  return true;
}

/* Protected: (headers) -> a table of the headers: strings, or lists of strings */
static int make_headers(lua_State *L) {
  Headers *headers = (Headers *)lua_touserdata(L, 1);
  lua_createtable(L, 0, headers->count);
  for (int i = 0; i < headers->count; i++)
    if (push_values(L, headers, headers->names[i])) lua_setfield(L, -2, headers->names[i]);
  return 1;
}

bool message_push_headers(lua_State *L, natsMsg *msg) {
  Headers headers = {.msg = msg};
  if (natsMsgHeader_Keys(msg, &headers.names, &headers.count) != NATS_OK) return false;
  lua_pushcfunction(L, make_headers);
  lua_pushlightuserdata(L, &headers);
  int status = lua_pcall(L, 1, 1, 0);
  free((void *)headers.values);
  free((void *)headers.names);
  if (status != LUA_OK) (void)lua_error(L);
  return true;
}

/* Adds the headers, and the status with its description, to the table on top of the stack. */
static void add_headers(lua_State *L, natsMsg *msg) {
  if (!message_push_headers(L, msg)) return;
  lua_getfield(L, -1, "Status");
  lua_setfield(L, -3, "status");
  lua_getfield(L, -1, "Description");
  lua_setfield(L, -3, "description");
  lua_setfield(L, -2, "headers");
}

void message_push_table(lua_State *L, natsMsg *msg) {
  lua_createtable(L, 0, 3);
  lua_pushstring(L, natsMsg_GetSubject(msg));
  lua_setfield(L, -2, "subject");
  lua_pushlstring(L, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg));
  lua_setfield(L, -2, "data");
  const char *reply = natsMsg_GetReply(msg);
  if (reply) {
    lua_pushstring(L, reply);
    lua_setfield(L, -2, "reply");
  }
  add_headers(L, msg);
}

/* ---- sending ---- */

/* The text of a string or a number at the absolute index `at`; of a float with a point in every locale. */
static const char *text_at(lua_State *L, int at, size_t *size) {
  enum { MOST = 64 }; /* longer than any number */
  bool is_float = lua_type(L, at) == LUA_TNUMBER && !lua_isinteger(L, at);
  const char *text = luaL_checklstring(L, at, size);
  if (!is_float || *size >= MOST) return text;
  char with_point[MOST];
  size_t length = 0;
  for (const char *c = text; *c; c++) {
    bool is_point = !strchr("0123456789+-abcdefghijklmnopqrstuvwxyz", *c);
    if (!is_point) with_point[length++] = *c;
    else if (length == 0 || with_point[length - 1] != '.') with_point[length++] = '.'; /* it may have several bytes */
  }
  text = lua_pushlstring(L, with_point, length);
  lua_replace(L, at);
  *size = length;
  return text;
}

/* A message to be sent, from publish's arguments. */
typedef struct Outgoing {
  const char *subject; /* where to */
  const char *reply;   /* where answers go, or NULL */
  const char *data;    /* the payload */
  size_t size;         /* its bytes */
} Outgoing;

/* (conn, subject, data, reply): checks them; false if one is wrong, with the results of conn_refuse pushed. */
static bool read_outgoing(lua_State *L, const Conn *conn, Outgoing *out) {
  size_t size;
  out->subject = luaL_checklstring(L, 2, &size);
  out->data = text_at(L, 3, &out->size);
  bool ok = subject_check(L, out->subject, size, false);
  out->reply = NULL;
  if (ok && !lua_isnoneornil(L, 4)) {
    out->reply = luaL_checklstring(L, 4, &size);
    ok = subject_check(L, out->reply, size, false);
  }
  int64_t most = conn->max_payload;
  if (ok && most > 0 && out->size > (size_t)most) {
    lua_pushfstring(L, "the value takes %d bytes, and the server's limit is %d (its max_payload)", (int)out->size,
                    (int)most);
    ok = false;
  }
  return ok;
}

/* Whether a string can be in a header line. */
static bool is_line(const char *s, size_t size, const char *not_in) { return strlen(s) == size && !strpbrk(s, not_in); }

/* Headers to be added to a message. */
typedef struct Filling {
  natsMsg *msg;      /* the message */
  size_t bytes;      /* their size in the message */
  const char *wrong; /* what is invalid, or NULL */
} Filling;

/* The size of the lines around the headers, and of what is around the name and the value of each. */
enum { AROUND_HEADERS = sizeof "NATS/1.0\r\n\r\n" - 1, AROUND_HEADER = sizeof ": \r\n" - 1 };

/* Adds one header: the name at -2, and the value on top of the stack. NULL, or what is invalid. */
static const char *add_header(lua_State *L, Filling *filling) {
  size_t name_size, size;
  if (lua_type(L, -2) != LUA_TSTRING) return "a header's name must be a string";
  const char *name = lua_tolstring(L, -2, &name_size);
  if (name_size == 0 || !is_line(name, name_size, "\r\n:")) return "a header's name is empty, or has ':' or a newline";
  if (lua_type(L, -1) != LUA_TSTRING && !lua_isnumber(L, -1)) return "a header's value must be a string or a number";
  const char *value = text_at(L, lua_gettop(L), &size);
  if (!is_line(value, size, "\r\n")) return "a header's value has a newline or a zero byte";
  filling->bytes += (filling->bytes ? 0 : AROUND_HEADERS) + name_size + size + AROUND_HEADER;
  return natsMsgHeader_Add(filling->msg, name, value) == NATS_OK ? NULL : "not enough memory";
}

/* Adds the headers of the table at index 1: strings, or lists of strings. NULL, or what is invalid. */
static const char *add_all(lua_State *L, Filling *filling) {
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    const char *wrong = NULL;
    if (lua_type(L, -1) == LUA_TTABLE) {
      for (int i = 1; !wrong && lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
        lua_pushvalue(L, -3);
        lua_insert(L, -2);
        wrong = add_header(L, filling);
        lua_pop(L, 2);
      }
      if (!wrong) lua_pop(L, 1);
    } else {
      wrong = add_header(L, filling);
    }
    if (wrong) return wrong;
  }
  return NULL;
}

/* Protected: (headers, filling) */
static int fill(lua_State *L) {
  Filling *filling = (Filling *)lua_touserdata(L, 2);
  filling->wrong = add_all(L, filling);
  return 0;
}

/* Adds the headers of the table at index 5 to a message. If it raises, it destroys the message. */
static Filling fill_headers(lua_State *L, natsMsg *msg) {
  Filling filling = {.msg = msg};
  lua_pushcfunction(L, fill);
  lua_pushvalue(L, 5);
  lua_pushlightuserdata(L, &filling);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) {
    natsMsg_Destroy(msg);
    (void)lua_error(L);
  }
  return filling;
}

/* About how many bytes a message takes in libnats' buffer beside its payload. */
enum { HEAD_SIZE = 100 };

/* Returns the status of publishing a message, for which libnats has returned `s`. */
static natsStatus published(lua_State *L, Conn *conn, natsStatus s, size_t size) {
  natsStatus written = io_published(L, conn, size + HEAD_SIZE);
  return s == NATS_OK ? written : s;
}

/* Sends the message from read_outgoing, with the headers of the table at index 5 if `has_headers`; or keeps it while
   the connection is lost. Returns conn_publish's results. */
static int publish_msg(lua_State *L, Conn *conn, const Outgoing *out, bool has_headers) {
  natsMsg *msg = NULL;
  natsStatus s = natsMsg_Create(&msg, out->subject, out->reply, out->data, (int)out->size);
  if (s != NATS_OK) return conn_fail(L, s);
  Filling filling = {0};
  if (has_headers) filling = fill_headers(L, msg);
  bool is_long = conn->max_payload > 0 && filling.bytes + out->size > (size_t)conn->max_payload;
  bool is_wrong = filling.wrong || is_long, kept = false;
  if (!is_wrong) s = outbox_keep(&conn->outbox, msg, &kept);
  if (!is_wrong && s == NATS_OK && !kept) {
    io_publish(conn);
    s = published(L, conn, natsConnection_PublishMsg(conn->nc, msg), out->size);
  }
  if (!kept) natsMsg_Destroy(msg);
  if (filling.wrong) return conn_refuse(L, "headers: %s", filling.wrong);
  if (is_long) {
    return conn_refuse(L, "the value takes %d bytes, its headers %d, and the server's limit is %d (its max_payload)",
                       (int)out->size, (int)filling.bytes, (int)conn->max_payload);
  }
  if (s != NATS_OK) return conn_fail(L, s);
  lua_pushboolean(L, 1);
  return 1;
}

/* publish(subject, data [, reply]) -> true | nil, message [, true]: the arguments are wrong */
int conn_publish(lua_State *L) {
  Conn *conn = (Conn *)handle_check(L, 1, CONN_TYPE);
  Outgoing out;
  if (!conn->nc) return conn_fail(L, NATS_CONNECTION_CLOSED);
  if (!read_outgoing(L, conn, &out)) return conn_refuse(L, "%s", lua_tostring(L, -1));
  if (atomic_load(&conn->outbox.is_lost)) return publish_msg(L, conn, &out, false);
  io_publish(conn);
  natsStatus s = out.reply ? natsConnection_PublishRequest(conn->nc, out.subject, out.reply, out.data, (int)out.size)
                           : natsConnection_Publish(conn->nc, out.subject, out.data, (int)out.size);
  s = published(L, conn, s, out.size);
  if (s != NATS_OK) return conn_fail(L, s);
  lua_pushboolean(L, 1);
  return 1;
}

/* publish_with(subject, data, reply, headers): publish with headers */
int conn_publish_with(lua_State *L) {
  Conn *conn = (Conn *)handle_check(L, 1, CONN_TYPE);
  Outgoing out;
  luaL_checktype(L, 5, LUA_TTABLE);
  lua_settop(L, 5);
  if (!conn->nc) return conn_fail(L, NATS_CONNECTION_CLOSED);
  if (!read_outgoing(L, conn, &out)) return conn_refuse(L, "%s", lua_tostring(L, -1));
  return publish_msg(L, conn, &out, true);
}
