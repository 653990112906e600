/* profile_timer.c: see profile_timer.h. A timer of the thread's processor time: it sends no signal while the program
   waits, so no system call that waits is interrupted. The signal carries the address of the ProfileTimer. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): declares SIGEV_THREAD_ID */
#endif
#include "tracing/profile_timer.h"

#include <errno.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

enum { NS = 1000000000 };

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* The processor time that this thread has used, in ns. */
static int64_t used(void) {
  struct timespec time = {0};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (int64_t)time.tv_sec * NS + time.tv_nsec;
}

static void handle(int number, siginfo_t *info, void *context) {
  (void)number;
  (void)context;
  if (info->si_code != SI_TIMER) return; /* not from our timer */
  int error = errno;
  ProfileTimer *timer = (ProfileTimer *)info->si_value.sival_ptr;
  int64_t last = timer->used;
  timer->used = used();
  timer->tick(timer->data, timer->used - last);
  errno = error;
}

/* Blocks SIGPROF, or unblocks it. */
static void block(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  (void)pthread_sigmask(how, &set, NULL);
}

int profile_timer_start(ProfileTimer *timer) {
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigemptyset(&action.sa_mask);
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
  event.sigev_value.sival_ptr = timer;
  event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer->timer) != 0) return errno;
  (void)sigaction(SIGPROF, &action, &timer->before);
  block(SIG_UNBLOCK);
  timer->used = used();
  struct timespec period = {.tv_sec = timer->period / NS, .tv_nsec = timer->period % NS};
  struct itimerspec spec = {.it_interval = period, .it_value = period};
  if (timer_settime(timer->timer, 0, &spec, NULL) == 0) return 0;
  int error = errno; /* uncovered: the kernel accepts every period */
  profile_timer_stop(timer);
  return error;
}

void profile_timer_stop(ProfileTimer *timer) {
  block(SIG_BLOCK);
  (void)timer_delete(timer->timer);
  /* A signal that is pending would end the process once the previous action is back. */
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  while (sigtimedwait(&set, NULL, &(struct timespec){0}) > 0) {
  }
  (void)sigaction(SIGPROF, &timer->before, NULL);
  block(SIG_UNBLOCK);
}
#else
int profile_timer_start(ProfileTimer *timer) {
  (void)timer;
  return ENOSYS;
}

void profile_timer_stop(ProfileTimer *timer) { (void)timer; }
#endif
