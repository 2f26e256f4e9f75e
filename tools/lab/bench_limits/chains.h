#pragma once
// A loop over many registers, each the end of a chain of the same instruction. For the sources of peaks alone, with
// internal linkage: each is compiled for another instruction set.
//
// Threading: plain functions.

#include <cstddef>
#include <string_view>
#include <vector>

#include "tools/lab/bench_limits/operands.h"
#include "tools/lab/bench_limits/peak.h"

#if defined(__aarch64__)
#define REPRISE_ANY_VECTOR "+w"
#elif defined(__AVX512F__)
#define REPRISE_ANY_VECTOR "+v"
#else
#define REPRISE_ANY_VECTOR "+x"
#endif

namespace reprise::tools {
namespace {

/// kCount registers by name, so that none is an element of an array in memory.
template <std::size_t kCount, class Register>
struct Chains {
  Register sum;
  Chains<kCount - 1, Register> others;

  [[gnu::always_inline]] explicit Chains(Register start) : sum(start), others(start) {}

  template <class Step>
  [[gnu::always_inline]] void turn(Step step) {
    sum = step(sum);
    asm volatile("" : REPRISE_ANY_VECTOR(sum));  // the chains are alike: they must not become one
    others.turn(step);
  }
  template <class Add>
  [[gnu::always_inline]] Register added(Register to, Add add) const {
    return others.added(add(to, sum), add);
  }
};

template <class Register>
struct Chains<0, Register> {
  [[gnu::always_inline]] explicit Chains(Register /*start*/) {}
  template <class Step>
  [[gnu::always_inline]] void turn(Step /*step*/) {}
  template <class Add>
  [[gnu::always_inline]] Register added(Register to, Add /*add*/) const {
    return to;
  }
};

/// step(sum) -> sum, `turns` times on each of kCount sums that begin at `start`. Returns them added up with add().
template <std::size_t kCount, class Register, class Step, class Add>
[[gnu::always_inline]] inline Register run_chains(std::size_t turns, Register start, Step step, Add add) {
  Chains<kCount, Register> chains(start);
  for (std::size_t turn = 0; turn < turns; ++turn) chains.turn(step);
  return chains.added(start, add);
}

/// One peak for each number of chains: which of them keeps a processor's pipes busy is its secret. run_of<n>() is the
/// loop over n chains, `operations` what one instruction does.
template <std::size_t... kCounts, class RunOf>
std::vector<Peak> peaks_of(std::string_view name, std::string_view numbers, double operations, RunOf run_of) {
  return {Peak{name, numbers, operations * kCounts, run_of.template operator()<kCounts>()}...};
}

}  // namespace
}  // namespace reprise::tools
