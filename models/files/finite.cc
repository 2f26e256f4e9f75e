#include "models/files/finite.h"

#include <cstdint>
#include <cstring>

namespace reprise::models {
namespace {

// Whether any number is infinite or not a number: all bits of its exponent are set.
template <class Word>
bool has_nonfinite(std::span<const std::byte> bytes, Word exponent) {
  Word found = 0;
  for (std::size_t i = 0; i + sizeof(Word) <= bytes.size(); i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + i, sizeof(Word));
    found |= static_cast<Word>((word & exponent) == exponent);
  }
  return found != 0;
}

}  // namespace

bool has_nonfinite(DType type, std::span<const std::byte> bytes) {
  switch (type) {
    case DType::kF32:
      return has_nonfinite<std::uint32_t>(bytes, 0x7f800000u);
    case DType::kBF16:
      return has_nonfinite<std::uint16_t>(bytes, 0x7f80u);
    case DType::kF16:
      return has_nonfinite<std::uint16_t>(bytes, 0x7c00u);
    case DType::kF8E4M3: {  // it has no infinities
      bool found = false;
      for (const std::byte element : bytes) found |= (element & std::byte{0x7f}) == std::byte{0x7f};
      return found;
    }
    default:
      break;
  }
  // Read all the same, so that the file is in memory afterwards.
  volatile std::byte sink{};
  for (std::size_t i = 0; i < bytes.size(); i += 4096) sink = bytes[i];
  static_cast<void>(sink);
  return false;
}

}  // namespace reprise::models
