#include "models/sampling/noise.h"

namespace reprise::models {
namespace {

std::uint32_t low(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
std::uint32_t high(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  constexpr int kRounds = 10;
  constexpr std::uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
  constexpr std::uint32_t kBump0 = 0x9E3779B9, kBump1 = 0xBB67AE85;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t a = kMultiply0 * counter[0];
    const std::uint64_t b = kMultiply1 * counter[2];
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key = {key[0] + kBump0, key[1] + kBump1};
  }
  return counter;
}

double uniform(std::uint64_t seed, std::uint32_t choice, std::uint64_t step) {
  const auto words = philox({low(step), high(step), choice, 0}, {low(seed), high(seed)});
  const std::uint64_t bits = words[0] | std::uint64_t{words[1]} << 32;
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

double second_uniform(std::uint64_t seed, std::uint32_t choice, std::uint64_t step) {
  const auto words = philox({low(step), high(step), choice, 0}, {low(seed), high(seed)});
  const std::uint64_t bits = words[2] | std::uint64_t{words[3]} << 32;
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace reprise::models
