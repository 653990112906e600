/* compat.h: differences between compilers, and between releases of Lua 5.4. */
#ifndef RUNNEL_COMPAT_H
#define RUNNEL_COMPAT_H

/* The usual outcome of a branch on a hot path. (Lua's l_likely is internal, and missing from early 5.4.) ALWAYS_INLINE:
   for a function whose inlining must not depend on the number of its callers. */
#if defined(__GNUC__)
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define NOINLINE __attribute__((noinline))
#define PREFETCH(ptr) __builtin_prefetch(ptr)
#define PREFETCH_TO_WRITE(ptr) __builtin_prefetch(ptr, 1)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define LIKELY(x) (x)
#define UNLIKELY(x) (x)
#define NOINLINE
#define PREFETCH(ptr) ((void)(ptr))
#define PREFETCH_TO_WRITE(ptr) ((void)(ptr))
#define ALWAYS_INLINE inline
#endif

/* Whether the address sanitizer watches each object. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZES_ADDRESSES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZES_ADDRESSES 1
#endif
#endif
#ifndef SANITIZES_ADDRESSES
#define SANITIZES_ADDRESSES 0
#endif

/* A short break of a thread that polls until another thread changes a value. */
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#define PAUSE_BRIEFLY() __builtin_ia32_pause()
#else
#define PAUSE_BRIEFLY() ((void)0)
#endif

/* Whether this is Lua 5.4.0 to 5.4.3, which all have the same release number. Needs lua.h where it is used. */
#define BEFORE_LUA_5_4_4 (LUA_VERSION_RELEASE_NUM < 50404)

#endif
