/* visitors.c: see visitors.h. */
#include "monitor/visitors.h"

#include <string.h>

static void remove_at(Visitors *visitors, uint32_t i) {
  visitors->n--;
  memmove(&visitors->list[i], &visitors->list[i + 1], (visitors->n - i) * sizeof(Visitor));
}

static void close_oldest(Visitors *visitors) { conn_close(visitors->list[0].conn); /* which calls visitors_remove */ }

void visitors_add(Visitors *visitors, Conn *conn, int64_t now) {
  if (visitors->n == MAX_VISITORS) close_oldest(visitors);
  visitors->list[visitors->n++] = (Visitor){conn, now};
}

void visitors_remove(Visitors *visitors, const Conn *conn) {
  for (uint32_t i = 0; i < visitors->n; i++) {
    if (visitors->list[i].conn != conn) continue;
    remove_at(visitors, i);
    return;
  }
}

void visitors_close_late(Visitors *visitors, int64_t now) {
  while (visitors->n && now - visitors->list[0].since > VISIT * CLOCK_MS) close_oldest(visitors);
}
