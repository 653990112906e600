/* loaded.h: keeps a library in memory. lua_close unloads the C modules of its state, although a thread may still run
   their code. */
#ifndef RUNNEL_LOADED_H
#define RUNNEL_LOADED_H

#include <stdbool.h>

/* Keeps the library or program that contains this function, and the libraries it is linked with, loaded until the
   process ends. Returns false if the system does not promise that. */
bool stay_loaded(void);

/* The same for the library that contains the function or object at `address`. Asks the system at each call. */
bool stay_loaded_at(const void *address);

#endif
