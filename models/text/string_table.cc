#include "models/text/string_table.h"

#include <algorithm>
#include <bit>

namespace reprise::models {

StringTable::StringTable(const std::vector<std::string>& strings, bool with_find) {
  std::size_t total = 0;
  for (const std::string& text : strings) total += text.size();
  bytes_.reserve(total);
  ends_.reserve(strings.size());
  slots_.resize(with_find ? std::bit_ceil(strings.size() * 2 + 1) : 1);
  const std::size_t mask = slots_.size() - 1;
  for (const std::string& text : strings) {
    const auto number = static_cast<std::int32_t>(ends_.size());
    bytes_ += text;
    ends_.push_back(bytes_.size());
    longest_ = std::max(longest_, text.size());
    if (text.empty() || !with_find) continue;
    const std::uint64_t hash = hash_of(text);
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    std::size_t slot = hash & mask;
    while (slots_[slot].number != kNone &&
           (slots_[slot].tag != tag || (*this)[slots_[slot].number] != text)) {
      slot = (slot + 1) & mask;
    }
    slots_[slot] = {tag, number};
  }
}

std::int32_t StringTable::find(std::string_view text) const {
  if (text.empty() || text.size() > longest_) return kNone;
  const std::uint64_t hash = hash_of(text);
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash & mask; slots_[slot].number != kNone; slot = (slot + 1) & mask) {
    if (slots_[slot].tag == tag && (*this)[slots_[slot].number] == text) return slots_[slot].number;
  }
  return kNone;
}

void ByteTrie::add(std::string_view text, TokenId id) {
  if (text.empty()) return;
  const auto new_node = [&](char byte) {
    nodes_.push_back({byte});
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  };
  std::uint32_t& root = roots_[static_cast<unsigned char>(text.front())];
  if (root == kNone) root = new_node(text.front());
  std::uint32_t node = root;
  for (const char byte : text.substr(1)) {
    std::uint32_t next = child(node, byte);
    if (next == kNone) {
      next = new_node(byte);
      nodes_[next].sibling = nodes_[node].first_child;
      nodes_[node].first_child = next;
    }
    node = next;
  }
  nodes_[node].id = id;
}

}  // namespace reprise::models
