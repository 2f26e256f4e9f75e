#pragma once
// Skips with a name. A test that wants something of the machine which may be missing skips with
//
//   if (!RedisServer::is_installed()) REPRISE_SKIP_WITHOUT("redis", "no redis-server in PATH");
//
// which prints `skipped for want of redis: no redis-server in PATH` on stdout. The environment variable REPRISE_REQUIRE, a
// comma-separated list of names, turns a skip for want of these into a failure. tests/require.py is the same for Python and
// reads the names here.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace reprise::test {

struct NeedName {
  std::string_view name;
  std::string_view what;
};

inline constexpr std::array kNeeds = std::to_array<NeedName>({
    {"bash", "bash in PATH"},
    {"build-id", "a linker that gives programs an id"},
    {"compiler", "g++ and clang++-16 in PATH, for sources that must not compile"},
    {"curl", "curl in PATH"},
    {"fish", "fish in PATH"},
    {"gpu", "an NVIDIA GPU, and CUDA compiled in"},
    {"groff", "groff in PATH"},
    {"ipv6", "the address ::1"},
    {"libstdcxx", "libstdc++, for keys that collide in its hash"},
    {"memory", "a quarter of the machine's memory free"},
    {"mounts", "the right to mount a tmpfs in a namespace of one's own"},
    {"open-files", "a limit of open files that lets a thousand connections be held"},
    {"oracle", "reference answers that are not part of the project: ../shared/oracle, or REPRISE_SHARED"},
    {"readelf", "readelf in PATH"},
    {"redis", "redis-server in PATH"},
    {"sm90", "a GPU of compute capability 9.0"},
    {"systemd", "systemd-analyze in PATH"},
    {"tracy", "a build with Tracy, and its programs"},
    {"unsanitized", "a build without sanitizers, which have an allocator and a speed of their own"},
    {"zsh", "zsh in PATH"},
    // Sets of kernels, by the names of gpu/compute.h: the processor has the instructions.
    {"neon", "NEON"},
    {"neon-dotprod", "NEON with FEAT_DotProd"},
    {"neon-i8mm", "NEON with FEAT_I8MM and FEAT_BF16"},
    {"avx2", "AVX2, FMA and F16C"},
    {"avx2-vnni", "AVX-VNNI"},
    {"avx512", "AVX-512 F, BW and VL"},
    {"avx512-vnni", "AVX512_VNNI"},
    {"avx512-amx", "AMX tiles of bf16 and int8"},
});

constexpr bool is_need(std::string_view name) {
  return std::any_of(kNeeds.begin(), kNeeds.end(), [&](const NeedName& need) { return need.name == name; });
}

/// One of kNeeds. A literal that is none does not compile.
class Need {
 public:
  consteval Need(const char* name) : name_(name) {
    if (!is_need(name)) throw "no name of kNeeds";
  }
  static Need named(std::string_view name) {
    Need need("gpu");
    need.name_ = name;
    if (!is_need(name)) std::abort();
    return need;
  }
  std::string_view name() const { return name_; }

 private:
  std::string_view name_;
};

/// The items of a comma-separated list, each given to `take`; empty ones are left out.
template <class Take>
void each_of_list(std::string_view list, const Take& take) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    if (!item.empty()) take(item);
    list.remove_prefix(std::min(item.size() + 1, list.size()));
  }
}

inline std::string_view required_list() {
  const char* list = std::getenv("REPRISE_REQUIRE");
  return list == nullptr ? std::string_view() : std::string_view(list);
}

inline bool is_required(const Need& need) {
  bool found = false;
  each_of_list(required_list(), [&](std::string_view item) { found = found || item == need.name(); });
  return found;
}

/// The line of a skip, which it also prints.
inline std::string told_skip(const Need& need, const std::string& message) {
  const std::string line = "skipped for want of " + std::string(need.name()) + ": " + message;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  return line;
}

}  // namespace reprise::test

/// Ends the test, or the SetUp(), in which it stands.
#define REPRISE_SKIP_WITHOUT(wanted, message)                            \
  do {                                                                   \
    const ::reprise::test::Need need_of_skip(wanted);                    \
    if (::reprise::test::is_required(need_of_skip)) {                    \
      GTEST_FAIL() << "REPRISE_REQUIRE names '" << need_of_skip.name()   \
                   << "', and there is none: " << (message);             \
    }                                                                    \
    GTEST_SKIP() << ::reprise::test::told_skip(need_of_skip, (message)); \
  } while (false)
