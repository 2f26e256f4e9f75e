#pragma once
// The snapshots in the golden files of tests/data/snapshots, the same in every version of the format: one whose slot is larger
// than a piece, in the folder and the dump; a small one in the export, where nothing is packed.

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/snapshots/state_key.h"

namespace reprise::tools {

struct GoldenSnapshot {
  std::uint64_t slot_bytes;

  static constexpr std::uint32_t kStored = 150;  // two pages of 64 and a tail
  static constexpr const char* kNamespace = "1 anna";

  protocol::snapshots::StateKind kind() const {
    return {.model = 0x0123456789abcdef,
            .arithmetic = 0xb111d,
            .page_bytes = 256,
            .slot_bytes = slot_bytes,
            .page_tokens = 64,
            .grid = 1};
  }
  static std::vector<TokenId> tokens() {
    std::vector<TokenId> tokens;
    for (std::uint32_t i = 0; i < kStored; ++i)
      tokens.push_back(static_cast<TokenId>((7 * i * i + 3 * i + 5) % 1000));
    return tokens;
  }
  /// Three pages and the slot. The second page and the slot shrink when they are packed, the others do not.
  std::vector<std::byte> state() const {
    const protocol::snapshots::StateKind sizes = kind();
    std::vector<std::byte> state(3 * sizes.page_bytes + sizes.slot_bytes);
    std::uint64_t noise = 1;
    for (std::size_t i = 0; i < state.size(); ++i) {
      noise = noise * 6364136223846793005u + 1442695040888963407u;
      const std::size_t page = i / sizes.page_bytes;
      const bool is_noise = page == 0 || page == 2;
      const std::uint64_t value = is_noise ? noise >> 56 : i % 4 == 3 ? 0x3f : i % 4 == 2 ? i / 65536 : 0;
      state[i] = static_cast<std::byte>(value);
    }
    return state;
  }
};

inline constexpr GoldenSnapshot kGolden{.slot_bytes = (4u << 20) - 3096};
inline constexpr GoldenSnapshot kGoldenExport{.slot_bytes = 600};

}  // namespace reprise::tools
