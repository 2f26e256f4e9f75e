#pragma once
// Lossless compression of tensor values. The bytes of the values are sorted into planes (all first bytes,
// then all second bytes, ...), and each plane is compressed with zstd. Neighboring values have similar
// exponents and dissimilar mantissas: the exponent planes shrink, the others are stored unchanged.
//
//   byte 0       bytes per value: 1, 2 or 4
//   each plane   4 bytes: stored length, highest bit set if the plane is not compressed; then its bytes
//   end          bytes after the last complete value, unchanged
// Integers are little-endian. The caller of unpack_numbers() gives the size of the output; nothing is
// allocated from sizes in the packed data.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace reprise::protocol::snapshots {

inline constexpr std::size_t kMaxPacked = 1u << 30;  // bytes that can be packed

/// Returns nothing if the result would not be at least 5 % smaller, or if `plain` is larger than kMaxPacked.
std::optional<std::vector<std::byte>> pack_numbers(std::span<const std::byte> plain);

/// Returns false if `packed` is malformed or does not give exactly plain.size() bytes; `plain` is unspecified
/// then.
bool unpack_numbers(std::span<const std::byte> packed, std::span<std::byte> plain);

}  // namespace reprise::protocol::snapshots
