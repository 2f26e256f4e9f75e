#include "protocol/sampled_turns.h"

#include <algorithm>
#include <cstring>

namespace reprise::protocol {
namespace {

std::size_t size_of(const SampledTurn& turn) {
  return 3 * turn.text.size() + sizeof(TokenId) * turn.tokens.size() +
         1024;  // factor 3: the message repeats the text
}

void append(std::vector<std::byte>& to, const void* from, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(from);
  to.insert(to.end(), first, first + bytes);
}

void append_text(std::vector<std::byte>& to, std::string_view text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  append(to, &size, sizeof size);
  append(to, text.data(), text.size());
}

std::optional<std::string_view> take_text(std::span<const std::byte>& from) {
  std::uint32_t size = 0;
  if (from.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, from.data(), sizeof size);
  from = from.subspan(sizeof size);
  if (from.size() < size) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(from.data()), size);
  from = from.subspan(size);
  return text;
}

}  // namespace

std::string turn_name(const Json& message) {
  const Json::Array* calls = message.find_array("tool_calls");
  const bool has_calls = calls != nullptr && !calls->empty();
  const std::string* name = has_calls ? calls->front().find_string("id") : message.find_string(kTurnMember);
  return name == nullptr ? std::string() : *name;
}

std::vector<std::byte> to_bytes(const SampledTurn& turn) {
  std::vector<std::byte> bytes;
  append_text(bytes, Json{{"name", turn.name}, {"message", turn.message}}.dump());
  append_text(bytes, turn.text);
  append(bytes, turn.tokens.data(), turn.tokens.size() * sizeof(TokenId));
  return bytes;
}

std::optional<SampledTurn> sampled_turn_of(std::span<const std::byte> bytes) {
  const std::optional<std::string_view> head = take_text(bytes);
  const std::optional<std::string_view> text = head ? take_text(bytes) : std::nullopt;
  if (!text || bytes.size() % sizeof(TokenId) != 0) return std::nullopt;
  const auto json = Json::parse(*head);
  if (!json.ok()) return std::nullopt;
  const std::string* name = json->find_string("name");
  const Json* message = json->find_object("message");
  if (name == nullptr || message == nullptr) return std::nullopt;
  SampledTurn turn{.name = *name, .message = *message, .text = std::string(*text)};
  turn.tokens.resize(bytes.size() / sizeof(TokenId));
  if (!bytes.empty()) std::memcpy(turn.tokens.data(), bytes.data(), bytes.size());
  return turn;
}

void TurnCache::drop(std::map<Key, Entry>::iterator entry) {
  const auto tenant = entry->second.tenant;
  const std::size_t size = size_of(*entry->second.turn);
  bytes_ -= size;
  tenant->second.bytes -= size;
  tenant->second.order.erase(entry->second.in_order);
  if (tenant->second.order.empty()) tenants_.erase(tenant);
  entries_.erase(entry);
}

void TurnCache::keep(std::string_view tenant, std::uint64_t model, const std::string& name_space,
                     SharedTurn turn) {
  const std::size_t size = size_of(*turn);
  if (size > max_bytes_ / 4) return;
  const std::lock_guard lock(mutex_);
  const Key key{model, name_space, turn->name};
  if (const auto old = entries_.find(key); old != entries_.end()) drop(old);
  const auto held = tenants_.try_emplace(std::string(tenant)).first;
  held->second.order.push_back(key);
  held->second.bytes += size;
  bytes_ += size;
  entries_.emplace(
      key, Entry{.turn = std::move(turn), .tenant = held, .in_order = std::prev(held->second.order.end())});
  while (bytes_ > max_bytes_) {
    const auto largest = std::max_element(tenants_.begin(), tenants_.end(), [](const auto& a, const auto& b) {
      return a.second.bytes < b.second.bytes;
    });
    drop(entries_.find(largest->second.order.front()));
  }
}

SharedTurn TurnCache::find(std::uint64_t model, const std::string& name_space, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find({model, name_space, name});
  if (found == entries_.end()) return nullptr;
  auto& order = found->second.tenant->second.order;
  order.splice(order.end(), order, found->second.in_order);
  return found->second.turn;
}

std::size_t TurnCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace reprise::protocol
