/* http.h: requests: who may ask, and for what. Runs in the server's thread. */
#ifndef RUNNEL_MONITOR_HTTP_H
#define RUNNEL_MONITOR_HTTP_H

#include "monitor/server.h"

/* Callbacks of libmicrohttpd; `data` is the Server. */
enum MHD_Result http_answer(void *data, struct MHD_Connection *client, const char *url, const char *method,
                            const char *version, const char *upload, size_t *upload_size, void **request);
void http_completed(void *data, struct MHD_Connection *client, void **request, enum MHD_RequestTerminationCode code);

#endif
