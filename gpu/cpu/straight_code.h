// A loop as straight code: for arrays of vectors that are to stay in registers. Included by the kernel sources, with
// internal linkage.

#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace reprise::gpu {
namespace {

/// function(std::integral_constant<std::size_t, i>) for i from 0 to kCount - 1, as straight code.
template <std::size_t kCount, class Function>
[[gnu::always_inline]] inline void for_each_index(Function function) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) __attribute__((always_inline)) {
    (function(std::integral_constant<std::size_t, kIndex>()), ...);
  }
  (std::make_index_sequence<kCount>());
}

}  // namespace
}  // namespace reprise::gpu
