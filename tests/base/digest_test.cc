#include "base/digest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise {
namespace {

std::uint64_t of(std::string_view text) {
  return digest_of(std::as_bytes(std::span(text)));
}

TEST(Digest, IsTheSameOnEveryMachine) {
  // XXH3 test vectors without a seed.
  EXPECT_EQ(of(""), 0x2d06800538d394c2u);
  EXPECT_EQ(of("a"), 0xe6c632b61e964e1fu);
}

TEST(Digest, EveryByteCounts) {
  std::string bytes(1000, 'x');
  const std::uint64_t whole = of(bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = 'y';
    EXPECT_NE(of(bytes), whole) << i;
    bytes[i] = 'x';
  }
  EXPECT_EQ(of(bytes), whole);
}

TEST(Digest, OrderAndBoundsCount) {
  const auto both = [](std::string_view a, std::string_view b) { return Digest().add(a).add(b).value(); };
  EXPECT_EQ(both("ab", "c"), both("ab", "c"));
  EXPECT_NE(both("ab", "c"), both("a", "bc"));
  EXPECT_NE(both("ab", "c"), both("c", "ab"));
  EXPECT_NE(Digest().add("").value(), Digest().value());
  EXPECT_NE(Digest().add(std::uint64_t{0}).value(), Digest().value());
}

}  // namespace
}  // namespace reprise
