// Marginals of a chain by plain loops, as one would write them in C++ for one sequence at a time.
//
// All functions: node scores (length, K), transitions (K, K) with the previous label first; the
// marginals of positions (length, K) and of neighbouring pairs (length - 1, K, K). They return
// temperature * log Z. `work` has room for (2 * length + 1) * K + K * K numbers.

#include <algorithm>
#include <cmath>
#include <limits>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

// e to the power of a number <= 0. Where that is no normal number, the vectorised std::exp would
// leave the registers and call the scalar one, which takes several times as long.
template <class Real>
inline Real power(Real x) {
  constexpr Real least = std::numeric_limits<Real>::min_exponent * Real(0.6931);
  return std::exp(std::max(x, least));
}

// Forward and backward messages as logarithms, then all pairs: three exponentials for each.
template <class Real>
Real forward_backward(const Real *nodes, const Real *T, int length, int K, Real temperature,
                      Real *work, Real *positions, Real *pairs) {
  const Real cold = 1 / temperature;
  Real *forward = work, *backward = forward + length * K, *top = backward + length * K;
  Real *sum = top + K;
  for (int k = 0; k < K; k++) forward[k] = nodes[k];
  for (int t = 1; t < length; t++) {
    const Real *before = forward + (t - 1) * K;
    for (int k = 0; k < K; k++) top[k] = before[0] + T[k], sum[k] = 0;
    for (int j = 1; j < K; j++)
      for (int k = 0; k < K; k++) top[k] = std::max(top[k], before[j] + T[j * K + k]);
    for (int j = 0; j < K; j++)
      for (int k = 0; k < K; k++)
        sum[k] += power((before[j] + T[j * K + k] - top[k]) * cold);
    for (int k = 0; k < K; k++)
      forward[t * K + k] = nodes[t * K + k] + top[k] + temperature * std::log(sum[k]);
  }
  for (int k = 0; k < K; k++) backward[(length - 1) * K + k] = 0;
  for (int t = length - 1; t > 0; t--) {
    const Real *here = nodes + t * K, *after = backward + t * K;
    for (int j = 0; j < K; j++) {
      Real most = T[j * K] + here[0] + after[0], total = 0;
      for (int k = 1; k < K; k++) most = std::max(most, T[j * K + k] + here[k] + after[k]);
      for (int k = 0; k < K; k++)
        total += power((T[j * K + k] + here[k] + after[k] - most) * cold);
      backward[(t - 1) * K + j] = most + temperature * std::log(total);
    }
  }
  const Real *last = forward + (length - 1) * K;
  const Real most = *std::max_element(last, last + K);
  Real total = 0;
  for (int k = 0; k < K; k++) total += power((last[k] - most) * cold);
  const Real log_sum = most + temperature * std::log(total);
  for (int p = 0; p < length * K; p++)
    positions[p] = power((forward[p] + backward[p] - log_sum) * cold);
  for (int t = 1; t < length; t++)
    for (int j = 0; j < K; j++) {
      const Real *here = nodes + t * K, *after = backward + t * K;
      const Real start = forward[(t - 1) * K + j] - log_sum;
      Real *row = pairs + ((t - 1) * K + j) * K;
      for (int k = 0; k < K; k++)
        row[k] = power((start + T[j * K + k] + here[k] + after[k]) * cold);
    }
  return log_sum;
}

// The same as taut: forward, the probabilities of a label given the next one, which are the terms
// of the message divided by their sum; backward, products. One exponential for each pair.
template <class Real>
Real conditional(const Real *nodes, const Real *T, int length, int K, Real temperature, Real *work,
                 Real *positions, Real *pairs) {
  const Real cold = 1 / temperature;
  Real *before = work, *top = before + K, *sum = top + K;
  for (int k = 0; k < K; k++) before[k] = nodes[k];
  for (int t = 1; t < length; t++) {
    Real *table = pairs + (t - 1) * K * K;
    for (int k = 0; k < K; k++) top[k] = before[0] + T[k], sum[k] = 0;
    for (int j = 1; j < K; j++)
      for (int k = 0; k < K; k++) top[k] = std::max(top[k], before[j] + T[j * K + k]);
    for (int j = 0; j < K; j++)
      for (int k = 0; k < K; k++) {
        const Real term = power((before[j] + T[j * K + k] - top[k]) * cold);
        table[j * K + k] = term;
        sum[k] += term;
      }
    for (int k = 0; k < K; k++) {
      before[k] = nodes[t * K + k] + top[k] + temperature * std::log(sum[k]);
      sum[k] = 1 / sum[k];
    }
    for (int j = 0; j < K; j++)
      for (int k = 0; k < K; k++) table[j * K + k] *= sum[k];
  }
  const Real most = *std::max_element(before, before + K);
  Real *here = positions + (length - 1) * K, total = 0;
  for (int k = 0; k < K; k++) total += here[k] = power((before[k] - most) * cold);
  for (int k = 0; k < K; k++) here[k] /= total;
  for (int t = length - 1; t > 0; t--) {
    const Real *next = positions + t * K;
    for (int j = 0; j < K; j++) {
      Real *row = pairs + ((t - 1) * K + j) * K, mass = 0;
      for (int k = 0; k < K; k++) mass += row[k] *= next[k];
      positions[(t - 1) * K + j] = mass;
    }
  }
  return most + temperature * std::log(total);
}

// exp(T / temperature) once for all positions, messages divided by their sums: few exponentials,
// but what is small beside the largest transition becomes 0, and so may a whole message.
template <class Real>
Real exponentials_ahead(const Real *nodes, const Real *T, int length, int K, Real temperature,
                        Real *work, Real *positions, Real *pairs) {
  const Real cold = 1 / temperature;
  Real *forward = work, *backward = forward + length * K, *E = backward + length * K;
  Real *factor = E + K * K;
  const Real highest = *std::max_element(T, T + K * K);
  for (int p = 0; p < K * K; p++) E[p] = power((T[p] - highest) * cold);
  Real log_sum = highest * (length - 1);
  for (int t = 0; t < length; t++) {
    const Real *before = forward + (t - 1) * K, *own = nodes + t * K;
    Real *here = forward + t * K, total = 0;
    const Real most = *std::max_element(own, own + K);
    for (int k = 0; k < K; k++) here[k] = t == 0;
    for (int j = 0; t > 0 && j < K; j++)
      for (int k = 0; k < K; k++) here[k] += before[j] * E[j * K + k];
    for (int k = 0; k < K; k++) total += here[k] *= power((own[k] - most) * cold);
    for (int k = 0; k < K; k++) here[k] /= total;
    log_sum += most + temperature * std::log(total);
  }
  for (int k = 0; k < K; k++) positions[(length - 1) * K + k] = forward[(length - 1) * K + k];
  for (int t = length - 1; t > 0; t--) {
    const Real *before = forward + (t - 1) * K, *next = positions + t * K;
    for (int k = 0; k < K; k++) factor[k] = 0;
    for (int j = 0; j < K; j++)
      for (int k = 0; k < K; k++) factor[k] += before[j] * E[j * K + k];
    for (int k = 0; k < K; k++) factor[k] = next[k] / factor[k];
    for (int j = 0; j < K; j++) {
      Real *row = pairs + ((t - 1) * K + j) * K, mass = 0;
      for (int k = 0; k < K; k++) mass += row[k] = before[j] * E[j * K + k] * factor[k];
      positions[(t - 1) * K + j] = mass;
    }
  }
  return log_sum;
}

// Numbers below the least normal one count as 0 while a loop runs, as in a program that is linked
// with -ffast-math; the library is not, or that would hold for the whole process.
struct FlushToZero {
#ifdef __SSE__
  const unsigned before = _mm_getcsr();
  FlushToZero() { _mm_setcsr(before | 0x8040); }
  ~FlushToZero() { _mm_setcsr(before); }
#endif
};

#define REPEATED(name, Real, suffix)                                                            \
  extern "C" Real name##_##suffix(const Real *nodes, const Real *T, int length, int K,          \
                                  Real temperature, Real *work, Real *positions, Real *pairs,   \
                                  int repeats) {                                                \
    FlushToZero flush;                                                                          \
    Real value = 0;                                                                             \
    for (int r = 0; r < repeats; r++)                                                           \
      value = name(nodes, T, length, K, temperature, work, positions, pairs);                   \
    return value;                                                                               \
  }
#define BOTH(name) REPEATED(name, double, float64) REPEATED(name, float, float32)
BOTH(forward_backward)
BOTH(conditional)
BOTH(exponentials_ahead)
