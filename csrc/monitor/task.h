/* task.h: whether another thread of this process waits in the kernel, or computes. */
#ifndef RUNNEL_MONITOR_TASK_H
#define RUNNEL_MONITOR_TASK_H

#include <stdbool.h>

/* The number that the system has for the calling thread; 0 where it does not tell. */
int task_self(void);

/* Whether the thread with this number waits in a system call. False also if it waits for a processor, or if the system
   does not tell. */
bool task_waits(int task);

#endif
