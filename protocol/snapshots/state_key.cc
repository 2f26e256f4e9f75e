#include "protocol/snapshots/state_key.h"

#include <cstring>

#include "base/check.h"

namespace reprise::protocol::snapshots {
namespace {

Key next_link(const Key& names, std::string_view label, const Key& before, std::span<const TokenId> tokens) {
  std::vector<std::byte> data(before.begin(), before.end());
  const auto bytes = std::as_bytes(tokens);
  data.insert(data.end(), bytes.begin(), bytes.end());
  return keyed_digest(names, label, data);
}

}  // namespace

RecordId turn_record(const NamespaceKeys& keys, std::string_view turn) {
  return id_of(keyed_digest(keys.names, "turn", std::as_bytes(std::span(turn))));
}

PrefixNames::PrefixNames(const NamespaceKeys& keys, const StateKind& kind, std::span<const TokenId> tokens)
    : names_(keys.names), page_tokens_(kind.page_tokens), tokens_(tokens) {
  REPRISE_CHECK(page_tokens_ > 0, "the number of tokens in a page is 0");
  const std::uint64_t numbers[] = {kind.arithmetic, kind.page_bytes, kind.slot_bytes, kind.page_tokens};
  chain_.push_back(keyed_digest(names_, "beginning", std::as_bytes(std::span(numbers))));
  for (std::size_t end = page_tokens_; end <= tokens.size(); end += page_tokens_) {
    chain_.push_back(
        next_link(names_, "page", chain_.back(), tokens.subspan(end - page_tokens_, page_tokens_)));
  }
}

RecordId PrefixNames::at(std::uint32_t length, std::string_view what) const {
  REPRISE_CHECK(length <= tokens_.size(), "the position is beyond the prompt's tokens");
  const std::size_t full = length / page_tokens_;
  return id_of(next_link(names_, what, chain_[full],
                         tokens_.subspan(full * page_tokens_, length - full * page_tokens_)));
}

}  // namespace reprise::protocol::snapshots
