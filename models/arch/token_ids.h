#pragma once
// Special tokens of a model, as its files name them.

#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::models {

struct TokenIds {
  std::optional<std::int32_t> bos;
  std::optional<std::int32_t> pad;
  std::vector<std::int32_t> eos;  // each ends generation
};

}  // namespace reprise::models
