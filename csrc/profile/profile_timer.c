/* profile_timer.c: see profile_timer.h. A timer of the thread's processor time: it sends no signal while the program
   waits, so no system call that waits is interrupted. The signal carries the address of the ProfileTimer. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): declares SIGEV_THREAD_ID */
#endif
#include "profile/profile_timer.h"

#include <errno.h>

#if defined(__linux__)
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  NS = 1000000000,
  MOST_SHARE = 50 /* the handler takes at most a fiftieth of the time */
};

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* The processor time that this thread has used, in ns. */
static int64_t used(void) {
  struct timespec time = {0};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (int64_t)time.tv_sec * NS + time.tv_nsec;
}

ThreadUse profile_timer_use(void) {
  struct rusage usage = {0};
  (void)getrusage(RUSAGE_THREAD, &usage);
  return (ThreadUse){.used = used(), .waits = usage.ru_nvcsw};
}

static void set_period(ProfileTimer *timer, int64_t ns) {
  struct timespec period = {.tv_sec = (time_t)(ns / NS), .tv_nsec = (long)(ns % NS)};
  timer->present = ns;
  (void)timer_settime(timer->timer, 0, &(struct itimerspec){period, period}, NULL); /* accepts every period */
}

/* Setting a hook on a very deep stack takes long: then signals come less often. The period at most doubles with each
   signal: one handler that took long because the machine was busy must not end the samples of a short profile. */
static void handle(int number, siginfo_t *info, void *context) {
  (void)number;
  (void)context;
  if (info->si_code != SI_TIMER) return; /* not from our timer */
  int error = errno;
  ProfileTimer *timer = (ProfileTimer *)info->si_value.sival_ptr;
  int64_t began = used();
  timer->tick(timer->data, began - timer->used);
  timer->used = used();
  int64_t period = MOST_SHARE * (timer->used - began);
  if (period < timer->period) period = timer->period;
  if (period > 2 * timer->present) set_period(timer, 2 * timer->present);
  if (2 * period < timer->present) set_period(timer, period);
  errno = error;
}

/* Makes `handle` the action of SIGPROF, for good: profiles of other threads may need it longer. Returns an error
   number if the program has an action of its own. */
static int take_signal(void) {
  struct sigaction action;
  if (sigaction(SIGPROF, NULL, &action) != 0) return errno;
  if (action.sa_flags & SA_SIGINFO && action.sa_sigaction == handle) return 0;
  if (action.sa_flags & SA_SIGINFO || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN)) return EBUSY;
  action = (struct sigaction){.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigemptyset(&action.sa_mask);
  return sigaction(SIGPROF, &action, NULL) == 0 ? 0 : errno;
}

int profile_timer_start(ProfileTimer *timer) {
  int error = take_signal();
  if (error) return error;
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
  event.sigev_value.sival_ptr = timer;
  event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer->timer) != 0) return errno;
  timer->used = used();
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  (void)pthread_sigmask(SIG_UNBLOCK, &set, &timer->mask);
  set_period(timer, timer->period);
  return 0;
}

void profile_timer_stop(ProfileTimer *timer) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
  (void)timer_delete(timer->timer);
  /* One that is pending must not find the timer's memory used for something else. */
  while (sigtimedwait(&set, NULL, &(struct timespec){0}) > 0) {
  }
  (void)pthread_sigmask(SIG_SETMASK, &timer->mask, NULL);
}
#else
ThreadUse profile_timer_use(void) { return (ThreadUse){0}; }

int profile_timer_start(ProfileTimer *timer) {
  (void)timer;
  return ENOSYS;
}

void profile_timer_stop(ProfileTimer *timer) { (void)timer; }
#endif
