/* handle.h: an object of a C module that Lua holds by a userdata.

   The object is in memory of malloc, and its holds are counted, since threads use it too: the userdata has a hold, and
   each thread, list or call that may still use the object. The userdata only has a pointer to it. The life of a handle:

   1. handle_new makes the object and its userdata. If a thread has made the object (handle_init), the Lua thread gives
      it a userdata later, by handle_push.
   2. Methods get the object by handle_check.
   3. The userdata is closed: handle_close, or the collector, at the latest when the state is closed. The type's `close`
      is called, once, and the userdata gives up its hold. From then on the methods raise.
   4. The last hold is released: the type's `free` is called, in the thread that has released it.

   The functions with a lua_State are for the Lua thread, the others for any thread that has a hold. */
#ifndef RUNNEL_HANDLE_H
#define RUNNEL_HANDLE_H

#include <lauxlib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"

typedef struct HandleType {
  const char *name; /* of the metatable: "runnel.nats.connection"; messages say "the connection" */
  void (*close)(lua_State *L, void *object); /* ends the object's work; must not raise; or NULL */
  void (*free)(void *object);                /* frees the object and what it owns */
} HandleType;

/* The first field of an object. */
typedef struct Handle {
  atomic_uint holds;      /* number of holds */
  const HandleType *type; /* its `close` and `free` */
  Link news;              /* in Events.objects (events.h), whose lock guards this and the next one */
  unsigned events;        /* bits that Lua has not taken; it is in that list if there are any */
} Handle;

/* Makes the metatable of a type, with these methods and metamethods. The module that calls this stays loaded. */
void handle_open(lua_State *L, const HandleType *type, const luaL_Reg *methods);

/* Makes an object of `size` bytes, which are zeros but for its Handle, and pushes its userdata, which has `nuser` user
   values and the object's only hold. `close` and `free` must accept the zeros, since an error may follow at once.
   Raises if there is no memory. */
void *handle_new(lua_State *L, const HandleType *type, size_t size, int nuser);

/* Begins an object that has no userdata, with one hold, the caller's. */
void handle_init(void *object, const HandleType *type);

/* Pushes a userdata without an object, whose methods raise; may raise. *result may be set to an object of the type,
   whose hold then belongs to the userdata. */
Handle **handle_push(lua_State *L, const HandleType *type);

/* The object of the userdata at an index; NULL if it is closed. Raises if it is no userdata of the type with that name.
   handle_check also raises if it is closed: "the connection is closed". */
void *handle_get(lua_State *L, int at, const char *name);
void *handle_check(lua_State *L, int at, const char *name);

/* Raises unless argument 1 is a userdata of the type with that name: a method of the program's was called with a dot.
   `object` is what the manual calls it. */
void handle_own(lua_State *L, const char *name, const char *object, const char *method);

/* Closes the userdata at an index, which is one of the type with that name; does nothing if it is closed. */
void handle_close(lua_State *L, int at, const char *name);

/* Keeps the userdata on top of the stack from being collected, so that handle_find finds it; may raise. */
void handle_keep(lua_State *L, const void *object);

/* Pushes the kept userdata of an object, and returns true; or nil, and false. */
bool handle_find(lua_State *L, const void *object);

/* The userdata may be collected again. Does not raise. */
void handle_forget(lua_State *L, const void *object);

/* Adds a hold, and returns the object; removes one, and the last one frees the object. */
void *handle_hold(void *object);
void handle_release(void *object);

#endif
