#pragma once
// Numbers made smaller without loss: their bytes are sorted into planes (all first bytes, then all second ones, ...) and
// each plane is compressed by zstd. Neighbouring numbers of a state have like exponents and unlike fractions: the planes
// of the former shrink, those of the latter are left as they are.
//
//   byte 0          bytes of a number: 1, 2 or 4
//   then each plane: 4 bytes, its length here; the highest bit is set where it lies there as it is; then its bytes
//   at the end the bytes behind the last whole number, as they are
// Numbers are little-endian.
//
// Whoever unpacks says how much is to come out; nothing is allocated by what packed bytes say.
//
// Threading: pure functions.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace reprise::protocol::snapshots {

/// Nothing where it would not be smaller by a twentieth, or is over 1 GiB.
std::optional<std::vector<std::byte>> pack_numbers(std::span<const std::byte> plain);

/// False: it is nothing that was packed, or not of that size. What `plain` holds then is anything.
bool unpack_numbers(std::span<const std::byte> packed, std::span<std::byte> plain);

}  // namespace reprise::protocol::snapshots
