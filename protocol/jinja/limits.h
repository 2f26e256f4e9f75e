#pragma once
// What one rendering may use. Templates and conversations come from outside, so each of these is a wall, and
// the error of who runs into it names it.

#include <cstddef>
#include <cstdint>

namespace reprise::protocol::jinja {

struct RenderLimits {
  std::uint64_t steps = 50'000'000;       // evaluated nodes, and work on long values by its length
  std::size_t depth = 1000;               // nested evaluation: expressions, blocks, macro calls
  std::size_t output_bytes = 64u << 20;   // of the result and of what blocks and macros hold back
  std::size_t text_bytes = 64u << 20;     // of one string
  std::size_t items = 1'000'000;          // of one list, tuple or dict
  std::size_t memory_bytes = 512u << 20;  // of all strings, lists and dicts alive
};

/// Of the source.
inline constexpr std::size_t kMaxSourceBytes = 1u << 20;
inline constexpr int kMaxNesting = 200;          // brackets, blocks, operators in front of operators
inline constexpr int kMaxExpressionDepth = 400;  // of the tree, which chains such as a + b + … make deep
inline constexpr int kMaxValueDepth = 200;       // lists in lists

}  // namespace reprise::protocol::jinja
