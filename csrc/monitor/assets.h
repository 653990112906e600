/* assets.h: the files of csrc/monitor/page/, in a generated array (scripts/embed_assets.lua). */
#ifndef RUNNEL_MONITOR_ASSETS_H
#define RUNNEL_MONITOR_ASSETS_H

#include <stddef.h>

typedef struct Asset {
  const char *path;           /* where it is served: "/monitor.js" */
  const char *type;           /* its Content-Type */
  const unsigned char *bytes; /* its content */
  size_t length;              /* of the content */
} Asset;

/* The last one has no path. */
extern const Asset monitor_assets[];

#endif
