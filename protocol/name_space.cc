#include "protocol/name_space.h"

#include <algorithm>
#include <charconv>

namespace reprise::protocol {
namespace {

constexpr std::string_view kOfAdapter = "adapter ";

}  // namespace

std::string name_space_of(std::string_view owner, std::string_view cache_salt) {
  if (owner.empty() && cache_salt.empty()) return {};
  // The length marks where the owner ends.
  return std::to_string(owner.size()) + ":" + std::string(owner) + ":" + std::string(cache_salt);
}

NameSpaceParts parts_of(std::string_view name_space) {
  NameSpaceParts parts;
  parts.of_adapter = name_space.starts_with(kOfAdapter);
  if (parts.of_adapter) name_space.remove_prefix(std::min(name_space.find('\n'), name_space.size() - 1) + 1);
  std::size_t length = 0;
  const char* const end = name_space.data() + name_space.size();
  const auto [parsed, error] = std::from_chars(name_space.data(), end, length);
  if (error != std::errc() || parsed == end || *parsed != ':') return parts;
  name_space.remove_prefix(static_cast<std::size_t>(parsed - name_space.data()) + 1);
  parts.owner = name_space.substr(0, length);
  parts.salted = name_space.size() > length + 1;
  return parts;
}

}  // namespace reprise::protocol
