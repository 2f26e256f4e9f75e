#pragma once
// Ids of the calls of one reply: the same for the same seed and place.
//
// Threading: one thread at a time.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::protocol {

class CallIds {
 public:
  /// `short_ids`: nine letters and digits, which some templates insist on.
  CallIds(std::string seed, bool short_ids) : seed_(std::move(seed)), short_ids_(short_ids) {}

  /// The id of the next call: the model's own, where it wrote one that can be used.
  std::string next(std::string from_model) {
    const std::uint32_t index = next_++;
    if (!from_model.empty() && (!short_ids_ || is_short_id(from_model))) return from_model;
    return short_ids_ ? short_id(index) : "call_" + seed_ + "_" + std::to_string(index);
  }

 private:
  static constexpr std::size_t kShort = 9;
  static constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

  static bool is_short_id(std::string_view id) {
    return id.size() == kShort && id.find_first_not_of(kLetters) == std::string_view::npos;
  }

  std::string short_id(std::uint32_t index) const {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    const auto mix = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
    for (const char c : seed_) mix(static_cast<unsigned char>(c));
    for (int shift = 0; shift < 32; shift += 8) mix(static_cast<unsigned char>(index >> shift));
    hash ^= hash >> 31;
    std::string id(kShort, '0');
    for (char& c : id) {
      c = kLetters[hash % kLetters.size()];
      hash /= kLetters.size();
    }
    return id;
  }

  const std::string seed_;
  const bool short_ids_;
  std::uint32_t next_ = 0;
};

}  // namespace reprise::protocol
