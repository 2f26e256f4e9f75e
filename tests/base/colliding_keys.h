#pragma once
// Makes keys with equal hashes under libstdc++'s std::hash<std::string>, as an attacker on a hash table
// would.
//
// The hash mixes eight bytes at a time into its state by invertible steps, so for any first eight bytes of a
// piece one choice of the next eight leads to a given state. Choices of plain characters are kept;
// concatenating pieces gives all combinations.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace reprise::protocol {

class CollidingKeys {
 public:
  /// Returns `count` distinct keys of 64 plain characters, the same at every call.
  static std::vector<std::string> make(std::size_t count) {
    std::vector<std::string> keys{""};
    CollidingKeys state;
    for (int piece = 0; piece < kPieces; ++piece) {
      const std::vector<std::string> choices = state.next_piece(kChoices);
      std::vector<std::string> longer;
      for (const std::string& key : keys) {
        for (const std::string& choice : choices) {
          if (longer.size() < count) longer.push_back(key + choice);
        }
      }
      keys = std::move(longer);
    }
    return keys;
  }

 private:
  static constexpr int kPieces = 4;
  static constexpr std::size_t kChoices = 18;  // 18^4 keys at most
  static constexpr std::size_t kLength = kPieces * 16;
  static constexpr std::uint64_t kMul = 0xc6a4a7935bd1e995;
  static constexpr std::uint64_t kSeed = 0xc70f6907;

  static constexpr std::uint64_t inverse() {  // inverse of kMul modulo 2^64
    std::uint64_t x = kMul;
    for (int i = 0; i < 6; ++i) x *= 2 - kMul * x;
    return x;
  }
  static std::uint64_t shift_mix(std::uint64_t v) { return v ^ (v >> 47); }  // an involution
  static std::uint64_t mixed(std::uint64_t block) { return shift_mix(block * kMul) * kMul; }
  static std::uint64_t unmixed(std::uint64_t v) { return shift_mix(v * inverse()) * inverse(); }
  static std::uint64_t step(std::uint64_t state, std::uint64_t block) {
    return (state ^ mixed(block)) * kMul;
  }

  static bool is_plain(std::uint64_t block) {
    for (int i = 0; i < 8; ++i, block >>= 8) {
      const auto c = static_cast<unsigned char>(block);
      if (c < 0x20 || c > 0x7e || c == '"' || c == '\\') return false;
    }
    return true;
  }

  std::uint64_t plain_block() {
    std::uint64_t block = 0;
    for (int i = 0; i < 8; ++i) block = block << 8 | ('a' + random_() % 26);
    return block;
  }

  // Returns pieces of 16 bytes that lead from the current state to the same next one.
  std::vector<std::string> next_piece(std::size_t count) {
    const std::uint64_t middle = step(state_, plain_block());
    const std::uint64_t next = step(middle, plain_block());
    std::vector<std::string> pieces;
    while (pieces.size() < count) {
      const std::uint64_t first = plain_block();
      const std::uint64_t second = unmixed(step(state_, first) ^ next * inverse());
      if (!is_plain(second)) continue;
      std::string piece(16, '\0');
      std::memcpy(piece.data(), &first, 8);
      std::memcpy(piece.data() + 8, &second, 8);
      pieces.push_back(std::move(piece));
    }
    state_ = next;
    return pieces;
  }

  std::uint64_t state_ = kSeed ^ (kLength * kMul);
  std::mt19937_64 random_{1};
};

/// Returns the keys as members of an object, without braces.
inline std::string colliding_members(std::size_t count) {
  std::string text;
  for (const std::string& key : CollidingKeys::make(count))
    text += (text.empty() ? "\"" : ",\"") + key + "\":0";
  return text;
}

}  // namespace reprise::protocol
