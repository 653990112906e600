/* random.h: pseudo-random numbers (xorshift64*) from one 64-bit state, which must not be 0. */
#ifndef RUNNEL_RANDOM_H
#define RUNNEL_RANDOM_H

#include <stdint.h>

/* The next 32 random bits. */
static inline uint32_t random_next(uint64_t *state) {
  uint64_t x = *state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  *state = x;
  return (uint32_t)((x * UINT64_C(2685821657736338717)) >> 32);
}

/* A random number below n, which must be greater than 0. */
static inline uint32_t random_below(uint64_t *state, uint32_t n) {
  return (uint32_t)(((uint64_t)random_next(state) * n) >> 32);
}

/* A random number below n, which must be 2 or more: 0, but once in `odds` times one of the others. */
static inline uint32_t random_seldom(uint64_t *state, uint32_t n, uint32_t odds) {
  return random_below(state, odds) ? 0 : 1 + random_below(state, n - 1);
}

/* Sets the state from a seed. Seeds that differ by one give unrelated numbers. */
static inline void random_seed(uint64_t *state, uint64_t seed) {
  *state = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
  if (!*state) *state = 1;
  for (int i = 0; i < 8; i++) random_next(state);
}

#endif
