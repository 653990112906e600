/* visitors.h: connections that have not sent the token yet. Every user of the machine can open them, so they must not
   block others: there are few at a time, and none stays for long. */
#ifndef RUNNEL_MONITOR_VISITORS_H
#define RUNNEL_MONITOR_VISITORS_H

#include "http/server/conn.h"

/* Their limit, and the ms that one may stay. */
enum { MAX_VISITORS = 32, VISIT = 3000 };

typedef struct Visitor {
  Conn *conn;    /* the connection */
  int64_t since; /* when it was opened, in ns */
} Visitor;

/* Begins as zeros. */
typedef struct Visitors {
  Visitor list[MAX_VISITORS]; /* the oldest first */
  uint32_t n;                 /* how many there are */
} Visitors;

/* A connection was opened at `now`. If there are too many, the oldest one is closed. */
void visitors_add(Visitors *visitors, Conn *conn, int64_t now);

/* It has sent the token, or is closed. */
void visitors_remove(Visitors *visitors, const Conn *conn);

/* Closes connections that have stayed too long. */
void visitors_close_late(Visitors *visitors, int64_t now);

#endif
