#pragma once
// The heap of a program that refuses large allocations at random: scarce_heap.cc replaces operator new.
//
// Threading: any thread.

#include <cstddef>
#include <cstdint>

namespace reprise::tools::scarce_heap {

inline constexpr std::size_t kLarge = 64 << 10;  // bytes; smaller allocations are never refused

/// From this call on, refuses each allocation of more than kLarge bytes with probability 1/count; 0: never. Equal seeds
/// refuse the same ones of a sequence of allocations.
void refuse_one_in(std::uint32_t count, std::uint64_t seed);

std::uint64_t refusals();

}  // namespace reprise::tools::scarce_heap
