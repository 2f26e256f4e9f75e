#include "protocol/grammar/vocabulary.h"

#include <algorithm>

#include "base/check.h"

namespace reprise::protocol::grammar {
namespace {

// Returns the number of characters of a plain token, including an incomplete last one; 0: not plain.
std::uint32_t plain_chars(std::string_view bytes) {
  std::uint32_t count = 0;
  CharProgress progress = 0;
  for (const char c : bytes) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (progress == 0 && (byte == '"' || byte == '\\' || byte < 0x20)) return 0;
    const CharStep step = utf8_step(progress, byte);
    if (step.kind == CharStep::Kind::kBad) return 0;
    progress = step.progress;
    if (step.kind == CharStep::Kind::kWhole) ++count;
    if (step.code_point == 0x2028 || step.code_point == 0x2029) return 0;
  }
  if (progress != 0) ++count;
  return count;
}

bool is_long(std::string_view bytes) {
  return std::count_if(bytes.begin(), bytes.end(), [](char c) {
           return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
         }) >= static_cast<std::ptrdiff_t>(Vocabulary::kMaxChars);
}

// A trie node before the layout in one array, with children in byte order.
struct BuildNode {
  std::vector<std::pair<std::uint8_t, std::uint32_t>> children{};
  TokenId token = -1;
  bool only_plain = true;
};

}  // namespace

Vocabulary::Vocabulary(std::vector<Token> tokens, std::vector<TokenId> stops, std::size_t size)
    : tokens_(std::move(tokens)), stops_(std::move(stops)), size_(size), same_(tokens_.size(), -1) {
  REPRISE_CHECK(tokens_.size() <= size_, "the vocabulary has more tokens than there are logits");
  std::vector<TokenId> order;
  std::vector<std::uint32_t> plain(tokens_.size());
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    const bool stops_reply =
        std::find(stops_.begin(), stops_.end(), static_cast<TokenId>(id)) != stops_.end();
    if (tokens_[id].bytes.empty() || stops_reply) continue;
    if (tokens_[id].special) {
      specials_.push_back(static_cast<TokenId>(id));
      continue;
    }
    if (is_long(tokens_[id].bytes)) {
      long_tokens_.push_back(static_cast<TokenId>(id));
      continue;
    }
    order.push_back(static_cast<TokenId>(id));
    plain[id] = plain_chars(tokens_[id].bytes);
  }
  const auto bytes_of = [this](TokenId id) -> const std::string& { return token(id).bytes; };
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return bytes_of(a) < bytes_of(b); });

  std::vector<BuildNode> built(1);
  std::vector<std::uint32_t> path = {0};  // trie nodes of the previous token
  const std::string* before = nullptr;
  for (const TokenId id : order) {
    const std::string& bytes = bytes_of(id);
    std::size_t shared = 0;
    while (before != nullptr && shared < before->size() && shared < bytes.size() &&
           (*before)[shared] == bytes[shared]) {
      ++shared;
    }
    path.resize(shared + 1);
    for (std::size_t i = shared; i < bytes.size(); ++i) {
      const auto child = static_cast<std::uint32_t>(built.size());
      built.emplace_back();
      built[path.back()].children.emplace_back(static_cast<std::uint8_t>(bytes[i]), child);
      path.push_back(child);
    }
    BuildNode& last = built[path.back()];
    if (last.token >= 0) same_[static_cast<std::size_t>(id)] = last.token;
    last.token = id;
    if (plain[static_cast<std::size_t>(id)] == 0) {
      for (const std::uint32_t node : path) built[node].only_plain = false;
    }
    before = &bytes;
  }

  nodes_.reserve(built.size());
  const auto lay_out = [&](const auto& self, std::uint32_t from, std::uint8_t byte) -> void {
    const std::size_t at = nodes_.size();
    nodes_.push_back({.token = built[from].token,
                      .plain = static_cast<std::uint32_t>(plain_tokens_.size()),
                      .byte = byte,
                      .only_plain = built[from].only_plain});
    for (TokenId id = built[from].token; id >= 0; id = same_as(id)) {
      if (plain[static_cast<std::size_t>(id)] != 0) plain_tokens_.push_back(id);
    }
    for (const bool plain_ones : {false, true}) {
      for (const auto& [next, child] : built[from].children) {
        if (built[child].only_plain == plain_ones) self(self, child, next);
      }
    }
    nodes_[at].end = static_cast<std::uint32_t>(nodes_.size());
    nodes_[at].plain_end = static_cast<std::uint32_t>(plain_tokens_.size());
  };
  lay_out(lay_out, 0, 0);

  std::vector<TokenId> by_chars = plain_tokens_;
  const auto chars_of = [&](TokenId id) { return plain[static_cast<std::size_t>(id)]; };
  std::stable_sort(by_chars.begin(), by_chars.end(),
                   [&](TokenId a, TokenId b) { return chars_of(a) < chars_of(b); });
  TokenMask so_far(size_);
  std::size_t next = 0;
  for (std::uint32_t chars = 0; chars <= kMaxChars; ++chars) {
    for (; next < by_chars.size() && chars_of(by_chars[next]) <= chars; ++next) so_far.allow(by_chars[next]);
    plain_masks_.push_back(so_far);
  }
}

}  // namespace reprise::protocol::grammar
