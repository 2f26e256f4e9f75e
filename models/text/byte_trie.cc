#include "models/text/byte_trie.h"

namespace reprise::models {

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
