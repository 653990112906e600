// machines.c: the loop of a remote stage with libnats alone, which bench/machines.lua compares runnel with.
//
//   machines create URL STREAM            creates the stream, whose subjects are STREAM.> , and its consumer
//   machines work URL STREAM N            runs jobs, N at a time, until it is killed
//   machines submit URL STREAM JOBS N     submits jobs, at most N at a time, and prints the seconds that all took
//
// A job is stored in a work-queue stream; a worker pulls it and publishes the result to the submitter's reply subject;
// the submitter acknowledges the job once it has the result. Each message leaves at once (SendAsap); if the environment
// has MACHINES_BATCHED, libnats collects what is published, so that acknowledgements, results and jobs leave in batches.

#include <nats/nats.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SUBJECT_SIZE 200
#define CONSUMER "worker"

static void check(natsStatus status, const char *what) {
  if (status == NATS_OK) return;
  fprintf(stderr, "machines: %s: %s\n", what, natsStatus_GetText(status));
  exit(1);
}

static natsConnection *connect_to(const char *url) {
  natsOptions *options = NULL;
  natsConnection *conn = NULL;
  check(natsOptions_Create(&options), "options");
  check(natsOptions_SetURL(options, url), "url");
  check(natsOptions_SetSendAsap(options, !getenv("MACHINES_BATCHED")), "options");
  check(natsConnection_Connect(&conn, options), "connect");
  natsOptions_Destroy(options);
  return conn;
}

static int create(natsConnection *conn, const char *stream) {
  jsCtx *js = NULL;
  jsStreamConfig config;
  jsConsumerConfig consumer;
  char subject[SUBJECT_SIZE];
  const char *subjects[] = {subject};
  (void)snprintf(subject, sizeof subject, "%s.>", stream);
  check(natsConnection_JetStream(&js, conn, NULL), "jetstream");
  check(jsStreamConfig_Init(&config), "stream");
  config.Name = stream;
  config.Subjects = subjects;
  config.SubjectsLen = 1;
  config.Retention = js_WorkQueuePolicy;
  check(js_AddStream(NULL, js, &config, NULL, NULL), "stream");
  check(jsConsumerConfig_Init(&consumer), "consumer");
  consumer.Durable = CONSUMER;
  consumer.AckPolicy = js_AckExplicit;
  consumer.MaxAckPending = 10000;
  check(js_AddConsumer(NULL, js, stream, &consumer, NULL, NULL), "consumer");
  jsCtx_Destroy(js);
  return 0;
}

// ---- worker ----

typedef struct {
  natsConnection *conn;
  char next[SUBJECT_SIZE];  // where to ask for jobs
  char inbox[SUBJECT_SIZE]; // where they arrive
  int limit;                // jobs at a time
  int asked;                // jobs asked for that have not come
} Worker;

static void ask(Worker *w, int count) {
  char request[64];
  int size = snprintf(request, sizeof request, "{\"batch\":%d}", count);
  w->asked += count;
  check(natsConnection_PublishRequest(w->conn, w->next, w->inbox, request, size), "ask");
}

// A job's payload is the reply subject, a newline, and the value. The result's is the subject that acknowledges the job, a
// newline, and the value.
static void on_job(natsConnection *conn, natsSubscription *sub, natsMsg *job, void *closure) {
  (void)sub;
  Worker *w = closure;
  const char *data = natsMsg_GetData(job);
  const char *end = memchr(data, '\n', (size_t)natsMsg_GetDataLength(job));
  const char *ack = natsMsg_GetReply(job);
  if (!end || !ack) exit(1);
  char reply[SUBJECT_SIZE];
  char result[SUBJECT_SIZE + 1000];
  (void)snprintf(reply, sizeof reply, "%.*s", (int)(end - data), data);
  int value_size = natsMsg_GetDataLength(job) - (int)(end - data);
  int size = snprintf(result, sizeof result, "%s%.*s", ack, value_size, end);
  check(natsConnection_Publish(conn, reply, result, size), "result");
  natsMsg_Destroy(job);
  w->asked--;
  if (w->asked <= w->limit / 2) ask(w, w->limit - w->asked);
}

static int work(natsConnection *conn, const char *stream, int limit) {
  static Worker w;
  natsSubscription *sub = NULL;
  natsInbox *inbox = NULL;
  w.conn = conn;
  w.limit = limit;
  check(natsInbox_Create(&inbox), "inbox");
  (void)snprintf(w.inbox, sizeof w.inbox, "%s", inbox);
  (void)snprintf(w.next, sizeof w.next, "$JS.API.CONSUMER.MSG.NEXT.%s.%s", stream, CONSUMER);
  check(natsConnection_Subscribe(&sub, conn, inbox, on_job, &w), "subscribe");
  natsInbox_Destroy(inbox);
  ask(&w, limit);
  (void)printf("ready\n");
  (void)fflush(stdout);
  while (pause() == -1) continue; // until it is killed
  return 0;
}

// ---- submitter ----

typedef struct {
  natsConnection *conn;
  pthread_mutex_t lock;
  pthread_cond_t ended;
  char subject[SUBJECT_SIZE];
  char inbox[SUBJECT_SIZE];
  int jobs;    // all
  int started; // how many were published
  int done;    // how many results have come
} Submitter;

static void submit_one(Submitter *s) {
  char job[SUBJECT_SIZE + 64];
  int size = snprintf(job, sizeof job, "%s\n%d", s->inbox, ++s->started);
  check(natsConnection_Publish(s->conn, s->subject, job, size), "job");
}

static void on_result(natsConnection *conn, natsSubscription *sub, natsMsg *result, void *closure) {
  (void)sub;
  Submitter *s = closure;
  const char *data = natsMsg_GetData(result);
  const char *end = memchr(data, '\n', (size_t)natsMsg_GetDataLength(result));
  if (!end) exit(1);
  char ack[SUBJECT_SIZE];
  (void)snprintf(ack, sizeof ack, "%.*s", (int)(end - data), data);
  check(natsConnection_Publish(conn, ack, "+ACK", 4), "ack");
  natsMsg_Destroy(result);
  pthread_mutex_lock(&s->lock);
  s->done++;
  if (s->started < s->jobs) submit_one(s);
  if (s->done == s->jobs) pthread_cond_signal(&s->ended);
  pthread_mutex_unlock(&s->lock);
}

static double now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int submit(natsConnection *conn, const char *stream, int jobs, int limit) {
  static Submitter s = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
  natsSubscription *sub = NULL;
  natsInbox *inbox = NULL;
  s.conn = conn;
  s.jobs = jobs;
  check(natsInbox_Create(&inbox), "inbox");
  (void)snprintf(s.inbox, sizeof s.inbox, "%s", inbox);
  (void)snprintf(s.subject, sizeof s.subject, "%s.job", stream);
  check(natsConnection_Subscribe(&sub, conn, inbox, on_result, &s), "subscribe");
  check(natsConnection_Flush(conn), "subscribe");
  double start = now();
  pthread_mutex_lock(&s.lock);
  for (int i = 0; i < limit && i < jobs; i++) submit_one(&s);
  while (s.done < jobs) pthread_cond_wait(&s.ended, &s.lock);
  pthread_mutex_unlock(&s.lock);
  (void)printf("%.6f\n", now() - start);
  natsInbox_Destroy(inbox);
  natsSubscription_Destroy(sub);
  return 0;
}

int main(int argc, char **argv) {
  const char *what = argc > 3 ? argv[1] : "";
  int a = argc > 4 ? atoi(argv[4]) : 0;
  int b = argc > 5 ? atoi(argv[5]) : 0;
  if (strcmp(what, "create") == 0) return create(connect_to(argv[2]), argv[3]);
  if (strcmp(what, "work") == 0 && a > 0) return work(connect_to(argv[2]), argv[3], a);
  if (strcmp(what, "submit") == 0 && a > 0 && b > 0) return submit(connect_to(argv[2]), argv[3], a, b);
  fprintf(stderr, "usage: machines create URL STREAM | work URL STREAM N | submit URL STREAM JOBS N\n");
  return 2;
}
