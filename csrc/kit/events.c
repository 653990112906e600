/* events.c: see events.h. */
#include "kit/events.h"

/* Messages of a port: while `deliver` runs, there may be one more. */
enum { PORT_LIMIT = 4 };

static void lock(Events *events) { (void)pthread_mutex_lock(&events->lock); }
static void unlock(Events *events) { (void)pthread_mutex_unlock(&events->lock); }

void events_init(Events *events, const runnel_functions *rn, void *owner, lua_CFunction deliver, const Thread *thread) {
  *events = (Events){.rn = rn, .owner = (Handle *)owner, .deliver = deliver, .thread = thread};
  (void)pthread_mutex_init(&events->lock, NULL);
}

void events_free(Events *events) { (void)pthread_mutex_destroy(&events->lock); }

int events_open_port(lua_State *L, const runnel_functions *rn, int at, size_t limit, int end, runnel_port **port) {
  runnel_chan *ch;
  int code = rn->chan_get(L, at, &ch);
  if (code != RUNNEL_OK) return code;
  code = rn->port_open(L, ch, limit, end, port);
  (void)rn->chan_release(L, ch);
  return code;
}

int events_refuse(lua_State *L, const runnel_functions *rn, int code) {
  const char *raised = code == RUNNEL_RAISED ? rn->message(L) : NULL;
  if (!raised) return luaL_error(L, "cannot open a port: %s", rn->strerror(code));
  lua_pushstring(L, raised); /* as it is: it may be Ctrl-C's "interrupted!", which others look for */
  return lua_error(L);
}

/* Sets the port, or NULL, and releases the previous one, which closes it. */
static void set_port(Events *events, runnel_port *port) {
  lock(events);
  runnel_port *before = events->port;
  events->port = port;
  unlock(events);
  if (before) (void)events->rn->port_release(before);
}

int events_open(lua_State *L, Events *events, int at, int end) {
  runnel_port *port;
  if (events->port && events->rn->port_wait(events->port) == RUNNEL_OK) return RUNNEL_OK; /* it is never full */
  int code = events_open_port(L, events->rn, at, PORT_LIMIT, end, &port);
  if (code == RUNNEL_OK) set_port(events, port);
  return code;
}

void events_close(Events *events) {
  unsigned bits;
  void *object;
  if (!events->port) return;
  set_port(events, NULL);
  while ((object = events_take(events, &bits)) != NULL) handle_release(object);
}

void events_add(Events *events, void *object, unsigned bits) {
  Handle *handle = (Handle *)object;
  lock(events);
  if (events->port) {
    if (!handle->events) list_append(&events->objects, &((Handle *)handle_hold(handle))->news);
    handle->events |= bits;
  }
  unlock(events);
}

void *events_take(Events *events, unsigned *bits) {
  lock(events);
  Link *first = events->objects.first;
  Handle *handle = first ? CONTAINER_OF(first, Handle, news) : NULL;
  if (handle) {
    list_remove(&events->objects, first);
    *bits = handle->events;
    handle->events = 0;
  }
  unlock(events);
  return handle;
}

/* `deliver` will not be called any more. */
static void end_post(Events *events) {
  lock(events);
  events->is_posted = false;
  unlock(events);
}

/* runnel_push */
static int push(lua_State *L, void *data) {
  Events *events = (Events *)data;
  Handle *owner = events->owner;
  int top = lua_gettop(L);
  end_post(events); /* before taking an object: later events are posted again */
  lua_pushcfunction(L, events->deliver);
  lua_pushlightuserdata(L, owner);
  int status = lua_pcall(L, 1, LUA_MULTRET, 0);
  events_tell(events); /* it may have left objects, or raised */
  handle_release(owner);
  return status == LUA_OK ? lua_gettop(L) - top : lua_error(L);
}

/* runnel_drop: the port is closed, or the call could not be made. */
static void drop(void *data) {
  Events *events = (Events *)data;
  end_post(events);
  thread_wake(events->thread);
  handle_release(events->owner);
}

bool events_post(Events *events) {
  int code = RUNNEL_OK;
  lock(events);
  if (events->port && events->objects.first && !events->is_posted) {
    (void)handle_hold(events->owner);
    code = events->rn->post_call(events->port, push, drop, events);
    events->is_posted = code == RUNNEL_OK;
    if (code != RUNNEL_OK) atomic_fetch_sub(&events->owner->holds, 1); /* not the last one: the caller has another */
  }
  unlock(events);
  return code == RUNNEL_OK || code == RUNNEL_CLOSED;
}

void events_tell(Events *events) {
  if (!events_post(events)) thread_wake(events->thread);
}
