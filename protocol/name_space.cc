#include "protocol/name_space.h"

#include <algorithm>
#include <charconv>

namespace reprise::protocol {
namespace {

constexpr std::string_view kOfAdapter = "adapter ";
constexpr std::string_view kOfBudget = "compacted ";  // no owner's length begins so

/// Characters of the line that a name begins with, if it is of this kind.
std::size_t line_of(std::string_view kind, std::string_view name) {
  if (!name.starts_with(kind)) return 0;
  return std::min(name.find('\n'), name.size() - 1) + 1;
}

}  // namespace

std::string compacted_name_space(std::string_view name_space, const KvBudget& budget) {
  const std::size_t adapter = line_of(kOfAdapter, name_space);
  std::string name(name_space.substr(0, adapter));
  name += kOfBudget;
  for (const std::uint32_t figure : {budget.tokens, budget.window, budget.sinks, budget.pool_width}) {
    name += std::to_string(figure) + " ";
  }
  name += name_of(budget.pooling);
  name += '\n';
  return name += name_space.substr(adapter);
}

bool is_compacted(std::string_view name_space) {
  return name_space.substr(line_of(kOfAdapter, name_space)).starts_with(kOfBudget);
}

std::string name_space_of(std::string_view owner, std::string_view cache_salt) {
  if (owner.empty() && cache_salt.empty()) return {};
  // The length makes it clear where the owner ends.
  return std::to_string(owner.size()) + ":" + std::string(owner) + ":" + std::string(cache_salt);
}

NameSpaceParts parts_of(std::string_view name_space) {
  NameSpaceParts parts;
  const auto take_line = [&](std::string_view kind) {
    const std::size_t line = line_of(kind, name_space);
    name_space.remove_prefix(line);
    return line > 0;
  };
  parts.of_adapter = take_line(kOfAdapter);
  parts.compacted = take_line(kOfBudget);
  std::size_t length = 0;
  const char* const end = name_space.data() + name_space.size();
  const auto [behind, error] = std::from_chars(name_space.data(), end, length);
  if (error != std::errc() || behind == end || *behind != ':') return parts;
  name_space.remove_prefix(static_cast<std::size_t>(behind - name_space.data()) + 1);
  parts.owner = name_space.substr(0, length);
  parts.salted = name_space.size() > length + 1;
  return parts;
}

}  // namespace reprise::protocol
