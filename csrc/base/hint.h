/* hint.h: which way a branch on a measured path goes. (Lua's l_likely is not there in every 5.4, nor outside its core.) */
#ifndef RUNNEL_HINT_H
#define RUNNEL_HINT_H

#if defined(__GNUC__)
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#else
#define LIKELY(x) (x)
#define UNLIKELY(x) (x)
#endif

#endif
